"""Wrong operands, derived from what each operator declares: all are refused by name, and none reaches a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from operator_examples import Example, examples
from torch import Tensor

import tk_kernels as tk
from tk_kernels.ops import operands as tk_operands
from tk_kernels.ops.contract import ANY, ONE, Contract, Operand, checked

DECODE = ("mla_decode", "paged_attention_decode")
EXAMPLES = {name: one for name, one in examples().items() if hasattr(one.operator, "contract")}


def contract_of(name: str) -> Contract:
    contract: Contract = EXAMPLES[name].operator.contract  # type: ignore[attr-defined]
    return contract


def longer(tensor: Tensor, dim: int) -> Tensor:
    """One more along a dimension, which lies in memory as the tensor does."""
    order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
    sizes = [size + (place == dim) for place, size in enumerate(tensor.shape)]
    made = torch.zeros([sizes[one] for one in order]).to(tensor.dtype)
    return made.permute([order.index(one) for one in range(len(order))])


def strided_otherwise(tensor: Tensor, dim: int) -> Tensor:
    """The same sizes with every second element along a dimension, or of the two last the other one dense."""
    return tensor.mT.contiguous().mT if dim == -1 else tensor.contiguous()


def wrong_of(operand: Operand, right: Tensor) -> Iterator[tuple[str, Any, str]]:
    """Wrong tensors for an operand, by what is wrong, and words of the refusal."""
    yield "no tensor", 1.0, "got a float, needs a torch.Tensor"
    yield "complex", right.to(torch.complex64), "got dtype complex64, needs"
    yield "integers", right.to(torch.int64), "got dtype int64, needs"
    yield "quantized", right.new_empty(right.shape, dtype=torch.quint8), "got dtype quint8, needs"
    yield "sparse", right.float().to_sparse(), "got layout sparse_coo, needs a dense tensor"
    if not any(ANY in one.sizes or one.sizes == (ONE,) for one in operand.layouts):
        yield "rank", right.new_empty(*[1] * 5, *right.shape), "got rank .*, needs rank"
    layout = next(one for one in operand.layouts if one.takes(right.dim()))
    for dim, size in enumerate(layout.sizes if ANY not in layout.sizes and layout.sizes != (ONE,) else ()):
        yield f"empty {size}", right.narrow(dim, 0, 0), "got shape .*, needs every size from 1 to"
        if size not in layout.new:
            yield f"longer {size} {dim}", longer(right, dim), "got shape .*, needs"
    if operand.stride is not None:
        yield "stride", strided_otherwise(right, operand.stride), "got stride .*, needs 1"


def sizes_of(contract: Contract, arguments: dict[str, Any]) -> dict[str, Any]:
    """The sizes of operands by their names."""
    known: dict[str, Any] = {}
    for operand in contract.operands:
        for layout in operand.layouts:
            tensor = arguments.get(operand.name)
            if tensor is not None and layout.takes(tensor.dim()):
                known = layout.bound(tuple(tensor.shape), known) or known
    return known


def completed(example: Example) -> dict[str, Any]:
    """An example's operands, and those that it leaves out."""
    contract: Contract = example.operator.contract  # type: ignore[attr-defined]
    given = example.operands()
    known = sizes_of(contract, given)
    for one in contract.operands:
        if one.name not in given:
            assert one.optional
            assert isinstance(one.dtypes, tuple)
            given[one.name] = torch.zeros([known[size] for size in one.layouts[0].sizes], dtype=one.dtypes[0])
    return given


def mistakes() -> Iterator[Any]:
    for name, example in EXAMPLES.items():
        given = completed(example)
        for operand in contract_of(name).operands:
            for what, wrong, words in wrong_of(operand, given[operand.name]):
                yield pytest.param(name, operand.name, wrong, words, id=f"{name} {operand.name} {what}")


@pytest.fixture
def no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def reached(*_: object) -> None:
        raise AssertionError("a kernel was reached")

    monkeypatch.setattr(tk_operands, "compiled", reached)
    monkeypatch.setattr("tk_kernels.kernels.gemm.launch.compiled", reached)


