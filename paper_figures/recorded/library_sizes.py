"""How large libraries are, by what the runs of a campaign found installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.results import Run


@dataclass(frozen=True)
class RecordedSize:
    """A library's entry in a run's manifest: `version` and `bytes` by kind, or the `reason` of none."""

    run_id: str
    entry: Mapping[str, Any]

    @property
    def known(self) -> bool:
        return isinstance(self.entry.get("bytes"), Mapping)


def recorded_sizes(runs: Sequence[Run]) -> dict[str, RecordedSize]:
    """Of each library what the newest run says that found it installed, or the newest of all where none did.

    runs: the newest first.  A node brings the libraries that its exhibits want, so that one run need not have all.
    """
    found: dict[str, RecordedSize] = {}
    for run in runs:
        for name, entry in (run.manifest.get("library_sizes") or {}).items():
            one = RecordedSize(run.run_id, entry or {})
            if name not in found or (one.known and not found[name].known):
                found[name] = one
    return found
