"""Wrong calls of an operator, all of which have to be refused in one line that names the argument."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from torch import Tensor

Call = Callable[[], Tensor | tuple[Tensor, ...]]


def assert_refused(mistakes: Mapping[str, tuple[Call, str]]) -> None:
    """Each call raises ValueError with a line that its pattern is found in; all that do not are named."""
    wrong = {name: said for name, (call, words) in mistakes.items() if (said := _not_refused(call, words))}
    assert wrong == {}
    assert mistakes


def _not_refused(call: Call, words: str) -> str:
    try:
        call()
    except ValueError as error:
        said = str(error)
        one_line = len(said.splitlines()) == 1 or "there are:" in said
        return "" if one_line and re.search(words, said) else said
    return "not refused"
