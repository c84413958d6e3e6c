"""Mistakes by rule: where in a kernel's sources something may be left out, taken for something else, or done too early.

A rule knows the words of the tile library (wait, take, release, fence, sync, await, coord), not a kernel. It changes a
whole statement or a whole expression. So all mutants are compiled into one program, which is told which of them to be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Edit:
    """In `file`, text[begin:end], a statement or else an expression, becomes `new`.

    `differs`: a C++ expression that is false where the new expression has the old one's value.
    """

    kind: str
    file: str
    begin: int
    end: int
    new: str
    statement: bool = True
    differs: str = "true"


REPORTED = {
    "wait": "does not wait for a stage or a turn: nobody has said that it is there",
    "release": "does not say that a stage, a turn or a result is there or free, or says so twice",
    "early": "says so before it has waited for its own work",
    "parity": "waits for the other phase of a semaphore, or always for the same one",
    "stage": "uses another stage of the ring, or stays at one",
    "bytes": "announces half of the bytes that come, or more, or none",
    "arrivals": "expects one arrival fewer at a semaphore, or does not set it up",
    "fence": "has no fence",
    "barrier": "has no barrier, one of its own warpgroup only, or one of another count",
    "group": "does not wait for its own multiplies, copies or stores, or leaves one more of them in flight",
    "kernel": "does not wait for the kernel before",
    "counter": "does not signal, await or retire a counter, or awaits one signal fewer or more",
}
"""Kinds of mistakes that the cpu target must report in so many words, whatever the numbers are."""
SEEN = {
    "operation": "leaves out an operation on tiles or numbers",
    "coordinate": "loads from, or stores to, the first of many places in memory",
    "place": "uses the first of several tiles, counters or semaphores",
}
"""Kinds that may show in the numbers alone."""

KIND_OF_CALL = {
    "wait": r"wait|take\w*|ask|hold|in_turn",
    "release": r"release(?!_before$)\w*|arrive|arrive_\w+|hand_over|pass_turn|over|tell|ends",
    "stage": r"advance",
    "arrivals": r"init",
    "fence": r"fence_\w+",
    "barrier": r"sync\w*|meet",
    "group": r"(mma|copy|store|store_read)_wait|wait_for|copy_commit",
    "kernel": r"wait_previous_kernel",
    "counter": r"(await|signal)(_together)?|retire(_behind)?|clear_counter_on",
    # For speed alone, for a reader of reports, or a check; the last three do nothing on the cpu target.
    "": r"prefetch\w*|(in|de)crease_registers|start_next_kernel|start|end|waited|static_assert|allocate\w*|require\w*"
    r"|bring|settle|row_\w+_finish",
}
HEAD = re.compile(
    r"(else|do)\b|(case\s+[\w:]+|default|public|private)\s*:(?!:)|((?:if(?:\s+constexpr)?|for|while)\s*)\("
)
OWN_BARRIER = "kittens::warpgroup::sync(9 + kittens::warpgroup_index());"
CALL = re.compile(
    r"(?:[\w:]+(?:<[^;(){}]*>)?(?:\[[^\]]*\])?(?:\.|->|::))*(?:template\s+)?(?P<name>\w+|operator\(\))"
    r"(?P<sizes><[^;(){}]*>)?\("
)


def without_comments(text: str) -> str:
    """The text, spaces in place of comments, strings and lines for the preprocessor."""
    return re.sub(
        r'//[^\n]*|"(?:\\.|[^"\\\n])*"|^[ \t]*#[^\n]*', lambda found: " " * len(found[0]), text, flags=re.MULTILINE
    )


def closing(code: str, opening: int) -> int:
    """Behind the bracket that closes the one at `opening`."""
    depth = 0
    for found in re.compile(r"[(){}\[\]]").finditer(code, opening):
        depth += 1 if found[0] in "({[" else -1
        if depth == 0:
            return found.end()
    raise ValueError(f"nothing closes {code[opening : opening + 40]}")


def simple_statements(code: str) -> Iterator[tuple[int, int, bool]]:
    """Of each statement without a body (begin, end, whether `if` or the like decides about it), innermost first."""
    stack = [["{", 0]]
    for found in re.compile(r"[(){}\[\];]").finditer(code):
        sign, at = found[0], found.start()
        if sign in "([":
            stack.append([sign, 0])
        elif sign in ")]":
            stack.pop()
        elif sign == "{":
            before = code[:at].rstrip()
            body = before.endswith((")", "{", "}", ";", "]", "else", "do", "const", "mutable")) or re.search(
                r"->\s*[\w:&]+$|\b(?:struct|namespace|union|enum)\b[^;{}()]*$", before[-200:]
            )
            body = body and not re.search(r"\brequires\s*(\([^()]*\))?$", before)  # lists expressions
            stack.append(["{" if body or not before else "value", at + 1])
        elif sign == "}":
            kind, _ = stack.pop()
            if kind == "{" and stack[-1][0] == "{":
                stack[-1][1] = at + 1
        elif stack[-1][0] == "{":
            yield from _without_head(code, stack[-1][1], at + 1)
            stack[-1][1] = at + 1


def _without_head(code: str, begin: int, end: int) -> Iterator[tuple[int, int, bool]]:
    conditional = False
    while True:
        begin += len(code[begin:end]) - len(code[begin:end].lstrip())
        head = HEAD.match(code, begin, end)
        if not head:
            break
        conditional = True
        begin = closing(code, head.end() - 1) if head[3] else head.end()
    if begin < end - 1:
        yield begin, end, conditional


def call_of(code: str, begin: int, end: int) -> re.Match[str] | None:
    """The call that this statement is, or the first of several that commas separate."""
    call = first = CALL.match(code, begin, end)
    while call:
        behind = closing(code, call.end() - 1)
        rest = code[behind:end].strip()
        if rest == ";":
            return first
        if not rest.startswith(","):
            return None
        begin = code.index(",", behind) + 1
        call = CALL.match(code, begin + len(code[begin:]) - len(code[begin:].lstrip()), end)
    return None


def kind_of(name: str) -> str:
    return next((kind for kind, names in KIND_OF_CALL.items() if re.fullmatch(names, name)), "operation")


def arguments(code: str, opening: int) -> list[tuple[int, int]]:
    """Of what is between the bracket at `opening` and its own, separated by commas: (begin, end) of each."""
    end, depth, begin, found = closing(code, opening) - 1, 0, opening + 1, []
    for at in range(begin, end):
        depth += (code[at] in "({[") - (code[at] in ")}]")
        if code[at] == "," and depth == 0:
            found.append((begin, at))
            begin = at + 1
    found.append((begin, end))
    trimmed = []
    for begin, end in found:
        text = code[begin:end]
        trimmed.append((begin + len(text) - len(text.lstrip()), end - len(text) + len(text.rstrip())))
    return trimmed


def edits(file: str, text: str) -> list[Edit]:
    """Everything that the rules find in one source."""
    code = without_comments(text)
    statements = list(simple_statements(code))
    whole = {begin for begin, _, _ in statements}
    calls = [(begin, end, call_of(code, begin, end)) for begin, end, _ in statements]
    idle = [(begin, end) for begin, end, call in calls if call and not kind_of(call["name"])]
    expressions = [
        edit
        for edit in _of_expressions(file, code)
        if edit.begin not in whole
        and not any(begin <= edit.begin < end for begin, end in idle)
        and not re.search(r"\+\+|--", edit.differs)  # what would be evaluated twice
    ]
    return [*_of_statements(file, code), *expressions]


def _of_statements(file: str, code: str) -> Iterator[Edit]:
    before: tuple[int, int, str, bool] | None = None
    for begin, end, conditional in simple_statements(code):
        call = call_of(code, begin, end)
        kind = kind_of(call["name"]) if call else ""
        if call and kind:
            yield Edit(kind, file, begin, end, "")
            for new_kind, new in _other_calls(code, begin, end, call):
                several = "kittens::warpgroup_index() > 0"
                yield Edit(new_kind, file, begin, end, new, differs=several if new == OWN_BARRIER else "true")
            follows = before and not (conditional or before[3]) and not code[before[1] : begin].strip()
            if kind in ("release", "counter") and follows and before[2] in ("group", "barrier", "fence", "wait"):
                yield Edit("early", file, before[0], end, f"{code[begin:end]} {code[before[0] : before[1]]}")
        before = (begin, end, kind, conditional)


def _other_calls(code: str, begin: int, end: int, call: re.Match[str]) -> Iterator[tuple[str, str]]:
    """(kind, statement) of mistakes that do not leave a statement out, but change it."""
    name = call["name"]
    given = [code[a:b] for a, b in arguments(code, call.end() - 1)]
    if kind_of(name) == "barrier":
        if name == "sync_cluster":
            yield "barrier", "sync_block();"
        elif "warpgroup::" not in call[0]:
            yield "barrier", OWN_BARRIER
    if re.fullmatch(r"(sync|arrive)_named", name):
        yield "barrier", f"kittens::{name}({given[0]}, ({given[1]}) + kittens::warpgroup_warps);"
    if kind_of(name) == "release" and "named" not in name:
        yield "release", code[begin:end] * 2
    if kind_of(name) == "group" and call["sizes"]:
        sizes = call["sizes"]
        yield "group", code[begin : call.start("sizes")] + f"<({sizes[1:-1]}) + 1>" + code[call.end("sizes") : end]
    if name == "await":
        for other in ("- 1", "+ 1"):
            yield "counter", f"await({', '.join(given[:-1])}, ({given[-1]}) {other});"
    if name == "init" and len(given) >= 2:
        last = 1 if "." in call[0] else 2
        if last < len(given):
            changed = [*given[:last], f"({given[last]}) - 1", *given[last + 1 :]]
            yield "arrivals", f"{call[0]}{', '.join(changed)});"


def _of_expressions(file: str, code: str) -> Iterator[Edit]:
    def made(kind: str, begin: int, end: int, new: str, differs: str = "true") -> Edit:
        return Edit(kind, file, begin, end, new, statement=False, differs=differs)

    for found in re.finditer(r"([\w.]+)\.(take|ask|fill)\(", code):
        ring, end = found[1], closing(code, found.end() - 1)
        first, last = arguments(code, found.end() - 1)[0]
        at = code[first:last]
        if at in ("where", "kittens_here") or (not at and found[2] != "take"):
            continue
        if not at:
            new = f"{ring}.take(kittens_here, false)"
        elif found[2] == "fill":
            new = UNASKED.replace("RING", ring).replace("AT", f"({at})")
        else:
            new = f"{ring}.stages[({at}).stage]"
        yield made("wait", found.start(), end, new)
    for found in re.finditer(r"(?<![\w.:>])wait\(", code):
        places = arguments(code, found.end() - 1)
        if len(places) < 2:
            continue
        begin, end = places[1]
        parity = f"({code[begin:end]})"
        for new in ("0", "1", f"1 - {parity}"):
            yield made("parity", begin, end, new, f"{parity} != {new}")
    for found in re.finditer(r"\bloaded_bytes<\w+>\(\)(?!\s*{)", code):
        for new in (f"{found[0]} / 2", f"{found[0]} + 16", "0"):
            yield made("bytes", *found.span(), new)
    for found in re.finditer(r"(?<=\[)(?:\w+\.)?stage(?=\])|(?<=::nth\()[^()]+(?=\))", code):
        yield made("stage", *found.span(), "0", f"({found[0]}) != 0")
    for found in re.finditer(r"(?<![\w.>-])([\w.>-]+)\[(?!(?:\w+\.)?stage\])", code):
        begin, end = found.end(), closing(code, found.end() - 1) - 1
        statement = re.split(r"[;{}]", code[: found.start(1)])[-1]
        declared = re.match(
            r"\s*(using|template|(static )?constexpr)\b|\s*(?!return)[\w:<>.,*& ]+ (\w+\[\w+\], )*$", statement
        )
        if not declared and code[begin:end] not in ("", "0") and ("." in found[1] or not code[begin:end].isdigit()):
            yield made("place", begin, end, "0", f"({code[begin:end]}) != 0")
    for found in re.finditer(r"(\w+)\.stage_before\(\)", code):
        yield made("stage", *found.span(), f"{found[1]}.stage")
    for found in re.finditer(r"\b(?:element_)?coord{", code):
        for begin, end in arguments(code, found.end() - 1):
            if not code[begin:end].isdigit() and begin < end:
                yield made("coordinate", begin, end, "0", f"({code[begin:end]}) != 0")


UNASKED = """[&] {
    using ring_of = std::remove_reference_t<decltype(RING)>;
    constexpr int bytes = loaded_bytes<std::remove_reference_t<decltype(*RING.stages)>>();
    return typename ring_of::filling{RING.stages[AT.stage], RING.full[AT.stage], {RING.full[AT.stage], bytes}};
}()"""
"""A ring's `fill` that does not ask whether the stage is free."""


def with_all(text: str, numbered: list[tuple[int, Edit]]) -> str:
    """The text with all of its edits, of which a program makes the one whose number it is given."""
    inserted: list[tuple[tuple[int, int, int, int], int, str]] = []
    for number, edit in numbered:
        made = f"mutants::made({number}{'' if edit.differs == 'true' else ', ' + edit.differs})"
        parts = (
            (f"{{ if ({made}) {{ {edit.new} }} else {{ ", " } }")
            if edit.statement
            else (f"({made} ? ({edit.new}) : (", "))")
        )
        # What ends at a place comes before what begins there. The inner one ends first, the outer one begins first.
        inserted.append(((edit.end, 0, -edit.begin, -number), edit.end, parts[1]))
        inserted.append(((edit.begin, 1, -edit.end, number), edit.begin, parts[0]))
    for (_, one), (_, other) in pairwise(sorted(numbered, key=lambda pair: (pair[1].begin, -pair[1].end))):
        assert other.begin >= one.end or other.end <= one.end, (
            f"{text[one.begin : one.end]} and {text[other.begin : other.end]} overlap"
        )
    made, last = [], 0
    for _, at, new in sorted(inserted):
        made += [text[last:at], new]
        last = at
    return "".join([*made, text[last:]])
