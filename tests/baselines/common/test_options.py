"""Options of a variant: what is unknown is named."""

from __future__ import annotations

import pytest

from baselines.common.options import chosen

KNOWN = {"tuned": (0, 1), "layout": ("n", "k")}
DEFAULTS = {"tuned": 1, "layout": "n"}


def test_given_options_lie_over_the_defaults():
    assert chosen("x", {"tuned": 0}, KNOWN, DEFAULTS) == {"tuned": 0, "layout": "n"}


def test_unknown_option_is_named_with_the_known_ones():
    with pytest.raises(TypeError, match=r"x: got the option stages=2, it takes layout, tuned"):
        chosen("x", {"stages": 2}, KNOWN, DEFAULTS)


def test_unknown_value_is_named_with_the_known_ones():
    with pytest.raises(ValueError, match=r"x: got layout=m, it takes n, k"):
        chosen("x", {"layout": "m"}, KNOWN, DEFAULTS)


def test_a_baseline_without_options_says_none():
    with pytest.raises(TypeError, match="it takes none"):
        chosen("x", {"a": 1}, {}, {})
