"""What an operator asks of its operands, stated once, in its declaration:

    q="B Hq N D bf16 dense", k="B Hkv Nkv D bf16 dense", v=..., where=("D in (64, 128)", "Hq % Hkv == 0")

An operand has its sizes, each a number or a name, and its dtype: one, several (`bf16|fp32`), or that of an operand
before it (`cos.dtype`). A name stands for one size wherever it is, and is in a shape once. `H or B H N` are two shapes,
told by their rank; `one` is a single element of any rank; `...` are any sizes, the same in all operands. `dense`: the
last dimension has stride 1 or one element, `columns`: the one before it has. An operand that is None by default may be
left out. All are on the device of the first, and every size is from 1 to `largest`, as is the product of the sizes for
which `...` stands.

`where` are Python's conditions on sizes, other arguments and names of the operator's module; a pair has words for the
message besides, with sizes and arguments in braces. A condition belongs to the last operand whose sizes it names, and
counts where that operand is given in a shape with these sizes.
"""

from __future__ import annotations

import ast
import functools
import inspect
import math
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import FakeTensor

DTYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
    "e4m3": torch.float8_e4m3fn,
    "int32": torch.int32,
}
STRIDES = {"dense": -1, "columns": -2}
ANY, ONE = "...", "one"
LARGEST = 2**31 - 1

Condition = tuple[str, str]
"""A condition of `where` and its words, which may be none."""


@dataclass(frozen=True)
class Layout:
    """A declared shape: its sizes, those that no operand before has, and what is asked of them."""

    sizes: tuple[str, ...]
    new: tuple[str, ...]
    where: tuple[Condition, ...]

    def takes(self, rank: int) -> bool:
        """Whether a tensor of this rank may have the shape."""
        return self.sizes == (ONE,) or len(self.sizes) == rank or (ANY in self.sizes and len(self.sizes) <= rank + 1)

    def bound(self, got: tuple[Any, ...], known: Mapping[str, Any]) -> dict[str, Any] | None:
        """All known sizes by their names where a tensor has this shape, else None."""
        if self.sizes == (ONE,):
            return dict(known) if math.prod(got) == 1 else None
        if ANY in self.sizes:
            rest = len(got) - len(self.sizes) + 1
            got = (got[:rest], *got[rest:])
        found = dict(known)
        fits = all(
            (int(one) if one.isdigit() else found.setdefault(one, size)) == size
            for one, size in zip(self.sizes, got, strict=True)
        )
        return found if fits else None

    def text(self, known: Mapping[str, Any]) -> str:
        """The shape with the sizes that are known."""
        sizes = [
            str(size) for one in self.sizes for size in (known[one] if one == ANY and known else [known.get(one, one)])
        ]
        return "one element" if sizes == [ONE] else f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"

    def quick(self, name: str) -> tuple[list[str], list[str]]:
        """Statements that take a tensor's new sizes, and what has to be true then."""
        parts = ["*rest" if one == ANY else one for one in self.sizes]
        tests = [f"({text})" for text, _ in self.where]
        if self.sizes == (ONE,):
            return [], [f"{name}.numel() == 1"]
        if not self.new:
            return [], [f"{name}.shape == ({', '.join(parts)},)", *tests]
        old = {place: one for place, one in enumerate(self.sizes) if one not in self.new}
        targets = [f"{name}_{place}" if place in old else part for place, part in enumerate(parts)]
        sizes = [f"*{name}.shape" if ANY in self.new else one for one in self.new]
        most = [
            f"max({name}.shape)" if ANY in self.new else " | ".join(sizes),
            *[f"_prod({name}.shape[:-1])"] * (ANY in self.new),
        ]
        return [f"{', '.join(targets)}, = {name}.shape"], [
            *(f"{name}_{place} == {one}" for place, one in old.items()),
            f"0 not in ({', '.join(sizes)},)",
            *(f"(type({name}) is _Fake or {one} <= _largest)" for one in most),
            *tests,
        ]


@dataclass(frozen=True)
class Operand:
    """A declared operand; dtypes may be those of another, `name.dtype`, stride the dimension that has to be dense."""

    name: str
    layouts: tuple[Layout, ...]
    dtypes: tuple[torch.dtype, ...] | str
    stride: int | None
    optional: bool

    def quick(self, first: str) -> list[str]:
        """Python that sets `right` to whether the operand is; `first` is the operand whose device is that of all."""
        name = self.name
        dtypes = (
            [self.dtypes]
            if isinstance(self.dtypes, str)
            else [f"_{one}" for one in DTYPES if DTYPES[one] in self.dtypes]
        )
        tests = [f"({' or '.join(f'{name}.dtype is {one}' for one in dtypes)})"]
        tests += [f"{name}.device == _device"] * (name != first)
        if self.stride is not None:
            tests.append(f"({name}.stride({self.stride}) == 1 or {name}.shape[{self.stride}] == 1)")
        lines = []
        for number, one in enumerate(self.layouts):
            statements, more = one.quick(name)
            made = [*statements, f"right = {' and '.join(['right', *tests, *more])}"]
            if len(self.layouts) > 1:
                which = f"{name}.numel() == 1" if one.sizes == (ONE,) else f"len({name}.shape) == {len(one.sizes)}"
                made = [f"{'elif' if number else 'if'} {which}:", *_indented(made)]
            lines += made
        lines += ["else:", "    right = False"] if len(self.layouts) > 1 else []
        return [f"if {name} is not None:", *_indented(lines)] if self.optional else lines


