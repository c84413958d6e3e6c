"""Libraries without a wheel: put what was built of them where the baselines find it, and say which builds are there.

``python -m tools.sources install LIBRARY PATH`` and ``python -m tools.sources list``. `libraries` reads the data file,
`install` checks a build and puts it in place. Nothing here compiles: a build comes from the library's own instructions.
"""
