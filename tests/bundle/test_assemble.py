"""The whole bundle, from wheels that lie on disk: what is in it, when it is refused, what an error leaves behind."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path

import pytest

from harness.records.provenance import FILES, digest
from tests.bundle.conftest import git
from tools.bundle import assemble as module
from tools.bundle import stamp
from tools.bundle.__main__ import MAX_MIB, main
from tools.bundle.assemble import Order, assemble
from tools.bundle.errors import BundleError
from tools.bundle.plan import Group, Node

ROOT = Path(__file__).resolve().parents[2]
KEPT = {".git", "bundle", "results", "__pycache__"}
"""Folders of which no list of a checkout's files names a file."""


@pytest.fixture
def order(checkout, tmp_path, monkeypatch):
    def install(group, node, packed, constraints, folder):
        (folder / "tiny").mkdir(parents=True)
        (folder / "tiny" / "__init__.py").write_text("")
        (folder / "tiny" / "dropped.pyi").write_text("")
        return {"tiny": "1.0"}

    monkeypatch.setattr(module.packages, "install", install)
    return lambda **changes: Order(
        **{
            "root": checkout,
            "output": checkout / "bundle",
            "cache": tmp_path / "cache",
            "node": Node("3.12", "2.11", frozenset({"torch"})),
            "groups": {"core": Group(("tiny",))},
            "parts": ("core", "kernels"),
            "max_mib": 60.0,
            "command": "make bundle",
            "builds": {},
            "kernels": {"gpu": ()},
            "objects": {},
        }
        | changes
    )


def quiet(_text):
    pass


def members(bundle, part):
    with tarfile.open(bundle / "site" / f"{part}.tar.xz") as packed:
        return {member.name: packed.extractfile(member).read() for member in packed.getmembers()}


def test_a_bundle_holds_packages_kernels_launcher_and_stamp(order, checkout, tmp_path):
    sizes = assemble(order(), quiet)
    bundle = checkout / "bundle"
    info = json.loads((bundle / "build_info.json").read_text())
    assert info["packages"] == {"tiny": "1.0"}
    assert info["kernels"] == ["gemm-sm_90a-0/gemm.so"]
    assert info["git_commit"] == stamp.git_commit(checkout)
    assert info["git_dirty"] is False
    listed = (bundle / FILES).read_text().splitlines()
    outside = [
        path for path in checkout.rglob("*") if path.is_file() and not KEPT & {*path.relative_to(checkout).parts}
    ]
    assert {line.split("  ")[1] for line in listed} == {str(path.relative_to(checkout)) for path in outside}
    assert all(line.split("  ")[0] == digest(checkout / line.split("  ")[1]) for line in listed)
    assert members(bundle, "core") == {"site/tiny/__init__.py": b""}
    assert members(bundle, "kernels") == {"kernels/gemm-sm_90a-0/gemm.so": b"code"}
    assert info["archives"] == {f"{part}.tar.xz": digest(bundle / "site" / f"{part}.tar.xz") for part in order().parts}
    assert (bundle / "run").stat().st_mode & 0o111
    assert set(sizes) == {"core", "kernels", "rest"}
    assert sum(sizes.values()) == sum(p.stat().st_size for p in bundle.rglob("*") if p.is_file())
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {"packed"}


def test_the_commit_and_the_list_of_files_are_of_one_moment(order, checkout, monkeypatch):
    """Guard: whoever worked on while the packages were packed had other files under the commit's name."""
    before, known = stamp.git_commit(checkout), stamp.listed_files(checkout)

    def install(group, node, packed, constraints, folder):
        folder.mkdir()
        (checkout / "source.py").write_text("x = 2\n")
        git(checkout, "commit", "-qam", "second")
        return {}

    monkeypatch.setattr(module.packages, "install", install)
    assemble(order(parts=("core",)), quiet)
    assert json.loads((checkout / "bundle" / "build_info.json").read_text())["git_commit"] == before
    assert (checkout / "bundle" / FILES).read_text() == known


def test_too_large_is_refused_and_the_older_bundle_stays(order, checkout, tmp_path):
    assemble(order(), quiet)
    before = (checkout / "bundle" / "build_info.json").read_text()
    with pytest.raises(BundleError, match=r"over the limit of 0.001 MiB; .*or raise --max-mib"):
        assemble(order(max_mib=0.001), quiet)
    assert (checkout / "bundle" / "build_info.json").read_text() == before
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {"packed"}


