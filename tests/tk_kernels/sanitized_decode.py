"""Small paged decode problems for compute-sanitizer, their sequences in pieces of four blocks, against float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from decode_operators import GQA, MLA, Decode
from sanitized import command_line, finish

from tk_kernels.kernels.decode.plan import SCHEDULES
from tk_kernels.toolchain import find_unit

GROUPED = (
    ("450+3", 1, 8, 64, 2),
    ("200+0+65", 4, 6, 128, 2),
    ("300+17", 16, 16, 64, 1),
    ("130+63", 32, 8, 128, 2),
)
"""Lengths, new tokens, heads, head dim, heads of keys: tiles of 16, 64 and 128 rows, and tails of them."""

LATENT = (("450+3", 1, 16), ("200+0+65", 3, 5), ("300+17", 4, 128))
"""Lengths, new tokens, heads: one tile of rows in part, and eight."""

OPERATORS: dict[str, Decode] = {operator.name: operator for operator in (GQA, MLA)}


def sizes(operator: Decode) -> list[Any]:
    """The operator's problems."""
    if operator is GQA:
        return [GQA.problem(of, Q, H, 16, Hkv=kv, D=D) for of, Q, H, D, kv in GROUPED]
    return [MLA.problem(of, Q, H, 64) for of, Q, H in LATENT]


def problems(operator: Decode, device: str) -> Iterator[str]:
    """Each twice, with the same bits, and with NaN in the pages and tails that nobody may read."""
    for one in sizes(operator):
        inputs = operator.poisoned(one, device)
        for schedule in SCHEDULES:
            plan = operator.plan(one, device, schedule=schedule, blocks=4)
            plan.verify()
            operator.assert_right(one, inputs, plan)
            yield f"{operator.name} {one} {schedule}"


if __name__ == "__main__":
    parser = command_line(__doc__ or "")
    parser.add_argument("operator", nargs="*", help=f"all of the target if not given: {', '.join(OPERATORS)}")
    given = parser.parse_args()
    if unknown := sorted({*given.operator} - {*OPERATORS}):
        parser.error(f"{unknown[0]} is no operator that decodes: there is {', '.join(OPERATORS)}")
    named = given.operator or [
        name for name in OPERATORS if not (given.target and find_unit(name).refusal(given.target))
    ]
    finish((one for name in named for one in problems(OPERATORS[name], given.device)), given.target)
