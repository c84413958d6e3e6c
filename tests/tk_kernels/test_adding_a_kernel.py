"""The kernel of docs/adding_a_kernel.md, built and run as the page prints it."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from types import ModuleType

import pytest
import torch

from tk_kernels import toolchain

PAGE = Path(__file__).resolve().parents[2] / "docs" / "adding_a_kernel.md"


def files() -> dict[str, str]:
    """The files that the page shows: each code block begins with a comment of the file's name and what it is."""
    blocks = re.findall(r"^```(?:cpp|python)\n(?://|#) (\S+): .*?^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    texts = re.findall(r"^```(?:cpp|python)\n((?://|#) \S+: .*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return dict(zip(blocks, texts, strict=True))


def test_the_page_shows_the_whole_kernel() -> None:
    assert list(files()) == ["scale.h", "scale.cu", "binding.cc", "scale.py"]


@functools.cache
def operator() -> ModuleType:
    """The page's module, run once: an operator is registered once a process."""
    module = ModuleType("scale")
    exec(compile(files()["scale.py"], "scale.py", "exec"), module.__dict__)
    return module


@pytest.fixture
def scale(tmp_path: Path, device: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The page's operator, whose kernel is the page's folder."""
    folder = tmp_path / "scale"
    folder.mkdir()
    for name, text in files().items():
        (folder / name).write_text(text)
    (folder / "scale.py").unlink()
    monkeypatch.setattr(toolchain, "load", functools.partial(toolchain.load, root=tmp_path))
    return operator()


def test_the_kernel_of_the_page_works(scale: ModuleType, device: str) -> None:
    a = torch.randn(37, 264, generator=torch.Generator().manual_seed(0)).bfloat16().to(device)
    wanted = (a.double() * 0.75).bfloat16()
    with torch.no_grad():
        assert torch.equal(scale.scale(a, factor=0.75), wanted)
        assert torch.equal(scale.scale(a.t().contiguous().t(), factor=0.75), wanted), "through a dense copy"
        compiled = torch.compile(scale.scale, backend="eager", fullgraph=True)
        assert torch.equal(compiled(a, factor=0.75), wanted)
    torch.library.opcheck(torch.ops.tk_kernels.scale.default, (a, 0.75))
    with pytest.raises(ValueError, match="a: got 12 columns, supported are multiples of 8 up to 512"):
        scale.scale(a[:, :12].contiguous())
    with pytest.raises(ValueError, match="a: got rank 1, needs rank 2"):
        scale.scale(a[0])
