"""From recorded runs to the paper's tables, figures and claims, each beside the published number.

The folders follow a claim's way, and imports run back along it alone: `published` (the paper's numbers and claims);
`recorded` (experiments, and the run that speaks for a case); `judged` (quantities and verdicts); `shown` (tables,
figures, the report); `exhibits` (one module each) and `command` (`reproduce-paper`).

Reads runs through `harness.runs` and names through `harness.records.naming`; measuring is left to `python -m harness`.
"""
