"""Operators over the ranks of a host: GPUs joined by NVLink, a process each.

    torch.distributed.init_process_group("nccl")
    y = tk.distributed.all_reduce(x)

Each rank makes the same calls in the same order, with tensors of the same shape, each on its own stream. NVLink
multicast is not used, and has to be off: see `memory`. Without a GPU `world` runs all ranks in one process.
"""

from .memory import world as world
from .operators import all_gather as all_gather
from .operators import all_reduce as all_reduce
from .operators import all_to_all as all_to_all
from .operators import reduce_scatter as reduce_scatter
