"""The notebooks of examples/: each runs from its first cell to its last, and is kept without outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def test_the_notebooks_are_found() -> None:
    assert [path.name for path in NOTEBOOKS] == ["llama_decode.ipynb", "results.ipynb", "verify_on_cpu.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: pip install -e '.[examples]'")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed: pip install -e '.[examples]'")
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES.parent))
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(EXAMPLES)}})
    client.execute()  # a cell that raises is an error here
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert shown
    said = "".join(output["text"] for output in shown if output.get("name") == "stderr")
    warnings = [line for line in said.splitlines() if not line.startswith("tk_kernels: building ")]
    assert not warnings, "a reader would see them"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    """They would grow old with the recorded runs, and make each difference a page long."""
    cells = json.loads(path.read_text())["cells"]
    assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]