class Contract:
    """The operands that a function declares."""

    def __init__(
        self, body: Callable[..., Any], operands: Mapping[str, str], where: tuple[str | Condition, ...], largest: int
    ) -> None:
        self.signature, self.scope, self.largest = inspect.signature(body), body.__globals__, largest
        self.where = [(one, "") if isinstance(one, str) else one for one in where]
        self.operands: list[Operand] = []
        words = {word for text in operands.values() for word in text.split()}
        of = {text: _names(text) & words for text, _ in self.where}
        known: set[str] = set()
        for name, text in operands.items():
            *shapes, dtype = text.split()
            stride = STRIDES.get(dtype)
            if stride is not None:
                dtype = shapes.pop()
            layouts = []
            for sizes in (tuple(one.split()) for one in " ".join(shapes).split(" or ")):
                if any(sizes.count(one) > 1 and not one.isdigit() for one in sizes):
                    raise ValueError(f"{name}: {' '.join(sizes)} names a size twice, which no check compares")
                new = tuple(one for one in dict.fromkeys(sizes) if not one.isdigit() and one not in {*known, ONE})
                where_new = tuple(one for one in self.where if of[one[0]] & set(new) and of[one[0]] <= known | set(new))
                layouts.append(Layout(sizes, new, where_new))
            optional = self.signature.parameters[name].default is None
            if not optional and len(layouts) == 1:
                known.update(layouts[0].new)
            dtypes = dtype if dtype.endswith(".dtype") else tuple(DTYPES[one] for one in dtype.split("|"))
            self.operands.append(Operand(name, tuple(layouts), dtypes, stride, optional))

    def refuse(self, arguments: Mapping[str, Any]) -> None:
        """Raises the ValueError that names the first wrong operand, what it got and what it needs."""
        known: dict[str, Any] = {}
        owners: dict[str, str] = {}
        first = self.operands[0].name
        for operand in self.operands:
            name, tensor = operand.name, arguments[operand.name]
            if tensor is None and operand.optional:
                continue
            require_strided(name, tensor)
            got, layouts = tuple(tensor.shape), [one for one in operand.layouts if one.takes(tensor.dim())]
            if not layouts:
                ranks = " or ".join("1 or more" if ANY in one.sizes else str(len(one.sizes)) for one in operand.layouts)
                raise ValueError(f"{name}: got rank {tensor.dim()}, needs rank {ranks}")
            dtypes = operand.dtypes
            if isinstance(dtypes, str):
                dtypes = (arguments[dtypes.removesuffix(".dtype")].dtype,)
            if tensor.dtype not in dtypes:
                raise ValueError(f"{name}: got dtype {_plain(tensor.dtype)}, needs {' or '.join(map(_plain, dtypes))}")
            most = [*got, *[math.prod(got[:-1])] * (ANY in layouts[0].sizes)]
            if 0 in got or (type(tensor) is not FakeTensor and max(most, default=1) > self.largest):
                raise ValueError(f"{name}: got shape {got}, needs every size from 1 to {self.largest}")
            if tensor.device != arguments[first].device:
                wanted = arguments[first].device
                raise ValueError(f"{name}: is on {tensor.device}, needs to be on {wanted} as {first} is")
            bound = ((one, found) for one in layouts if (found := one.bound(got, known)) is not None)
            layout, found = next(bound, (None, known))
            if layout is None:
                sizes = {one for each in operand.layouts for one in each.sizes}
                whose = [
                    f"{', '.join(one for one in owners if owners[one] == owner and one in sizes)} as {owner} has"
                    for owner in dict.fromkeys(owner for one, owner in owners.items() if one in sizes)
                ]
                shapes = " or ".join(one.text(known) for one in operand.layouts)
                raise ValueError(f"{name}: got shape {got}, needs {', '.join([shapes, *whose])}")
            owners.update(dict.fromkeys(layout.new, name))
            known = found
            if operand.stride is not None and tensor.stride(operand.stride) != 1 != tensor.shape[operand.stride]:
                which = (
                    "the last dimension"
                    if operand.stride == -1
                    else "its columns, which are contiguous in the transpose w.t() of a contiguous w"
                )
                raise ValueError(f"{name}: got stride {tensor.stride(operand.stride)} along {which}, needs 1")
            scope = {**arguments, **known}
            for text, words in layout.where:
                if not eval(text, self.scope, scope):
                    all_names = self.scope | scope
                    values = [f"{one} = {all_names[one]}" for one in sorted(_names(text) & all_names.keys())]
                    needs = words.format_map(scope) if words else f"{text}; here {', '.join(values)}"
                    raise ValueError(f"{name}: got shape {got}, needs {needs}")
        raise AssertionError(f"nothing is wrong with {arguments}, which is a bug in tk_kernels")

    def sentence(self) -> str:
        """What a docstring says of the operands."""
        groups: dict[str, list[str]] = {}
        for one in self.operands:
            shapes = " or ".join(layout.text({}) for layout in one.layouts)
            dtypes = one.dtypes if isinstance(one.dtypes, str) else " or ".join(map(_plain, one.dtypes))
            dense = {None: "", -1: ", last dimension dense", -2: ", columns contiguous"}[one.stride]
            groups.setdefault(f"{shapes} {dtypes}{dense}{', or None' if one.optional else ''}", []).append(one.name)
        listed = [f"{', '.join(names)} {text}" for text, names in groups.items()]
        conditions = (
            re.sub(r"\b[A-Z_]{3,}\b", lambda name: str(self.scope.get(name[0], name[0])), text)
            for text, _ in self.where
        )
        return "; ".join([*listed, *conditions])


