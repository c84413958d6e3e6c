"""The ThunderKittens paper's kernels as PyTorch operators, built from our own tile library.

    import tk_kernels as tk
    c = tk.gemm(a, b)
    o = tk.attention(q, k, v, causal=True)

An operator that is called before its kernel is built builds it, which takes about a minute once.

`torch.func.vmap` works with every operator: it launches the kernel once for each element of the batch. What an operator
writes, `out` of `gemm` or an `inplace` x, has to be batched. `torch.func.grad` takes none of them: use autograd.
"""

__version__ = "0.1.0"

from . import distributed as distributed
from . import ops
from .ops import *  # noqa: F403

__all__ = ["__version__", *ops.OPERATORS]
