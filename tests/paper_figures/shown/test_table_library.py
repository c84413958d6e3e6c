"""The library behind the table of all cases, out of the package that carries it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from paper_figures.errors import PaperFiguresError
from paper_figures.shown.render import table_library as tables


@pytest.fixture(autouse=True)
def read_again() -> Iterator[None]:
    tables.table_library.cache_clear()
    yield
    tables.table_library.cache_clear()


def test_the_module_becomes_a_script_with_its_licences() -> None:
    script = tables.table_library()
    notice, _, rest = script.partition("\n")
    assert tables.distribution("itables").version in notice
    assert "MIT" in notice
    assert rest.startswith("(() => {")
    assert "window.DataTable=" in script
    assert "export{" not in script
    assert "DataTables" in script
    assert "license" in script


def carried(folder: Path, text: str) -> type:
    """A distribution that carries this module."""
    (folder / "dt_bundle.js").write_text(text)
    return type("Distribution", (), {"locate_file": staticmethod(lambda _: folder / "dt_bundle.js")})


@pytest.mark.parametrize("text", ["const a = 1;", "export{a as b};", "export{a as default};export{c as d};"])
def test_another_build_of_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(tables, "distribution", lambda _: carried(tmp_path, text))
    with pytest.raises(PaperFiguresError, match="has no default export; install the version of constraints.txt"):
        tables.table_library()


def test_a_missing_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PACKAGE", "no_such_package")
    with pytest.raises(PaperFiguresError, match="the report needs the package no_such_package .*; run `make env`"):
        tables.table_library()
