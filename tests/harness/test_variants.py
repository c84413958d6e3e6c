import pytest

from harness.errors import HarnessError
from harness.variants import Variant, parse_variant


@pytest.mark.parametrize(
    ("label", "provider", "text"),
    [
        ("tk", "tk", ""),
        ("tk[]", "tk", ""),
        ("tk[stages=2]", "tk", "stages=2"),
        ("tk[stages=2;persistent=0]", "tk", "persistent=0;stages=2"),
        ("tk[persistent=0,stages=2]", "tk", "persistent=0;stages=2"),
        (" tk[ order = row_major ] ", "tk", "order=row_major"),
        ("mine_2[p=0.1;tile=128x256]", "mine_2", "p=0.1;tile=128x256"),
    ],
)
def test_labels(label, provider, text):
    variant = parse_variant(label)
    assert (variant.provider, variant.text) == (provider, text)
    assert parse_variant(str(variant)) == variant


def test_values_have_their_types():
    options = dict(parse_variant("tk[a=1;b=0.5;c=1x2;d=-3;e=1e-3]").options)
    assert options == {"a": 1, "b": 0.5, "c": "1x2", "d": -3, "e": 0.001}
    assert isinstance(options["a"], int)


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("", "not a name with options"),
        ("tk[", "not a name with options"),
        ("tk[stages=2", "not a name with options"),
        ("2tk", "not a name with options"),
        ("tk[stages]", "not of the form key=value"),
        ("tk[=2]", "not of the form key=value"),
        ("tk[stages=]", "not of the form key=value"),
        ("tk[stages=1;stages=2]", "given twice"),
    ],
)
def test_bad_labels(label, words):
    with pytest.raises(HarnessError, match=words):
        parse_variant(label)


def test_order_of_options_does_not_matter():
    assert parse_variant("tk[b=1;a=2]") == parse_variant("tk[a=2;b=1]") == Variant("tk", (("a", 2), ("b", 1)))