def checked(*where: str | Condition, largest: int = LARGEST, **operands: str) -> Callable[..., Callable[..., Any]]:
    """Make a function refuse operands that its declaration (see above) does not allow, before it runs.

    It raises ValueError that names the operand, what it got and what it needs. `then` is called in its place, with its
    arguments.
    """

    def decorate(body: Callable[..., Any], then: Callable[..., Any] | None = None) -> Callable[..., Any]:
        contract = Contract(body, operands, where, largest)
        function = _generated(body, contract, then or body)
        functools.update_wrapper(function, body).__dict__["contract"] = contract
        told = textwrap.indent(textwrap.fill(f"Operands: {contract.sentence()}.", 116, break_on_hyphens=False), " " * 4)
        function.__doc__ = f"{(body.__doc__ or '').rstrip()}\n\n{told}\n    "
        return function

    return decorate


class _Text(str):
    """What stands for a default in the text of a signature."""

    __repr__ = str.__str__


def _generated(body: Callable[..., Any], contract: Contract, then: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the body's arguments: a quick check of the operands, then a call of another with them."""
    arguments = contract.signature.parameters.values()
    kept = {one.name: one.default for one in arguments if one.default is not one.empty}
    bare = [
        one.replace(annotation=one.empty, default=_Text(f"_of[{one.name!r}]") if one.name in kept else one.empty)
        for one in arguments
    ]
    passed = [
        f"**{one.name}"
        if one.kind is one.VAR_KEYWORD
        else f"{one.name}={one.name}"
        if one.kind is one.KEYWORD_ONLY
        else one.name
        for one in arguments
    ]
    first = contract.operands[0].name
    lines = [line for one in contract.operands for line in one.quick(first)]
    text = [
        f"def make(_body, _refuse, _of, _largest, _Fake, _prod, {', '.join(f'_{one}' for one in DTYPES)}):",
        f"    def {body.__name__}{inspect.Signature(bare)}:",
        "        right = True",
        "        try:",
        f"            _device = {first}.device",
        *("            " + line for line in lines),
        "        except (AttributeError, TypeError, ValueError):",
        "            right = False",
        "        except RuntimeError:  # a size that only data decide: the call with data will see",
        f"            right = type({first}) is _Fake",
        "        if not right:",
        f"            _refuse(dict({', '.join(f'{one.name}={one.name}' for one in arguments)}))",
        f"        return _body({', '.join(passed)})",
        f"    return {body.__name__}",
    ]
    scope: dict[str, Any] = {}
    exec(compile("\n".join(text), f"<operands of {body.__name__}>", "exec"), body.__globals__, scope)
    made: Callable[..., Any] = scope["make"](
        then, contract.refuse, kept, contract.largest, FakeTensor, math.prod, *DTYPES.values()
    )
    return made


def _names(condition: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(condition)) if isinstance(node, ast.Name)}


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _plain(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def require_strided(name: str, tensor: Any) -> None:
    """Raises ValueError for what is no tensor, and for one that is sparse or nested."""
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{name}: got a {type(tensor).__name__}, needs a torch.Tensor")
    if tensor.layout != torch.strided or tensor.is_nested:
        layout = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.").removeprefix("_")
        raise ValueError(f"{name}: got layout {layout}, needs a dense tensor (strided)")
