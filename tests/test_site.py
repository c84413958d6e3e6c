"""The documentation site: its first page, links out of docs/, its API pages, and a strict build where mkdocs is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import tk_kernels as tk
from tools.site.headers import groups
from tools.site.hooks import INCLUDE, first_page, relinked, with_headers, with_operators

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def pages(entries: list[object]) -> list[str]:
    """The files that the navigation names."""
    found: list[str] = []
    for entry in entries:
        values = list(entry.values()) if isinstance(entry, dict) else [entry]
        for value in values:
            found += pages(value) if isinstance(value, list) else [str(value)]
    return found


def test_the_navigation_has_every_page() -> None:
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert set(pages(CONFIG["nav"])) == {"index.md", *there}


def test_every_operator_has_its_place() -> None:
    page = with_operators((DOCS / "api" / "operators.md").read_text())
    named = re.findall(r"^::: (\S+)$", page, flags=re.MULTILINE)
    assert [one for one in named if ".kernels." in one and not one.endswith("Options")] == [
        f"{operator.__module__}.{name}" for name, operator in tk.ops.OPERATORS.items()
    ]
    for operator in (tk.attention, tk.gemm, tk.fft_conv_filter):
        for one in operator.contract.operands:  # type: ignore[attr-defined]
            assert f"\n| `{one.name}` | `" in page
    assert "\n| `where` | `Hq % Hkv == 0` |\n" in page


HEADER = """
namespace kittens {
// A vector of `Length` elements.
template <typename T_, int Length> struct sv {
    using T = T_;
    static_assert(Length % 16 == 0, "a multiple of 16");

    // The first one.
    kittens_device T& first(site where = kittens_here) {
        // not a comment of a declaration
        return data[0];
    }
    T data[Length];
};

namespace warpgroup {
// dst = src, of any two tiles
// of one shape.
template <register_tile Dst, register_tile Src> kittens_device void copy(Dst& dst,
                                                                         const Src& src) { each(dst, src); }
template <int Pending = 0> kittens_device void wait(site = kittens_here);
}  // namespace warpgroup
namespace detail {
kittens_device void hidden(int x);
}  // namespace detail
"""


def test_a_header_is_read_as_its_reader_needs_it() -> None:
    assert list(groups(HEADER.splitlines())) == [
        (["A vector of `Length` elements."], ["template <typename T_, int Length> struct sv"]),
        (["The first one."], ["T& sv::first()"]),
        (
            ["dst = src, of any two tiles", "of one shape."],
            [
                "void warpgroup::copy(Dst& dst, const Src& src)",
                "template <int Pending = 0> void warpgroup::wait()",
            ],
        ),
    ]


def test_the_reference_of_the_tile_library_has_every_folder() -> None:
    page = (DOCS / "api" / "tile_library.md").read_text()
    portable = {path.parent.relative_to(INCLUDE).as_posix() for path in (INCLUDE / "kittens").rglob("*.*h")}
    named = set(re.findall(r"^::: (\S+)$", page, flags=re.MULTILINE))
    assert named == {one for one in portable if not re.match("kittens/target/(gpu|sm_|cpu/)", one)}
    shown = with_headers(page)
    assert {"mma_AB", "row_sum", "load_async", "lcf", "launch_tasks"} <= set(re.findall(r"\w+", shown))
    with pytest.raises(FileNotFoundError, match="kittens/nothing has no headers"):
        with_headers("::: kittens/nothing")


def test_readme_is_the_first_page(tmp_path: Path) -> None:
    readme = (
        "# T\n\n[a](docs/install.md) ![b](docs/figures/f.svg) [c](configs/) [d](https://x.y) `[e](docs/f)`\n\n## U\n"
    )
    page = first_page(readme, tmp_path)
    assert (
        page == "# T\n\n[a](install.md) ![b](figures/f.svg) [c](../configs/) [d](https://x.y) `[e](docs/f)`\n\n## U\n"
    )
    (tmp_path / "index.html").write_text("")
    assert '<a href="report/index.html">The report</a>' in first_page(readme, tmp_path).split("## U")[0]
    results = readme.replace("## U", "<!-- results:begin -->\n## R")
    assert "The report</a>" in first_page(results, tmp_path).split("<!--")[0], "before the results, not after them"
    assert "The same on the" not in first_page(readme, tmp_path)
    (tmp_path / "h100-sxm").mkdir()
    (tmp_path / "h100-sxm" / "index.html").write_text("")
    assert '<a href="report/h100-sxm/index.html">The same on the H100 SXM</a>' in first_page(readme, tmp_path)


def test_links_out_of_the_docs_lead_to_the_repository() -> None:
    text = "[a](results.md) [b](../constraints.txt) [c](../results/) `[d](../x)` [e](#f)"
    assert relinked(text, DOCS, "") == "[a](results.md) b c `[d](../x)` [e](#f)"
    far = (
        "[a](results.md) [b](https://g/blob/main/constraints.txt) [c](https://g/tree/main/results) `[d](../x)` [e](#f)"
    )
    assert relinked(text, DOCS, "https://g/") == far
    with pytest.raises(FileNotFoundError, match="a link to ../nowhere.txt, which does not exist"):
        relinked("[x](../nowhere.txt)", DOCS, "")


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *(f"docs/{path.name}" for path in DOCS.glob("*.md"))])
def test_links_within_the_repository_lead_somewhere(page: str) -> None:
    text = re.sub(r"```.*?```|`[^`]*`", "", (ROOT / page).read_text(), flags=re.DOTALL)
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    lost = [one for one in targets if one and "://" not in one and not ((ROOT / page).parent / one).exists()]
    assert not lost


def test_it_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocstrings", reason="mkdocs is not installed: pip install -e '.[docs]'")
    pytest.importorskip("material", reason="mkdocs-material is not installed: pip install -e '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "softmax(scale q k^T)" in (tmp_path / "site" / "api" / "operators.html").read_text()
    assert "headline_tflops" in (tmp_path / "site" / "api" / "results.html").read_text()
    assert "Starts a load; its bytes" in (tmp_path / "site" / "api" / "tile_library.html").read_text()
    assert "Questions" in (tmp_path / "site" / "index.html").read_text()
