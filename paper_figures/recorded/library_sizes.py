"""How large libraries are, by what the runs of a campaign found installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.runs import Run


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

    runs: the newest first.  A node brings the libraries that its exhibits want, so that one run need not have all.  Its
    copy of the repository may lack files, which older runs did not tell.  So of runs that have the newest's commit and
    version of a library, the one that found most speaks.
    """
    found: dict[str, RecordedSize] = {}
    of: dict[str, tuple[str, str]] = {}
    for run in runs:
        for name, entry in (run.manifest.get("library_sizes") or {}).items():
            one = RecordedSize(run.run_id, entry or {})
            state = (str(run.manifest.get("git_commit")), str(one.entry.get("version")))
            fuller = name in found and of[name] == state and _all(one) > _all(found[name])
            if name not in found or (one.known and not found[name].known) or fuller:
                found[name], of[name] = one, state
    return found


def _all(size: RecordedSize) -> float:
    """The bytes of everything that was found."""
    return float(size.entry["bytes"]["all"]) if size.known else 0.0
