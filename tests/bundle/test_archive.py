"""Packing: what is kept, where it lands, that the bytes depend on the wheels alone."""

from __future__ import annotations

import io
import lzma
import os
import tarfile

import pytest

from tools.bundle import archive
from tools.bundle.errors import BundleError


def unpacked(path):
    with tarfile.open(path, "r:xz") as tar:
        return {m.name: (tar.extractfile(m).read(), m.mode) for m in tar.getmembers()}


def test_kept_dropped_and_moved(make_wheel, tmp_path):
    wheel = make_wheel(
        "a",
        files={
            "a/__init__.py": "x",
            "a/__init__.pyi": "x",
            "a/lib/stubs/libx.so": "x",
            "a-1.0.data/purelib/b/__init__.py": "moved",
            "a-1.0.data/scripts/tool": "x",
            "a.pth": "import os",
        },
    )
    archive.pack([wheel], archive.Patterns(["*/stubs/*"]), tmp_path / "site" / "g.tar.xz", tmp_path / "cache")
    content = unpacked(tmp_path / "site" / "g.tar.xz")
    assert set(content) == {"a/__init__.py", "b/__init__.py", "a-1.0.dist-info/METADATA"}
    assert content["b/__init__.py"][0] == b"moved"


def test_what_is_kept_alone_comes_with_its_metadata(make_wheel, tmp_path):
    wheel = make_wheel("a", files={"a/__init__.py": "x", "a/ops/one.py": "x", "a/ops/two.py": "x", "b/one.py": "x"})
    patterns = archive.Patterns(drop=["*/two.py"], keep=["a/ops/*"])
    archive.pack([wheel], patterns, tmp_path / "g.tar.xz", tmp_path / "cache")
    assert set(unpacked(tmp_path / "g.tar.xz")) == {"a/ops/one.py", "a-1.0.dist-info/METADATA"}


def test_same_wheels_same_bytes_in_any_order(make_wheel, tmp_path):
    wheels = [make_wheel("a"), make_wheel("b")]
    archive.pack(wheels, archive.Patterns(), tmp_path / "1.tar.xz", tmp_path / "cache1")
    archive.pack(wheels[::-1], archive.Patterns(), tmp_path / "2.tar.xz", tmp_path / "cache2")
    assert (tmp_path / "1.tar.xz").read_bytes() == (tmp_path / "2.tar.xz").read_bytes()


def test_packed_once_and_again_when_the_patterns_change(make_wheel, tmp_path, monkeypatch):
    calls = []
    compress = archive.compress
    monkeypatch.setattr(archive, "compress", lambda data: calls.append(1) or compress(data))
    wheels = [make_wheel("a")]
    everything, some = archive.Patterns(), archive.Patterns(keep=["a/*"])
    for patterns in (everything, everything, archive.Patterns(["*.so"]), some, some):
        archive.pack(wheels, patterns, tmp_path / "x.tar.xz", tmp_path / "cache")
    assert len(calls) == 3


def test_compress_round_trip_on_code_and_on_nothing():
    for data in (b"", os.urandom(1000), b"\xe8\x00\x00\x00\x00\x90" * 5000):
        assert lzma.decompress(archive.compress(data)) == data


def test_the_branch_filter_pays_on_machine_code():
    # Calls to one function from many places: with the filter, their operands are equal.
    target, code = 1 << 20, io.BytesIO()
    for index in range(20000):
        filler = (index * 2654435761 % 2**32).to_bytes(4, "little")
        relative = target - (code.tell() + 9)
        code.write(b"\xb8" + filler[:3] + b"\xe8" + relative.to_bytes(4, "little", signed=True))
    data = code.getvalue()
    assert len(archive.compress(data)) < 0.9 * len(lzma.compress(data, preset=9))


def test_two_wheels_with_one_path_and_two_contents(make_wheel, tmp_path):
    wheels = [make_wheel("a", files={"same.py": "1"}), make_wheel("b", files={"same.py": "2"})]
    with pytest.raises(BundleError, match=r"both hold same\.py"):
        archive.pack(wheels, archive.Patterns(), tmp_path / "x.tar.xz", tmp_path / "cache")


@pytest.mark.parametrize("path", ["../evil.py", "/evil.py", "a/../../evil.py"])
def test_a_path_that_leaves_the_folder_is_refused(make_wheel, path):
    with pytest.raises(BundleError, match="leads outside its folder"):
        list(archive.files(make_wheel("a", files={path: "x"}), archive.Patterns()))