def test_the_tracked_files_count():
    """Guard: a bundle below the limit did not travel, since the checkout travels with it."""
    sizes = {"core": 5 * module.MIB, "large": 4 * module.MIB, "kernels": 9 * module.MIB}
    module._check_size(sizes, 2 * module.MIB, 20)
    with pytest.raises(BundleError) as caught:
        module._check_size(sizes, 3 * module.MIB, 20)
    said = str(caught.value)
    assert "18.00 MiB (kernels 9.0 MiB, core 5.0 MiB, large 4.0 MiB)" in said
    assert "tracked files are 3.00, 1.00 over the limit of 20 MiB" in said


def test_the_documented_bundles_fit_beside_a_checkout_without_recorded_results():
    """Guard: the recorded results had grown, and bundles for Figures 7 and 8 were over the limit."""
    page = (ROOT / "docs" / "bundle.md").read_text()
    sizes = [float(size) for size in re.findall(r"^\| `--for \w+` \| ([\d.]+) \|$", page, flags=re.MULTILINE)]
    assert len(sizes) == 4
    recorded = sum(path.stat().st_size for path in (ROOT / "results").glob("*/**/*") if path.is_file())
    assert max(sizes) + (stamp.tracked_bytes(ROOT) - recorded) / module.MIB <= MAX_MIB
    assert f"at most {MAX_MIB:g} MiB together" in page


def test_what_a_sparse_checkout_leaves_out_does_not_count(checkout):
    before = stamp.tracked_bytes(checkout)
    left_out = next(path for path in sorted(checkout.iterdir()) if path.is_file())
    size = left_out.stat().st_size
    assert size > 0
    git(checkout, "sparse-checkout", "set", "--no-cone", "/*", f"!/{left_out.name}")
    assert not left_out.exists()
    assert stamp.tracked_bytes(checkout) == before - size


def sparse(checkout, folder, *patterns):
    """A checkout with a file more, in a folder of its own, of which these patterns leave something out."""
    (checkout / folder).mkdir(parents=True)
    (checkout / folder / "more.txt").write_text("more\n")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "more")
    git(checkout, "sparse-checkout", "set", "--no-cone", "/*", *patterns)
    assert not (checkout / folder / "more.txt").exists()


@pytest.mark.parametrize(
    ("folder", "pattern"),
    [("results/h100-sxm/campaign", "!/results/*/"), ("docs/figures", "!/docs/"), (".github/workflows", "!/.github/")],
)
def test_what_a_node_does_without_may_be_left_out_and_is_noted(order, checkout, folder, pattern):
    sparse(checkout, folder, pattern)
    assert not stamp.git_dirty(checkout)
    assemble(order(), quiet)
    info = json.loads((checkout / "bundle" / "build_info.json").read_text())
    assert (info["git_dirty"], info["left_out"]) == (False, {folder.partition("/")[0]: 1})


def test_the_page_names_what_a_node_does_without():
    page = " ".join((ROOT / "docs" / "bundle.md").read_text().split())
    *first, last = (f"`{name}/`" for name in stamp.NOT_FOR_A_NODE)
    assert f"{', '.join(first)} and {last}" in page
    assert "git sparse-checkout set --no-cone '/*' '!/results/*/'" in page


def test_a_sparse_checkout_that_lacks_what_a_node_needs_is_refused(order, checkout):
    """Guard: a bundle made beside it was stamped as the commit, clean, and on the node nothing ran."""
    sparse(checkout, "configs/timer", "!/configs/")
    with pytest.raises(BundleError, match=r"leaves out configs/timer/more.txt, .*git sparse-checkout disable"):
        assemble(order(), quiet)
    assert not (checkout / "bundle").exists()
    git(checkout, "sparse-checkout", "set", "--no-cone", "/*", "!/configs/", "!/source.py")
    with pytest.raises(BundleError, match=r"leaves out configs/timer/more.txt and 1 more, "):
        assemble(order(), quiet)
    git(checkout, "sparse-checkout", "disable")
    assert stamp.left_out(checkout) == {}


def test_what_a_night_runs_on_a_node_may_not_be_left_out() -> None:
    """Guard: a bundle without tests/ was made, and a night on the node found none."""
    assert not {"tests", "tools", "configs"} & set(stamp.NOT_FOR_A_NODE)


@pytest.mark.parametrize("mark", ["--skip-worktree", "--assume-unchanged"])
def test_a_file_that_git_was_told_to_pass_over_is_compared(checkout, mark):
    """Guard: its changes did not make a bundle dirty."""
    git(checkout, "update-index", mark, "source.py", "results/README.md")
    (checkout / "results" / "README.md").write_text("new run\n")
    assert not stamp.git_dirty(checkout)
    (checkout / "source.py").write_text("x = 2\n")
    assert stamp.git_dirty(checkout)


