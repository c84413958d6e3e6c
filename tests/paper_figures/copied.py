"""A recorded run as if another GPU had measured it, for tests and for looking at a page.  Never results."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

from harness.records.datasheets import find_datasheet
from harness.runs import MANIFEST, load_run

H100, H200 = "NVIDIA H100 80GB HBM3", "NVIDIA H200"
"""As their drivers report them."""


def copy_run(run: Path, campaign: Path, run_id: str, gpu: str = H100, todays: bool = False) -> Path:
    """Copies a run into a campaign under another name and GPU, and reads it with the harness's own reader.

    todays: gives its kernels the machine code that the tree has now, so that no number is stale.
    """
    folder = campaign / run_id
    shutil.copytree(run, folder)
    manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    sheet = find_datasheet(gpu)
    assert sheet is not None
    own = {name: getattr(sheet, name) for name in ("slug", "name", "gbps", "boost_mhz", "tflops", "source")}
    manifest |= {"run_id": run_id, "campaign": campaign.name, "gpu": {**manifest["gpu"], "name": gpu}, "datasheet": own}
    if todays:
        from paper_figures.recorded.machine_code import MACHINE_CODE

        now = json.loads(MACHINE_CODE.read_text())
        for build in manifest["kernel_builds"].values():
            build |= now.get(build["name"], {}).get(build["target"], {})
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    for table in folder.glob("*.csv"):
        with table.open(newline="") as file:
            rows = list(csv.reader(file))
        place = rows[0].index("run_id") if "run_id" in rows[0] else None
        for row in rows[1:] if place is not None else ():
            row[place] = run_id
        with table.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
    load_run(folder)
    return folder


if __name__ == "__main__":  # python -m tests.paper_figures.copied FOLDER EXPERIMENT...: a campaign to look at
    import argparse

    from harness.records.places import CODE, FIRST

    options = argparse.ArgumentParser(prog="python -m tests.paper_figures.copied")
    options.add_argument("folder", type=Path, help="where to write copies of recorded runs, of another GPU")
    options.add_argument("experiments", nargs="+", help="whose newest recorded runs to copy")
    asked = options.parse_args()
    recorded = [load_run(path.parent) for path in sorted((CODE / FIRST).glob(f"*/{MANIFEST}"))]
    for number, experiment in enumerate(asked.experiments):
        newest = [one for one in recorded if one.manifest["experiment"] == experiment][-1]
        name = f"20261201T0000{number:02}Z-c0b1{number:02}"
        print("written:", copy_run(newest.path, asked.folder, name, H200, todays=True))
