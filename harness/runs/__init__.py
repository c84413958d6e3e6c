"""Stored runs, as their readers see them: `load_run` and `load_campaign` as records, `frame` as one table."""

from harness.records.errors import ResultsError
from harness.runs.frames import frame
from harness.runs.stored import GROUP, MANIFEST, Run, load_campaign, load_manifest, load_run

__all__ = ["GROUP", "MANIFEST", "ResultsError", "Run", "frame", "load_campaign", "load_manifest", "load_run"]
