"""One night on a GPU machine: preflight, build, verify, measure, compare with the nights before, report.

`python -m tools.nightly --help`; `make nightly` makes the environment first. It runs the same by hand and in
automation.
"""
