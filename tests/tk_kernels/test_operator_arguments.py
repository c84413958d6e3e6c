"""An operator's arguments as a user sees them, and as PyTorch's schema has them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, TypedDict, Unpack, cast, get_type_hints

import pytest
import torch
from torch import Tensor

import tk_kernels as tk
from tk_kernels.ops import OPERATORS
from tk_kernels.ops.operator import carried, operator
from tk_kernels.ops.operator_form import Form

SPELT = {
    "Tensor": Tensor,
    "Optional[Tensor]": Tensor | None,
    "bool": bool,
    "int": int,
    "Optional[int]": int | None,
    "float": float,
    "str": str,
    "Optional[float]": float | None,
    "Optional[List[float]]": Sequence[float] | None,
}
CARRIED: dict[str, set[str]] = {
    "attention": {"options"},
    "gemm": {"options"},
    "gemm_fp8": {"options"},
    "llama_decode": {"program", "header", "words", "scratch"},
    "mla_decode": {"words", "sizes"},
    "paged_attention_decode": {"words", "sizes"},
}
"""What stands for arguments that no schema can carry: options as numbers, a plan's parts."""
OTHERWISE = {("gemm_fp8", "out_dtype"), ("mla_decode", "plan"), ("paged_attention_decode", "plan")}

REGISTERED = [name for name in OPERATORS if hasattr(torch.ops.tk_kernels, name)]


@pytest.mark.parametrize("name", REGISTERED)
def test_the_schema_has_the_arguments_of_the_public_function(name: str) -> None:
    schema = getattr(torch.ops.tk_kernels, name).default._schema
    public, hints = inspect.signature(OPERATORS[name]).parameters, get_type_hints(OPERATORS[name])
    both = [one for one in schema.arguments if one.name in public and one.name not in CARRIED.get(name, ())]
    assert {one.name for one in schema.arguments} - {one.name for one in both} == CARRIED.get(name, set())
    assert [one.name for one in both] == [one for one in public if one in {argument.name for argument in both}]
    for one in both:
        if (name, one.name) in OTHERWISE:
            continue
        wanted = hints[one.name]
        if one.has_default_value():
            assert one.default_value == public[one.name].default, one.name
        assert SPELT[str(one.type)] == wanted, one.name


@operator()
def twice_or_both(
    a: Tensor, b: Tensor | None = None, *, negative: bool = False, both: bool = False
) -> Tensor | tuple[Tensor, tuple[Tensor, Tensor]]:
    """2 a, or with `both` also (3 a, 4 a)."""
    sign = -1 if negative else 1
    return (2 * sign * a, (3 * a, 4 * a)) if both else 2 * sign * a


def test_one_signature_makes_the_schema_and_the_public_function() -> None:
    schema = str(torch.ops.tk_kernels.twice_or_both.default._schema)
    assert schema.endswith("(Tensor a, Tensor? b=None, bool negative=False, bool both=False) -> Tensor[]")
    assert "2 a, or with `both`" in (twice_or_both.__doc__ or "")
    a = torch.arange(3.0)
    compiled = torch.compile(twice_or_both, backend="eager", fullgraph=True)
    for function in (twice_or_both, compiled):
        assert torch.equal(function(a, negative=True), -2 * a)  # type: ignore[operator]
        out, (triple, fourfold) = function(a, both=True)  # type: ignore[operator]
        assert [int(one[1]) for one in (out, triple, fourfold)] == [2, 3, 4]


