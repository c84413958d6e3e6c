"""Stored runs, as their readers see them: `load_run` and `load_campaign` as records, `frame` as one table."""

from harness.runs.frames import frame
from harness.runs.stored import (
    GROUP,
    MANIFEST,
    MEASUREMENTS,
    NAMED,
    PROFILE,
    RATIOS,
    SAMPLES,
    SETTLED,
    ResultsError,
    Run,
    block_table,
    blocks_of,
    complete_lines,
    load_campaign,
    load_manifest,
    load_run,
)

__all__ = [
    "GROUP",
    "MANIFEST",
    "MEASUREMENTS",
    "NAMED",
    "PROFILE",
    "RATIOS",
    "SAMPLES",
    "SETTLED",
    "ResultsError",
    "Run",
    "block_table",
    "blocks_of",
    "complete_lines",
    "frame",
    "load_campaign",
    "load_manifest",
    "load_run",
]
