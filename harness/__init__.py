"""The benchmark harness: it plans cases, verifies them, times them in interleaved rounds, and stores what it saw.

Nothing here imports `tk_kernels` or `baselines`: implementations are reached only through the `_target_` strings of
`configs/workload/*.yaml`. Rooms along the way of a measurement, each of which imports those before it alone:

- records: rows of a run, names of cases, statistics of samples.
- workloads: what is computed, its reference, FLOPs and bytes.
- plan: a configuration as cases and contestants.
- devices: where calls run, and the clock.
- measure: the worker, which verifies and times, and the process that watches it.
- runs: where results are kept and read; readers start at `harness.runs`.
- between: what only several runs together tell.
- command: what a user types, sees and is told.
"""
