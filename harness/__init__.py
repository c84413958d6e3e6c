"""The benchmark harness: it plans cases, verifies them, times them in interleaved rounds, and stores what it saw.

Nothing here imports `tk_kernels` or `baselines`: implementations are reached only through the `_target_` strings of
`configs/workload/*.yaml`.  Readers of stored results need `harness.results`, and
`harness.naming` for the names of cases.
"""