@pytest.mark.parametrize(
    ("arguments", "keywords", "kind", "words"),
    [
        ((1.0,), {}, ValueError, "a: got a float, needs a torch.Tensor"),
        ((torch.ones(2).to_sparse(),), {}, ValueError, "a: got layout sparse_coo, needs a dense tensor"),
        ((torch.ones(2), "b"), {}, ValueError, "b: got a str, needs a torch.Tensor"),
        ((torch.ones(2),), {"both": "yes"}, ValueError, "both: got 'yes', needs True or False"),
        (
            (torch.ones(2, requires_grad=True),),
            {},
            NotImplementedError,
            "twice_or_both: has no backward, and a requires",
        ),
        ((), {}, TypeError, "missing 1 required positional argument: 'a'"),
        ((torch.ones(2),), {"neg": True}, TypeError, "unexpected keyword argument 'neg'"),
    ],
)
def test_a_mistake_is_named(arguments: Any, keywords: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        twice_or_both(*arguments, **keywords)


class Factors(TypedDict, total=False):
    """Options of `scaled`."""

    by: int | None


def _encode(options: Factors) -> list[int] | None:
    return None if options.get("by") is None else [cast(int, options["by"])]


@operator(
    Form("scaled", {"out": None, "inplace": False}, backward=lambda ctx, grad: (2 * grad, None)),
    Form("scaled_out", {"inplace": False}, changes=("out",)),
    Form("scaled_", {"out": None, "inplace": True}, changes=("a",)),
    options=_encode,
)
def scaled(a: Tensor, *, out: Tensor | None = None, inplace: bool = False, **options: Unpack[Factors]) -> Tensor:
    """2 a, or `by` a."""
    if out is not None and inplace:
        raise ValueError("out: cannot be given in place")
    (by,) = carried(options) or [2]
    result = by * a
    return result if out is None and not inplace else (a if out is None else out).copy_(result)


def test_forms_of_one_signature() -> None:
    schemas = [str(getattr(torch.ops.tk_kernels, name).default._schema) for name in ("scaled", "scaled_out", "scaled_")]
    assert [schema.removeprefix("tk_kernels::") for schema in schemas] == [
        "scaled(Tensor a, int[]? options=None) -> Tensor",
        "scaled_out(Tensor a, Tensor(a1!) out, int[]? options=None) -> ()",
        "scaled_(Tensor(a0!) a, int[]? options=None) -> ()",
    ]
    compiled = torch.compile(scaled, backend="eager", fullgraph=True)
    for function in (scaled, compiled):
        a, out = torch.arange(3.0), torch.empty(3)
        assert function(a, out=out, by=3) is out  # type: ignore[operator]
        assert torch.equal(out, 3 * a)
        assert function(a, inplace=True) is a  # type: ignore[operator]
        assert torch.equal(a, 2 * torch.arange(3.0))
    with pytest.raises(ValueError, match="out: cannot be given in place"):
        scaled(a, out=out, inplace=True)
    leaf = torch.ones(3, requires_grad=True)
    scaled(leaf).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [2, 2, 2]
    with pytest.raises(NotImplementedError, match="scaled_out: has no backward, and a requires a gradient"):
        scaled(leaf, out=out)


@operator(Form("shifted", backward=lambda ctx, grad: (grad, None, None)))
def shifted(a: Tensor, *, by: float = 1.0, times: int = 1) -> Tensor:
    """A + by times."""
    if isinstance(by, bool) or not isinstance(by, float):
        raise ValueError(f"by: got {by!r}, needs a number")
    return a + by * times


@pytest.mark.parametrize("recorded", [False, True], ids=["plain", "recorded"])
@pytest.mark.parametrize(
    ("arguments", "keywords", "kind", "words"),
    [
        (1, {"by": "x"}, ValueError, "by: got 'x', needs a number"),
        (1, {"by": True}, ValueError, "by: got True, needs a number"),
        (1, {"by": 10**400}, ValueError, "by: got 1000"),
        (0, {}, TypeError, "missing 1 required positional argument: 'a'"),
        (2, {}, TypeError, "takes 1 positional argument but 2 were given"),
        (1, {"a": 1.0}, ValueError, "a: got a float"),
        (1, {"of": 1.0}, TypeError, "unexpected keyword argument 'of'"),
    ],
)
def test_a_mistake_has_the_same_words_where_a_gradient_is_recorded(
    arguments: int, keywords: Any, kind: type[Exception], words: str, recorded: bool
) -> None:
    a = torch.ones(2, requires_grad=recorded)
    with pytest.raises(kind, match=words):
        shifted(*[a] * arguments, **keywords)


def test_what_is_written_may_have_a_pending_minus_sign() -> None:
    for by in ({}, {"by": 3}):
        a, out = torch._neg_view(torch.arange(3.0)), torch._neg_view(torch.zeros(3))
        assert scaled(a, out=out, **by) is out  # type: ignore[arg-type]
        wanted = -by.get("by", 2) * torch.arange(3.0)
        assert torch.equal(out, wanted)
        assert torch.equal(scaled(a, inplace=True, **by), wanted)  # type: ignore[arg-type]
        assert torch.equal(a, wanted)


def test_an_unknown_option_is_named_with_the_known_ones() -> None:
    a = torch.ones(8, 8, dtype=torch.bfloat16)
    with pytest.raises(TypeError, match="unexpected keyword argument 'stage', the options are stages, persistent"):
        tk.gemm(a, a, stage=2)  # type: ignore[call-arg]
    q = torch.ones(1, 1, 8, 64, dtype=torch.bfloat16)
    with pytest.raises(TypeError, match="unexpected keyword argument 'paths', the options are order, synchronous"):
        tk.attention(q, q, q, paths="whole")  # type: ignore[call-arg]
