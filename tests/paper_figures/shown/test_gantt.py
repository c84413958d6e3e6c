"""A recorded call on its exhibit's page: the drawing, what is said below it, and the file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest
from browser_support import DESKTOP, PHONE, problems, size
from report_support import exhibit_page, part

from paper_figures.exhibits import choose_exhibits
from paper_figures.recorded.machine_code import MACHINE_CODE
from paper_figures.recorded.traces import RecordedTrace, load_traces
from paper_figures.shown.exhibit import Exhibit
from paper_figures.shown.page.gantt import LEAST, MOST, RIGHT, TALL, TOP, WIDTH, caption, gantt_svg
from paper_figures.shown.report.making import make_report
from paper_figures.shown.report.writing import write_report

EXHIBIT = "thundergqa"
SHAPES = [(1, 3.7), (2, 9.99), (8, 40.0), (33, 100.0), (132, 637.2), (132, 1000.0), (264, 12345.6)]
"""Blocks, and how long the call takes in microseconds."""


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory, synthetic: ModuleType) -> Path:
    """A campaign of two exhibits, with two calls of one of them."""
    folder = tmp_path_factory.mktemp("traced") / "h200-sxm" / "c"
    for number, name in enumerate((EXHIBIT, "table1_stages")):
        synthetic.write_run(folder, name, f"20260102T00000{number}Z-aaaaa{number}")
    synthetic.write_trace(folder, EXHIBIT, "20260103T000000Z-0a0a0a", blocks=132, us=637.2)
    synthetic.write_trace(folder, EXHIBIT, "20260102T000000Z-0b0b0b", started_utc="2026-01-02T00:00:00Z")
    return folder


@pytest.fixture(scope="module")
def out(traced: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("out") / "report"
    write_report(make_report(traced, choose_exhibits([EXHIBIT, "table1"])), folder)
    return folder


def one_trace(folder: Path, synthetic: ModuleType, **options: Any) -> RecordedTrace:
    synthetic.write_trace(folder, EXHIBIT, **options)
    [trace] = load_traces(folder)
    return trace


def strokes(path: ElementTree.Element) -> list[tuple[float, float, float]]:
    """Of a path of bars: where each begins, across and down, and how long it is."""
    found = re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)", path.get("d", ""))
    return [(float(x), float(y), float(length)) for x, y, length in found]


@pytest.mark.parametrize(("blocks", "us"), SHAPES)
def test_bars_are_in_their_blocks_rows_and_in_scale(
    tmp_path: Path, synthetic: ModuleType, blocks: int, us: float
) -> None:
    trace = one_trace(tmp_path, synthetic, blocks=blocks, us=us)
    root = ElementTree.fromstring(gantt_svg(trace))
    _, _, width, height = map(float, root.get("viewBox", "").split())
    grid, *paths = root.findall("path")
    assert [path.get("class") for path in paths] == ["attend", "reduce", "wait"]
    assert [len(strokes(path)) for path in paths] == [2 * blocks, 1, 2 * blocks + 1]
    high = min(MOST, max(LEAST, TALL / blocks))
    assert [float(path.get("stroke-width", "0")) for path in paths] == pytest.approx([0.86 * high] * 3, abs=0.05)
    rows = sorted({y for _, y, _ in strokes(paths[0])})
    assert rows == pytest.approx([TOP + (block + 0.5) * high for block in range(blocks)], abs=0.06)
    assert width == WIDTH
    assert rows[-1] + high / 2 <= height - 14, "no row is in the way of the axis"
    left = min(x for x, _, _ in strokes(paths[0]))
    [(start, _, length)] = strokes(paths[1])  # from 0.7 to the end
    assert (start + length - left) * 0.7 == pytest.approx(start - left, abs=0.3)
    assert start + length == pytest.approx(WIDTH - RIGHT, abs=0.11)
    names = [text.text for text in root.findall("text")]
    ticks = [float(one or "") for one in names[: names.index("µs")]]
    assert 4 <= len(ticks) - 1 <= 10
    assert ticks == pytest.approx([number * ticks[1] for number in range(len(ticks))])
    assert ticks[-1] <= us
    assert (grid.get("d") or "").count("M") == len(ticks)
    assert names[names.index("µs") + 1 :] == (["0"] if blocks == 1 else ["0", str(blocks - 1)])


def test_what_is_drawn_is_said(tmp_path: Path, synthetic: ModuleType) -> None:
    [exhibit] = choose_exhibits([EXHIBIT])
    assert isinstance(exhibit, Exhibit)
    trace = one_trace(tmp_path, synthetic, blocks=2, us=100.0)
    what, colours, waiting, source = caption(trace, exhibit)
    assert what == (
        f"A call of TK (ours): {exhibit.name_problem(trace.about['problem'])}. Each row is a block, and each block has "
        "a multiprocessor of its own. Their clocks are fitted to one time within 0.0310 µs."
    )
    assert colours.startswith("Blue: 4 instructions that attend to a stretch of keys. Orange: 1 that merge")
    # Blocks attend until 70 and 75 and wait a tenth of it twice; the first merges from 70 to 100, of which it waits 20.
    assert "it took 100 µs." in waiting
    assert "a block waits 24.5 µs of it, and is done 12.5 µs before the last one" in waiting
    assert source.endswith("SYNTHETIC H200, commit 0123456789ab, trace 20260103T000000Z-77ace0.")
    dirty = one_trace(tmp_path, synthetic, git_dirty=True, clock_residual_us=None)
    assert "commit 0123456789ab with local changes," in caption(dirty, exhibit)[-1]
    assert "clocks" not in caption(dirty, exhibit)[0]


@pytest.mark.parametrize(("code", "changed"), [({}, False), ({"binary_hash": "c0de"}, True)])
def test_a_call_of_kernels_that_have_changed_since_says_so(
    tmp_path: Path, synthetic: ModuleType, code: dict[str, str], changed: bool
) -> None:
    """Guard: the kernels that record are built apart, and nobody asked whether they are today's."""
    [exhibit] = choose_exhibits([EXHIBIT])
    assert isinstance(exhibit, Exhibit)
    today = json.loads(MACHINE_CODE.read_text())["decode_trace"]["sm_90a"]
    trace = one_trace(tmp_path, synthetic, kernel={"name": "decode_trace", "target": "sm_90a", **today, **code})
    sentence = " The machine code of kernels that record has changed since."
    assert caption(trace, exhibit)[-1].endswith(sentence) is changed