@pytest.mark.usefixtures("no_kernel")
@pytest.mark.parametrize(("operator", "name", "wrong", "words"), list(mistakes()))
def test_a_wrong_operand_is_refused_by_name(operator: str, name: str, wrong: Any, words: str) -> None:
    operands = completed(EXAMPLES[operator]) | {name: wrong}
    with pytest.raises(ValueError, match=rf"^{name}: {words}") as error:
        EXAMPLES[operator].operator(**operands)
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("no_kernel")
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_operand_on_another_device_is_refused(name: str) -> None:
    operands = EXAMPLES[name].make()
    operands[-1] = operands[-1].to("meta")
    if len(operands) > 1:
        with pytest.raises(ValueError, match=rf"^{EXAMPLES[name].names[-1]}: is on meta, needs to be on cpu as"):
            EXAMPLES[name](*operands)


@pytest.mark.usefixtures("no_kernel")
@pytest.mark.parametrize("place", ["eager", "traced"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_condition_that_does_not_hold_is_told(name: str, place: str) -> None:
    """Each size is varied until the condition is false and everything else right; a size that others depend on is not.

    Guard: what the conditions say must not differ from what the quick check tests.
    """
    contract, example = contract_of(name), EXAMPLES[name]
    arguments = {one.name: one.default for one in contract.signature.parameters.values()} | example.operands()
    known = sizes_of(contract, arguments)
    asked = {text for one in contract.operands for layout in one.layouts for text, _ in layout.where}
    assert asked == {text for text, _ in contract.where}
    told = set[str]()
    for size in [one for one in known if one != ANY]:
        for other in (known[size] + 1, 3, 24, 96, 8256):
            sizes = {**known, size: other}
            changed = {**arguments, **{one.name: resized(one, sizes, arguments[one.name]) for one in contract.operands}}
            false = [
                text
                for text in asked
                if _names_are_there(text, contract, sizes, changed) and not _holds(text, contract, sizes, changed)
            ]
            if len(false) == 1:
                given = [changed[one] if place == "eager" else changed[one].to("meta") for one in example.names]
                with pytest.raises(ValueError, match=r"^\w+: got "):
                    example(*given)
                told.update(false)
    missing = {one for one in asked if _names_are_there(one, contract, known, arguments)} - told
    assert not missing


def _names_are_there(text: str, contract: Contract, sizes: dict[str, Any], arguments: dict[str, Any]) -> bool:
    try:
        eval(text, contract.scope, {**arguments, **sizes})
    except NameError:
        return False
    except ValueError:
        return True
    return True


def _holds(text: str, contract: Contract, sizes: dict[str, Any], arguments: dict[str, Any]) -> bool:
    try:
        return bool(eval(text, contract.scope, {**arguments, **sizes}))
    except ValueError:
        return False


def resized(operand: Operand, sizes: dict[str, Any], before: Tensor | None) -> Tensor | None:
    """Zeros of the operand's shape with these sizes."""
    if before is None:
        return None
    layout = next(one for one in operand.layouts if one.takes(before.dim()))
    if layout.sizes == (ONE,):
        return before
    shape = [part for one in layout.sizes for part in (sizes[ANY] if one == ANY else [sizes.get(one) or int(one)])]
    made = torch.zeros(shape).to(before.dtype)
    return made.mT.contiguous().mT if operand.stride == -2 else made


def declared(**operands: str) -> Callable[..., Any]:
    @checked("b >= n", largest=9, **operands)  # type: ignore[arg-type]
    def function(x: Tensor, y: Tensor | None = None, *, n: int = 1, **more: int) -> tuple[Any, ...]:
        return x, y, n, more

    return function


def test_a_size_that_is_too_large_is_refused_unless_it_is_traced() -> None:
    function = declared(x="b c fp32")
    assert function(torch.zeros(9, 9), n=2, other=3)[2:] == (2, {"other": 3})
    with pytest.raises(ValueError, match=r"^x: got shape \(2, 10\), needs every size from 1 to 9$"):
        function(torch.zeros(2, 10))
    rows = declared(x="... b fp32", y="... b x.dtype")
    assert rows(torch.zeros(3, 3, 2), torch.zeros(3, 3, 2))
    with pytest.raises(ValueError, match=r"^x: got shape \(2, 5, 2\), needs every size from 1 to 9$"):
        rows(torch.zeros(2, 5, 2))
    with pytest.raises(ValueError, match=r"^y: got shape \(9, 2\), needs \(3, 3, 2\), ..., b as x has$"):
        rows(torch.zeros(3, 3, 2), torch.zeros(9, 2))


def test_a_docstring_has_the_shapes_and_the_numbers_of_constants() -> None:
    words = " ".join((tk.attention.__doc__ or "").split())
    assert "Operands: q (B, Hq, N, D) bfloat16, last dimension dense; k, v (B, Hkv, Nkv, D) bfloat16," in words
    assert words.endswith("; D in (64, 128); Hq % Hkv == 0.")


def test_a_size_may_have_a_name_in_capitals() -> None:
    @checked("ROWS % 8 == 0", x="ROWS n fp32")
    def scaled(x: Tensor) -> Tensor:
        """Scaled."""
        return x

    assert "ROWS % 8 == 0" in str(scaled.__doc__)
    with pytest.raises(ValueError, match="^x: .*ROWS = 4"):
        scaled(torch.zeros(4, 2))


def test_a_size_is_in_a_shape_once() -> None:
    """Guard: the quick check took the last one."""
    with pytest.raises(ValueError, match="^y: n n names a size twice"):
        declared(x="b c fp32", y="b or n n fp32")
    declared(x="b 2 2 fp32")


def test_a_dense_dimension_of_one_element_may_have_any_stride() -> None:
    function = declared(x="b c fp32 dense")
    assert function(torch.zeros(1, 3).t())[0].shape == (3, 1)
    with pytest.raises(ValueError, match="^x: got stride 3 along the last dimension, needs 1$"):
        function(torch.zeros(2, 3).t())


def test_messages_name_sizes_and_whose_they_are() -> None:
    function = declared(x="b c fp32", y="b or c d bf16|fp32")
    for x, y, n, words in (
        (torch.zeros(2, 3), torch.zeros(3), 1, r"y: got shape (3,), needs (2,) or (3, d), b, c as x has"),
        (torch.zeros(2, 3), torch.zeros(3, 4).half(), 1, "y: got dtype float16, needs bfloat16 or float32"),
        (torch.zeros(2, 3), torch.zeros(()), 1, "y: got rank 0, needs rank 1 or 2"),
        (torch.zeros(2, 3), None, 4, "x: got shape (2, 3), needs b >= n; here b = 2, n = 4"),
    ):
        with pytest.raises(ValueError) as error:  # noqa: PT011
            function(x, y, n=n)
        assert str(error.value) == words


@pytest.mark.usefixtures("no_kernel")
@pytest.mark.parametrize("name", EXAMPLES)
def test_registered_operators_refuse_too(name: str) -> None:
    """Guard: bindings trust the operators, so that a direct call of a registered one must not come by the check."""
    example = EXAMPLES[name]
    plan: dict[str, Any] = {}
    if name in DECODE:
        plan = {"plan": torch.zeros(1, dtype=torch.int32), "words": torch.zeros(1, dtype=torch.int32), "sizes": [1] * 5}
    registered = getattr(torch.ops.tk_kernels, {"gemm with an epilogue": "gemm_epilogue"}.get(name, name))
    operands = example.operands()
    operands[example.names[-1]] = operands[example.names[-1]].to(torch.complex64)
    with pytest.raises(ValueError, match=rf"^{example.names[-1]}: got dtype complex64, needs"):
        registered(**operands, **plan)