def test_what_is_tracked_travels_and_what_git_ignores_does_not(order, checkout):
    before = stamp.tracked_bytes(checkout)
    assert before == sum(p.stat().st_size for p in checkout.rglob("*") if p.is_file() and ".git" not in p.parts)
    (checkout / "source.py").write_text("x" * 100_000)
    (checkout / "untracked.bin").write_bytes(bytes(100_000))
    assert stamp.tracked_bytes(checkout) == before - len("x = 1\n") + 100_000
    with pytest.raises(BundleError, match="tracked files are 0.10"):
        assemble(order(max_mib=0.09), quiet)


def test_builds_and_the_kernels_that_were_asked_for_travel(order, checkout, tmp_path):
    build = tmp_path / "sources" / "madeup" / "key"
    (build / "site" / "__pycache__").mkdir(parents=True)
    (build / "site" / "__pycache__" / "a.pyc").write_text("")
    (build / "site" / "madeup.py").write_text("")
    (build / "manifest.json").write_text('{"commit": "abc"}')
    kernels = {"gpu": ("rotary", "based"), "sm_80": ("rotary",)}
    sizes = assemble(order(parts=("core", "madeup", "kernels"), builds={"madeup": build}, kernels=kernels), quiet)
    info = json.loads((checkout / "bundle" / "build_info.json").read_text())
    assert info["built"] == {"madeup": {"key": "key", "commit": "abc"}}
    assert info["kernels"] == [
        f"{name}-0/{name.partition('-')[0]}.so" for name in ("based-sm_90a", "rotary-sm_80", "rotary-sm_90a")
    ]
    assert members(checkout / "bundle", "madeup").keys() == {
        f"sources/madeup/key/{name}" for name in ("manifest.json", "site/madeup.py")
    }
    assert set(sizes) == {"core", "madeup", "kernels", "rest"}


def test_of_objects_that_serve_one_contestant_each_those_wanted_are_packed(order, checkout, tmp_path):
    """Guard: with all of the released kernels, the bundle for Figure 8 is over the limit."""
    build = tmp_path / "key"
    (build / "site").mkdir(parents=True)
    for name in ("manifest.json", "site/a.so", "site/b.so", "site/COMMIT"):
        (build / name).write_text("{}")
    for objects, packed in (({}, "ab"), ({"madeup": frozenset(["site/b.so", "site/gone.so"])}, "b")):
        assemble(order(parts=("madeup",), builds={"madeup": build}, objects=objects), quiet)
        found = {name.rpartition("/")[2] for name in members(checkout / "bundle", "madeup")}
        assert {"manifest.json", "COMMIT", *(f"{name}.so" for name in packed)} == found


def test_a_folder_that_is_no_bundle_is_not_replaced(order, checkout):
    (checkout / "bundle").mkdir()
    (checkout / "bundle" / "thesis.tex").write_text("mine")
    with pytest.raises(BundleError, match="is not a bundle"):
        assemble(order(), quiet)
    assert (checkout / "bundle" / "thesis.tex").read_text() == "mine"


def test_kernels_that_do_not_build_end_the_bundle(order, checkout):
    (checkout / "tk_kernels" / "toolchain" / "__main__.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(BundleError, match="ended with status 3.*--without kernels"):
        assemble(order(), quiet)
    assert not (checkout / "bundle").exists()


def test_dirty_is_about_tracked_files_outside_results(checkout):
    assert not stamp.git_dirty(checkout)
    (checkout / "results" / "README.md").write_text("new run\n")
    (checkout / "new_file.py").write_text("")
    assert not stamp.git_dirty(checkout)
    (checkout / "source.py").write_text("x = 2\n")
    assert stamp.git_dirty(checkout)
    git(checkout, "commit", "-qam", "second")
    assert not stamp.git_dirty(checkout)


def test_no_git_is_said(tmp_path):
    (tmp_path / "plain").mkdir()
    with pytest.raises(BundleError, match="no git checkout with a commit"):
        stamp.git_commit(tmp_path / "plain")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--without", "flash"], "got the part flash"),
        (["--python", "three"], "--python: got 'three'"),
        (["--node-has", "gone/list.txt"], "gone/list.txt: No such file"),
        (["--for", "fig99"], "there is no exhibit 'fig99'"),
    ],
)
def test_a_users_mistake_is_one_sentence_and_status_1(arguments, said, capsys):
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert "Traceback" not in error