def test_the_newest_call_is_on_its_exhibits_page_alone(traced: Path, out: Path) -> None:
    report = make_report(traced, choose_exhibits([EXHIBIT, "table1"]))
    shown = part(report, EXHIBIT).trace
    assert shown is not None
    assert part(report, "table1_stages").trace is None
    name = "20260103T000000Z-0a0a0a.json.gz"
    assert shown.path.name == name
    assert [one.name for one in (out / "traces").iterdir()] == [name]
    assert (out / "traces" / name).read_bytes() == shown.path.read_bytes()
    text, other = exhibit_page(out, EXHIBIT), exhibit_page(out, "table1_stages")
    assert f'<a href="../traces/{name}">Chrome trace</a>' in text
    assert text.count('<svg class="gantt"') == 1
    assert 'aria-label="132 blocks over 637 µs: ' in text
    assert "gantt" not in other
    assert 'id="trace"' not in other
    assert f"[Chrome trace](traces/{name})" in (out / "report.md").read_text()


def test_an_older_reports_call_goes_with_it(traced: Path, tmp_path: Path) -> None:
    few = choose_exhibits([EXHIBIT])
    write_report(make_report(traced, few), tmp_path / "out")
    assert (tmp_path / "out" / "traces").exists()
    write_report(make_report(traced, choose_exhibits(["table1"])), tmp_path / "out")
    assert not (tmp_path / "out" / "traces").exists()


@pytest.fixture
def drawn(browser: Any, out: Path) -> Iterator[Any]:
    page = browser.new_page(viewport=size(DESKTOP))
    page.goto((out / "exhibits" / f"{EXHIBIT}.html").as_uri())
    yield page
    page.close()


BOXES = """all => all.map(one => [one.textContent, one.getBoundingClientRect().toJSON()])"""


@pytest.mark.browser
@pytest.mark.parametrize(("blocks", "us"), SHAPES)
def test_no_label_of_the_drawing_is_over_another_or_cut_off(
    drawn: Any, tmp_path: Path, synthetic: ModuleType, blocks: int, us: float
) -> None:
    svg = gantt_svg(one_trace(tmp_path, synthetic, blocks=blocks, us=us))
    drawn.evaluate("svg => { document.querySelector('.gantt').outerHTML = svg }", svg)
    frame = drawn.eval_on_selector(".gantt", "one => one.getBoundingClientRect().toJSON()")
    boxes = drawn.eval_on_selector_all(".gantt text", BOXES)
    assert len(boxes) > 5
    for place, (text, box) in enumerate(boxes):
        assert frame["left"] <= box["left"], text
        assert box["right"] <= frame["right"] + 0.5, text
        assert box["bottom"] <= frame["bottom"] + 0.5, text
        for other, second in boxes[:place]:
            apart = box["left"] >= second["right"] or second["left"] >= box["right"]
            assert apart or box["top"] >= second["bottom"] or second["top"] >= box["bottom"], (other, text)


@pytest.mark.browser
def test_the_drawing_has_the_pages_colours_and_axe_finds_nothing(drawn: Any) -> None:
    assert problems(drawn, "#trace") == []
    colours = "all => all.map(one => getComputedStyle(one).stroke)"
    day = drawn.eval_on_selector_all(".gantt path", colours)
    assert len(set(day)) == 4
    drawn.emulate_media(color_scheme="dark")
    night = drawn.eval_on_selector_all(".gantt path", colours)
    assert day[-1] != night[-1], "waiting is as pale as the paper"
    assert problems(drawn, "#trace", rules=["color-contrast"]) == []


@pytest.mark.browser
def test_a_phone_shows_the_drawing_in_a_frame_that_scrolls(drawn: Any) -> None:
    drawn.set_viewport_size(size(PHONE))
    assert drawn.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    inner, outer = drawn.eval_on_selector("#trace .drawing", "one => [one.scrollWidth, one.clientWidth]")
    assert inner > outer
    for _, box in drawn.eval_on_selector_all("#trace figcaption p", BOXES):
        assert 0 <= box["left"] < box["right"] <= PHONE[0]
