"""Packing: the bytes depend on the content alone, and machine code packs well."""

from __future__ import annotations

import io
import lzma
import os
import tarfile

from tools.bundle import archive


def test_same_content_same_bytes_packed_once(tmp_path, monkeypatch):
    calls = []
    compress = archive.compress
    monkeypatch.setattr(archive, "compress", lambda data: calls.append(1) or compress(data))
    for folder, names in (("one", "ab"), ("two", "ba")):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).write_text(name)
        (tmp_path / folder / "a").chmod(0o755)
        files = {f"site/{name}": tmp_path / folder / name for name in names}
        archive.pack(files, tmp_path / f"{folder}.tar.xz", tmp_path / "cache")
    assert (tmp_path / "one.tar.xz").read_bytes() == (tmp_path / "two.tar.xz").read_bytes()
    assert len(calls) == 1
    with tarfile.open(tmp_path / "one.tar.xz", "r:xz") as tar:
        assert {m.name: (tar.extractfile(m).read(), m.mode) for m in tar.getmembers()} == {
            "site/a": (b"a", 0o755),
            "site/b": (b"b", 0o644),
        }
    (tmp_path / "two" / "a").write_text("other")
    archive.pack(files, tmp_path / "two.tar.xz", tmp_path / "cache")
    assert len(calls) == 2
    assert (tmp_path / "one.tar.xz").read_bytes() != (tmp_path / "two.tar.xz").read_bytes()


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
