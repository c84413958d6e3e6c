"""`operator`: a registered PyTorch operator and its public function, both from the signature of one function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import UnionType
from typing import Any, ParamSpec, TypeVar, cast, get_args, get_origin, get_type_hints

from torch import Tensor

from .library import is_plain_eager, no_backward, refuse_gradient, refuse_unusable, register
from .operands import require_strided
from .options import flag

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def operator(body: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Register `body` under its name, and return the public function: its signature states the arguments once.

    `body` checks its arguments, makes the results and launches the kernel where `has_elements`; what it is to be is
    said at `register`. It has no backward. Its annotations are the schema: tensors, numbers, flags and text, in its
    order, with its defaults. Results are a Tensor, or a tuple whose last part may be a tuple; where an annotation is a
    union of both, its tuple has more than one tensor.

    The public function refuses what is no dense tensor or no flag, what `refuse_unusable` does, and a gradient; each is
    named. Then it calls `body`, past the dispatcher where nothing listens.
    """
    name, hints = body.__name__, get_type_hints(body)
    returned = hints.pop("return")
    names = tuple(hints)
    flags = tuple(one for one, kind in hints.items() if kind is bool)
    tensors = {one: kind is not Tensor for one, kind in hints.items() if kind is Tensor or Tensor in get_args(kind)}

    def listed(*args: Any, **kwargs: Any) -> Any:
        result = cast(Callable[..., Any], body)(**dict(zip(names, args, strict=False)), **kwargs)
        return result if returned is Tensor else _flat(result)

    ordinary = [
        inspect.Parameter(one.name, one.POSITIONAL_OR_KEYWORD, default=one.default, annotation=hints[one.name])
        for one in inspect.signature(body).parameters.values()
    ]
    schema = inspect.Signature(ordinary, return_annotation=Tensor if returned is Tensor else list[Tensor])
    listed.__signature__ = schema  # type: ignore[attr-defined]
    overload = register(name, listed, backward=no_backward(name))
    join = _joined(returned)

    @functools.wraps(body)
    def public(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        operands = {}
        for one, optional in tensors.items():
            if one in given and not (optional and given[one] is None):
                require_strided(one, given[one])
                operands[one] = given[one]
        for one in flags:
            if one in kwargs:
                kwargs[one] = flag(one, kwargs[one])
        refuse_unusable(**operands)
        refuse_gradient(name, **operands)
        if is_plain_eager(*operands.values()):
            return body(*args, **kwargs)
        results = overload(*args, **kwargs)
        return results if returned is Tensor else join(results)

    return cast(Callable[Arguments, Result], public)


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
