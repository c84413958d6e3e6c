"""`operator`: registered PyTorch operators and their public function, all from the signature of one function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import UnionType
from typing import Any, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from .contract import LARGEST, Condition, checked, require_strided
from .library import is_plain_eager, refuse_unusable, refuse_unwritable
from .operator_form import Form, Parts, registered
from .options import flag

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_NUMBERS = (int, float, torch.SymInt, torch.SymFloat)
CARRIABLE: dict[Any, tuple[type, ...]] = {
    float: _NUMBERS,
    float | None: (*_NUMBERS, type(None)),
    int: (int, torch.SymInt),
    int | None: (int, torch.SymInt, type(None)),
    str: (str,),
    str | None: (str, type(None)),
    torch.dtype: (torch.dtype,),
    Sequence[float] | None: (list, tuple, type(None)),
}
"""What a schema takes for an annotation."""


def operator(
    *forms: Form,
    options: Callable[[Any], list[int] | None] | None = None,
    parts: Parts | None = None,
    fill: Callable[[dict[str, Any]], None] | None = None,
    where: tuple[str | Condition, ...] = (),
    largest: int = LARGEST,
    **operands: str,
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Register `body`, and return the public function: its signature states the arguments once.

    `operands`, `where` and `largest` say what its tensors have to be (see `contract`): neither the public function nor
    a registered operator runs `body` with others. `body` checks its other arguments, makes the results and launches the
    kernel where `has_elements`. Its annotations are the schema: tensors, numbers, flags and text, in its order, with
    its defaults. Results are a Tensor, or a tuple whose last part may be a tuple; where an annotation is a union of
    both, its tuple has more than one tensor.

    Each form is registered; without any the body is, under its name and without a backward. A call is of the first form
    whose `where` it has. A call of none is the body's alone, to refuse.

    `options` is the converter of a body's `**options`, a typed dictionary. It checks those of a call and makes a list
    of numbers of them, None where none has a value. The schema has that list as `options`, the body by `carried`.

    `parts` says what the schema carries of another argument that it cannot have. `fill` sees the keywords of a call
    first, and may put others in their place.

    The public function refuses what is no dense tensor or no flag, what `refuse_unusable` does, and what the form does
    of gradients; each is named. Then it calls `body`, past the dispatcher where nothing listens and no gradient is
    recorded.
    """

    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        made = forms or (Form(body.__name__),)
        if not operands:
            return _public(body, made, options, parts, fill)
        check = checked(*where, largest=largest, **operands)
        of_checked = None if parts is None else replace(parts, convert=check(body, parts.convert))
        return _public(check(body), made, options, of_checked, fill)

    return decorate


def carried(options: Mapping[str, Any]) -> list[int] | None:
    """What a body gets as its `**options`: what the converter made of them."""
    encoded: list[int] | None = options.get("options")
    return encoded


