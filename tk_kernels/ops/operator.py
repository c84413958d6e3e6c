"""`operator`: registered PyTorch operators and their public function, all from the signature of one function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, ParamSpec, TypeVar, cast, get_args, get_origin, get_type_hints, overload

import torch
from torch import Tensor

from .library import is_plain_eager, no_backward, refuse_unusable, register
from .operands import require_strided
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
}
"""What a schema takes for an annotation."""


@dataclass(frozen=True)
class Form:
    """One registered operator of a body.

    where: keywords with the values that they have in calls of this form; its schema leaves them out. changes: tensors
    that it writes, the first of which the body returns; its schema returns nothing then. more: the flag that asks for
    more than the first result; its schema leaves it out and always has the whole tuple. backward, setup_context: as at
    `register`, for a Tensor or such a tuple as result; without them a gradient is refused. refuse: what is raised for
    an argument that requires a gradient, or None where that is right.
    """

    name: str
    where: Mapping[str, Any] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    more: str = ""
    backward: Callable[..., Any] | None = None
    setup_context: Callable[..., Any] | None = None
    refuse: Callable[[str], Exception | None] | None = None

    def require_no_gradient(self, argument: str) -> None:
        """Raises what is to be raised where `argument` requires a gradient."""
        if self.refuse is not None:
            refusal = self.refuse(argument)
            if refusal is not None:
                raise refusal
        elif self.backward is None:
            raise NotImplementedError(
                f"{self.name}: has no backward, and {argument} requires a gradient; call it under torch.no_grad()"
            )


@dataclass(frozen=True)
class Parts:
    """What the schema carries of an argument that it cannot: the fields of a named tuple, which the body gets.

    convert: makes it of the arguments of a call by their names, those that are given. It comes after the refusals and
    may check what is costly to check twice.
    """

    argument: str
    kind: type[tuple[Any, ...]]
    convert: Callable[[dict[str, Any]], tuple[Any, ...]]


@overload
def operator(body: Callable[Arguments, Result], /) -> Callable[Arguments, Result]: ...
@overload
def operator(
    *forms: Form, options: Callable[[Any], list[int] | None] | None = None, parts: Parts | None = None
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]: ...
def operator(*given: Any, options: Any = None, parts: Parts | None = None) -> Any:
    """Register `body`, and return the public function: its signature states the arguments once.

    `body` checks its arguments, makes the results and launches the kernel where `has_elements`; what it is to be is
    said at `register`. Its annotations are the schema: tensors, numbers, flags and text, in its order, with its
    defaults. Results are a Tensor, or a tuple whose last part may be a tuple; where an annotation is a union of both,
    its tuple has more than one tensor.

    Bare, `operator` registers it under its name, without a backward. `operator(Form(...), ...)` registers each form. A
    call is of the first form whose `where` it has. A call of none is the body's alone: to refuse, or to pass on.

    A body with `**options`, a typed dictionary of them, names the converter that checks those of a call and makes a
    list of numbers of them, None where none has a value. The schema has that list as `options`, the body by `carried`.

    `parts` says what the schema carries of another argument that it cannot have.

    The public function refuses what is no dense tensor or no flag, what `refuse_unusable` does, and what the form does
    of gradients; each is named. Then it calls `body`, past the dispatcher where nothing listens and no gradient is
    recorded.
    """
    if len(given) == 1 and not isinstance(given[0], Form):
        return _public(given[0], (Form(given[0].__name__),), None, None)
    return lambda body: _public(body, given, options, parts)


def carried(options: Mapping[str, Any]) -> list[int] | None:
    """What a body gets as its `**options`: what the converter made of them."""
    encoded: list[int] | None = options.get("options")
    return encoded


def _public(body: Callable[..., Any], forms: tuple[Form, ...], encode: Any, parts: Parts | None) -> Callable[..., Any]:
    """The public function of a body, whose forms it registers; `encode` is the converter of its options."""
    hints = get_type_hints(body)
    if encode is not None:
        hints["options"] = list[int] | None
    returned = hints.pop("return")
    names = tuple(hints)
    known = frozenset(names) - {"options"} if encode is not None else frozenset(names)
    flags = tuple(one for one, kind in hints.items() if kind is bool)
    tensors = {one: kind is not Tensor for one, kind in hints.items() if kind is Tensor or Tensor in get_args(kind)}
    overloads = {form.name: _registered(body, form, hints, returned, parts) for form in forms}
    join = None if returned is Tensor else _joined(returned)
    defaults = {one.name: one.default for one in inspect.signature(body).parameters.values()}
    choices = [(form, [(one, value, defaults[one]) for one, value in form.where.items()]) for form in forms]
    strided = torch.strided
    carriable = {one: CARRIABLE[kind] for one, kind in hints.items() if kind in CARRIABLE}
    choosing = {one for form in forms for one in form.where}
    fields = () if parts is None else tuple(get_type_hints(parts.kind))
    usual = _form_of(choices, {})
    needed = tuple(one for one, default in defaults.items() if default is inspect.Parameter.empty and one != "options")
    rest = frozenset(names) - frozenset(needed)
    require_fit = _fitting(body)

    @functools.wraps(body)
    def public(*args: Any, **kwargs: Any) -> Any:
        form, operands, encoded = usual, {}, None
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
        records = False
        if torch.is_grad_enabled():
            for one, tensor in operands.items():
                if tensor.requires_grad:
                    records = True
                    form.require_no_gradient(one)
        if parts is not None:
            if not (len(args) == len(needed) and rest.issuperset(kwargs)):
                require_fit(args, kwargs)
            named = dict(zip(names, args, strict=False))
            named.update(kwargs)
            kwargs[parts.argument] = parts.convert(named)
        if not records and is_plain_eager(*operands.values()):
            return body(*args, **kwargs)
        if not (len(args) == len(needed) and rest.issuperset(kwargs)):
            require_fit(args, kwargs)
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
        results = overloads[form.name](*args, **kwargs)
        if form.changes:
            return operands[form.changes[0]]
        if form.more:
            return results if all_results else results[0]
        return results if join is None else join(results)

    return public


def _fitting(body: Callable[..., Any]) -> Callable[..., None]:
    """What raises Python's own TypeError for a call that the signature does not fit: the dispatcher has other words."""
    signature = inspect.signature(body)

    def require_fit(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            body(*args, **kwargs)

    return require_fit


def _can_carry(value: Any, kinds: tuple[type, ...]) -> bool:
    """Whether a schema takes the value; it refuses others in words of its own."""
    if isinstance(value, int):
        return int in kinds and type(value) is not bool and value.bit_length() < 64
    return isinstance(value, kinds)


def _form_of(choices: list[tuple[Form, list[tuple[str, Any, Any]]]], keywords: Mapping[str, Any]) -> Form | None:
    """The first form whose `where` a call has; each is listed with name, value, and what the argument is by default."""
    for form, where in choices:
        for one, value, default in where:
            if keywords.get(one, default) is not value:
                break
        else:
            return form
    return None


def _registered(
    body: Callable[..., Any], form: Form, hints: Mapping[str, Any], returned: Any, parts: Parts | None
) -> Any:
    """Register one form of a body, and return its overload."""
    ordinary: list[inspect.Parameter] = []
    of_parts = {} if parts is None else get_type_hints(parts.kind)
    for one in inspect.signature(body).parameters.values():
        if one.name in form.where or one.name == form.more:
            continue
        if parts is not None and one.name == parts.argument:
            ordinary += [
                inspect.Parameter(n, one.POSITIONAL_OR_KEYWORD, annotation=kind) for n, kind in of_parts.items()
            ]
            continue
        kind, default = hints[one.name], None if one.kind is one.VAR_KEYWORD else one.default
        if one.name in form.changes:
            kind, default = Tensor, one.empty
        ordinary.append(inspect.Parameter(one.name, one.POSITIONAL_OR_KEYWORD, default=default, annotation=kind))
    names = tuple(one.name for one in ordinary)
    parameters = inspect.signature(body).parameters
    rest = {one: value for one, value in form.where.items() if value is not parameters[one].default}

    if form.more:
        rest[form.more] = True
        returned = next(one for one in get_args(returned) if one is not Tensor)
    as_is = returned is Tensor or bool(form.more)
    positional = [one for one in parameters.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
    direct = -1 if rest or form.changes or parts else len(positional)

    def run(*args: Any, **kwargs: Any) -> Any:
        if len(args) <= direct and not kwargs:
            result = body(*args)
            return result if as_is else _flat(result)
        given = dict(zip(names, args, strict=False))
        given.update(kwargs)
        if rest:
            given.update(rest)
        if parts is not None:
            values = [given.pop(one) for one in of_parts]
            given[parts.argument] = parts.kind(*values)
        if form.changes:
            return _write(body, form.changes, given)
        result = body(**given)
        return result if as_is else _flat(result)

    result = None if form.changes else returned if as_is else list[Tensor]
    run.__signature__ = inspect.Signature(ordinary, return_annotation=result)  # type: ignore[attr-defined]
    backward = form.backward or (None if form.changes else no_backward(form.name))
    return register(form.name, run, changes=form.changes, backward=backward, setup_context=form.setup_context)


def _write(body: Callable[..., Any], changes: tuple[str, ...], given: dict[str, Any]) -> None:
    """Call a body that writes, with copies of the tensors that have a pending minus sign."""
    positive = {one: value.resolve_neg() if isinstance(value, Tensor) else value for one, value in given.items()}
    body(**positive)
    for one in changes:
        if positive[one] is not given[one]:
            given[one].copy_(positive[one])


def filled_in(
    change: Callable[[dict[str, Any]], None],
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Above `operator`: `change` sees the keywords of a call first, and may put others in their place."""

    def outer(public: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        @functools.wraps(public)
        def call(*args: Any, **kwargs: Any) -> Any:
            change(kwargs)
            return cast(Callable[..., Any], public)(*args, **kwargs)

        return cast(Callable[Arguments, Result], call)

    return outer


def _flat(result: Any) -> list[Tensor]:
    """The tensors of a result, as the dispatcher carries them."""
    return [result] if isinstance(result, Tensor) else [tensor for part in result for tensor in _flat(part)]


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
