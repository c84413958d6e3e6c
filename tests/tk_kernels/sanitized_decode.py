"""Small paged decode problems for compute-sanitizer, their sequences in pieces of four blocks, against float64."""

from __future__ import annotations

from collections.abc import Iterator

from decode_operators import GQA, MLA
from sanitized import chosen_device, finish

from tk_kernels.ops.decode_plan import SCHEDULES

GROUPED = (
    ("450+3", 1, 8, 64, 2),
    ("200+0+65", 4, 6, 128, 2),
    ("300+17", 16, 16, 64, 1),
    ("130+63", 32, 8, 128, 2),
)
"""Lengths, new tokens, heads, head dim, heads of keys: tiles of 16, 64 and 128 rows, and tails of them."""

LATENT = (("450+3", 1, 16), ("200+0+65", 3, 5), ("300+17", 4, 128))
"""Lengths, new tokens, heads: one tile of rows in part, and eight."""


def problems(device: str) -> Iterator[str]:
    """Each twice, with the same bits, and with NaN in the pages and tails that nobody may read."""
    grouped = [(GQA, GQA.problem(of, Q, H, 16, Hkv=kv, D=D)) for of, Q, H, D, kv in GROUPED]
    latent = [(MLA, MLA.problem(of, Q, H, 64)) for of, Q, H in LATENT]
    for operator, one in [*grouped, *latent]:
        inputs = operator.poisoned(one, device)
        for schedule in SCHEDULES:
            plan = operator.plan(one, device, schedule=schedule, blocks=4)
            plan.verify()
            operator.assert_right(one, inputs, plan)
            yield f"{operator.name} {one} {schedule}"


if __name__ == "__main__":
    finish(problems(chosen_device(__doc__ or "")))
