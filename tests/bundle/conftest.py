"""Wheels and checkouts made of a few files, so that no test touches the network."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest


@pytest.fixture
def make_wheel(tmp_path):
    """A function that writes a wheel: ``make_wheel("a", "1.0", requires=["b>=2"], files={"a/__init__.py": ""})``."""

    def make(name, version="1.0", requires=(), files=None, tag="py3-none-any") -> Path:
        stem = f"{name.replace('-', '_')}-{version}"
        path = tmp_path / "wheels" / f"{stem}-{tag}.whl"
        path.parent.mkdir(exist_ok=True)
        metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        metadata += [f"Requires-Dist: {text}" for text in requires]
        content = {f"{stem}.dist-info/METADATA": "\n".join(metadata) + "\n"}
        content |= {f"{stem}.dist-info/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nTag: {tag}\n"}
        content |= files if files is not None else {f"{name.replace('-', '_')}/__init__.py": f"name = {name!r}\n"}
        with zipfile.ZipFile(path, "w") as archive:
            for member, text in content.items():
                archive.writestr(member, text)
            archive.writestr(f"{stem}.dist-info/RECORD", "".join(f"{member},,\n" for member in content))
        return path

    return make


def git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path):
    """A git checkout with one commit: a toolchain that "builds" kernels, a results folder, a source file."""
    root = tmp_path / "checkout"
    toolchain = root / "tk_kernels" / "toolchain"
    toolchain.mkdir(parents=True)
    (root / "tk_kernels" / "__init__.py").write_text("")
    (toolchain / "__init__.py").write_text("")
    (toolchain / "__main__.py").write_text(
        "import pathlib, sys\n"
        "options = sys.argv.index('--target')\n"
        "assert sys.argv[1] == 'export', sys.argv\n"
        "target = {'gpu': 'sm_90a'}.get(sys.argv[options + 1], sys.argv[options + 1])\n"
        "for name in sys.argv[2:options] or ['gemm']:\n"
        "    folder = pathlib.Path(sys.argv[sys.argv.index('--to') + 1]) / f'{name}-{target}-0'\n"
        "    folder.mkdir(parents=True)\n"
        "    (folder / f'{name}.so').write_bytes(b'code')\n"
    )
    (root / "results").mkdir()
    (root / "results" / "README.md").write_text("recorded runs\n")
    (root / "source.py").write_text("x = 1\n")
    git(root.parent, "init", "-q", str(root))
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    return root
