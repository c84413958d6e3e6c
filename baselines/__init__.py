"""The libraries the kernels are compared with: a folder a family, in it one module a library.

Each module offers one class a workload (`Gemm`, ...), a `baselines.common.baseline.Baseline`: it declares its library,
its options and its limits, and has `prepare(problem, inputs)`, which returns the call that is timed. Importing a module
imports no library but PyTorch: that happens in `prepare`, so that a library which is not installed is a row with a
reason and not an error.

In a family, `problem.py` says what its baselines read of a problem, `names.py` whose kernel a name is in the profiler,
`*_device.py` holds device code. Families import `common` and nothing of each other.
"""
