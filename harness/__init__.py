"""The benchmark harness: it plans cases, verifies them, times them in interleaved rounds, and stores what it saw.

Nothing here imports `tk_kernels` or `baselines`: implementations are reached only through the `_target_` strings of
`configs/workload/*.yaml`.  Readers of stored results need `harness.results`, and `harness.naming` for the names of
cases.

- Commands, each `python -m harness.<name>`: batch cluster compare dashboards predecessors publish trace.
  Nsight Compute starts profile_case. `python -m harness` itself is cli, with help and console.
- How a command ends: entry.
- Names and records: errors former_names naming places provenance records seeds settings.
- What is asked for: implementations planning refusals small_problems workloads.
- What happens to it: devices invocation ledger ncu outputs runner timing verification worker.
- What is made of it: assemble change contradictions datasheets headline library_sizes repetition roofline roofs
  samples stats.
- Where it is kept and read: results store.
"""