def _public(
    body: Callable[..., Any], forms: tuple[Form, ...], encode: Any = None, parts: Parts | None = None, fill: Any = None
) -> Callable[..., Any]:
    """The public function of a body, whose forms it registers; `encode` is the converter of its options."""
    hints = get_type_hints(body)
    if encode is not None:
        hints["options"] = list[int] | None
    returned = hints.pop("return")
    names = tuple(hints)
    known = frozenset(names) - {"options"} if encode is not None else frozenset(names)
    flags = tuple(one for one, kind in hints.items() if kind is bool)
    tensors = {one: kind is not Tensor for one, kind in hints.items() if kind is Tensor or Tensor in get_args(kind)}
    overloads = {form.name: registered(body, form, hints, returned, parts) for form in forms}
    join = None if returned is Tensor else _joined(returned)
    defaults = {one.name: one.default for one in inspect.signature(body).parameters.values()}
    choices = [(form, [(one, value, defaults[one]) for one, value in form.where.items()]) for form in forms]
    strided = torch.strided
    carriable = {one: CARRIABLE[kind] for one, kind in hints.items() if kind in CARRIABLE}
    choosing = {one for form in forms for one in form.where}
    fields = () if parts is None else tuple(get_type_hints(parts.kind))
    usual = _form_of(choices, {})
    unchecked = body if parts is None else getattr(body, "__wrapped__", body)  # the parts have been made after a check
    needed = tuple(one for one, default in defaults.items() if default is inspect.Parameter.empty and one != "options")
    rest = frozenset(names) - frozenset(needed)
    signature = inspect.signature(body)

    def require_fit(*args: Any, **kwargs: Any) -> None:
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            body(*args, **kwargs)  # Python's own words: the dispatcher has others

    def dispatched(form: Form, operands: dict[str, Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not (len(args) == len(needed) and rest.issuperset(kwargs)):
            require_fit(*args, **kwargs)
        all_results = True
        if kwargs:
            compiling = torch.compiler.is_compiling()
            if not compiling and any(
                one in carriable and not _can_carry(value, carriable[one]) for one, value in kwargs.items()
            ):
                body(*args, **kwargs)  # names the mistake
            for one in form.where:
                kwargs.pop(one, None)
        if form.more:
            all_results = kwargs.pop(form.more, False)
        if parts is not None:
            kwargs.update(zip(fields, kwargs.pop(parts.argument), strict=True))
        try:
            results = overloads[form.name](*args, **kwargs)
        except RuntimeError as error:
            if "setup_context" not in str(error):
                raise
            raise NotImplementedError(
                f"{form.name}: torch.func.grad, vjp and jacrev take no registered operator (its issue 170834) in "
                f"PyTorch {torch.__version__}; torch.autograd.grad does"
            ) from None
        if form.changes:
            return operands[form.changes[0]]
        if form.more:
            return results if all_results else results[0]
        return results if join is None else join(results)

    @functools.wraps(body)
    def public(*args: Any, **kwargs: Any) -> Any:
        form, operands, encoded = usual, {}, None
        if fill is not None:
            fill(kwargs)
        if kwargs and encode is not None and not known.issuperset(kwargs):
            unknown = {}
            for one in tuple(kwargs):
                if one not in known:
                    unknown[one] = kwargs.pop(one)
            encoded = encode(unknown)
        if kwargs:
            for one in flags:
                if one in kwargs:
                    kwargs[one] = flag(one, kwargs[one])
            if not choosing.isdisjoint(kwargs):
                form = _form_of(choices, kwargs)
        if encoded is not None:
            kwargs["options"] = encoded
        if form is None:
            return body(*args, **kwargs)
        given = zip(names, args, strict=False)
        for one, value in (*given, *kwargs.items()) if kwargs else given:
            if one in tensors and not (value is None and tensors[one]):
                if not isinstance(value, Tensor) or value.layout is not strided or value.is_nested:
                    require_strided(one, value)
                operands[one] = value
        refuse_unusable(**operands)
        for one in form.changes:
            refuse_unwritable(one, operands.get(one))
        records = False
        if torch.is_grad_enabled():
            for one, tensor in operands.items():
                if tensor.requires_grad:
                    records = True
                    form.require_no_gradient(one)
        if parts is not None:
            if not (len(args) == len(needed) and rest.issuperset(kwargs)):
                require_fit(*args, **kwargs)
            named = dict(zip(names, args, strict=False))
            named.update(kwargs)
            kwargs[parts.argument] = parts.convert(**named)
        if not records and is_plain_eager(*operands.values()):
            return unchecked(*args, **kwargs)
        return dispatched(form, operands, args, kwargs)

    return public


def _form_of(choices: list[tuple[Form, list[tuple[str, Any, Any]]]], keywords: Mapping[str, Any]) -> Form | None:
    """The first form whose `where` a call has; each is listed with name, value, and what the argument is by default."""
    for form, where in choices:
        for one, value, default in where:
            if keywords.get(one, default) is not value:
                break
        else:
            return form
    return None


def _can_carry(value: Any, kinds: tuple[type, ...]) -> bool:
    """Whether a schema takes the value; it refuses others in words of its own."""
    if isinstance(value, int):
        return int in kinds and type(value) is not bool and value.bit_length() < 64
    return isinstance(value, kinds)


def _joined(kind: Any) -> Callable[[list[Tensor]], Any]:
    """What makes a result of this annotation of its tensors."""
    if kind is Tensor:
        return lambda tensors: tensors[0]
    if isinstance(kind, UnionType):
        several = _joined(next(one for one in get_args(kind) if one is not Tensor))
        return lambda tensors: tensors[0] if len(tensors) == 1 else several(tensors)
    assert get_origin(kind) is tuple
    last = get_args(kind)[-1]
    if last is Ellipsis:
        return tuple
    rest = _joined(last)
    return lambda tensors: (tensors[0], rest(tensors[1:]))
