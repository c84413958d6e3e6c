"""Files that a tool writes are what the tool writes today."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.generate_wgmma import TARGET, generate, main

ROOT = Path(__file__).parents[2]


def test_wgmma_wrappers_are_up_to_date() -> None:
    assert (ROOT / TARGET).read_text() == generate(), "run python tools/generate_wgmma.py"


@pytest.mark.parametrize("words", [["--help"], ["--nope"], []])
def test_only_the_command_alone_in_the_root_writes(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == (0 if words == ["--help"] else 2)
    assert "run it from the repository's root" in capsys.readouterr().err or words
    assert list(tmp_path.iterdir()) == []
