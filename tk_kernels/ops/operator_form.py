"""`Form`: one registered operator of a function whose signature says what its arguments are."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args, get_type_hints

from torch import Tensor

from .library import no_backward, register


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

    convert: makes it of a call's arguments, as the body is called with them, once its operands are known to be right.
    """

    argument: str
    kind: type[tuple[Any, ...]]
    convert: Callable[..., tuple[Any, ...]]


def registered(
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


def _flat(result: Any) -> list[Tensor]:
    """The tensors of a result, as the dispatcher carries them."""
    return [result] if isinstance(result, Tensor) else [tensor for part in result for tensor in _flat(part)]
