"""Memory that the kernels of all ranks write to: the one file that knows PyTorch's symmetric memory."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..ops.library import compiled

MULTICAST_OFF = {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1"}
"""What each process needs in its environment before PyTorch is imported."""
CPU = torch.device("cpu")


@dataclass
class World:
    """Ranks of one process: the memory of all, in turn, and what is to be done behind their launches."""

    memory: list[list[Tensor]] = field(default_factory=list)
    behind: list[Callable[[], None]] = field(default_factory=list)


@dataclass
class Ranks:
    """A group as one of its ranks knows it.

    made: memory of its own and the addresses of all ranks', in turn: flags, then staging, of which the last is in use
    and launches may still use those before.
    """

    rank: int
    size: int
    made: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    world: World | None = None

    def after_launch(self, step: Callable[[], None]) -> None:
        """Do something behind the last launch on its stream; on the CPU also what it refers to has to live so long."""
        if self.world is None:
            step()
        else:
            self.world.behind.append(step)


_known: dict[str, Ranks] = {}
_numbers = itertools.count()


@contextlib.contextmanager
def world(ranks: int) -> Iterator[list[str]]:
    """The groups of so many ranks on the CPU, one a rank, for calls within; they run side by side at the end.

    with world(2) as groups:
        outs = [all_reduce(x, group) for x, group in zip(xs, groups)]

    The order of the calls of one rank is kept, and nothing else. Results are there behind the `with`.
    """
    all_ranks = World()
    names = [f"tk_world_{next(_numbers)}" for _ in range(ranks)]
    _known.update({name: Ranks(rank, ranks, world=all_ranks) for rank, name in enumerate(names)})
    compiled("collectives", CPU, "begin_world")(ranks)
    try:
        yield names
        compiled("collectives", CPU, "run_world")()
        for step in all_ranks.behind:
            step()
    finally:
        for name in names:
            del _known[name]


def group_name(group: Any) -> str:
    """The name by which an operator carries a group: of a process group, of PyTorch's default one, or of a world's."""
    if isinstance(group, str):
        return group
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        raise RuntimeError("group: torch.distributed is not initialised; call init_process_group first")
    group = group or torch.distributed.group.WORLD
    return str(group.group_name)


def ranks_of(name: str, device: torch.device) -> Ranks:
    """The group of a name. Raises ValueError for one that there is not, or of another kind than the device's."""
    known = _known.get(name)
    if known is None and device.type == "cuda":
        known = _known[name] = _of_process_group(name)
    if known is None or (known.world is None) == (device.type == "cpu"):
        raise ValueError(f"group: {name!r} has no ranks on the device {device}; CPU tensors need a `world`")
    return known


def _of_process_group(name: str) -> Ranks:
    wrong = [f"{one}={value}" for one, value in MULTICAST_OFF.items() if os.environ.get(one) != value]
    if wrong:
        raise RuntimeError(f"NVLink multicast must be off: set {' '.join(wrong)} before PyTorch is imported")
    group: Any = torch.distributed.distributed_c10d
    group = group._resolve_process_group(name)
    return Ranks(group.rank(), group.size())


def words_of(name: str, ranks: Ranks, device: torch.device) -> Tensor:
    """Addresses of all ranks' flags, zeros when they are made."""
    if not ranks.made:
        ranks.made.append(_allocated(name, ranks, 4 * int(compiled("collectives", device, "words")()), device))
    return ranks.made[0][1]


def staging_of(name: str, ranks: Ranks, nbytes: int, device: torch.device) -> tuple[int, Tensor]:
    """Bytes and addresses of memory of at least so many bytes on every rank; flags are made before.

    All ranks ask for the same, in the same order: the first call that needs so much waits for the others.
    """
    if len(ranks.made) == 1 or ranks.made[-1][0].numel() < nbytes:
        size = 1 << max(20, (nbytes - 1).bit_length())
        ranks.made.append(_allocated(name, ranks, size, device))
    own, addresses = ranks.made[-1]
    return own.numel(), addresses


def _allocated(name: str, ranks: Ranks, nbytes: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Zeros of so many bytes on every rank: this rank's, and the addresses of all."""
    if ranks.world is None:
        symmetric_memory: Any = importlib.import_module("torch.distributed._symmetric_memory")
        own = symmetric_memory.empty(nbytes, dtype=torch.uint8, device=device).zero_()
        handle = symmetric_memory.rendezvous(own, name)
        torch.cuda.synchronize(device)
        handle.barrier()  # nobody writes before all have their zeros
        return own, torch.tensor(handle.buffer_ptrs, dtype=torch.int64)
    if len(ranks.made) == len(ranks.world.memory):
        unaligned = [torch.zeros(nbytes + 16, dtype=torch.uint8) for _ in range(ranks.size)]
        ranks.world.memory.append([one[-one.data_ptr() % 16 :][:nbytes] for one in unaligned])
    memory = ranks.world.memory[len(ranks.made)]
    return memory[ranks.rank], torch.tensor([one.data_ptr() for one in memory], dtype=torch.int64)
