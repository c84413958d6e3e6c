"""The backward pass of a library through autograd, alone, on what one forward pass has kept."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from baselines.common.baseline import Call, Inputs


def autograd_call(forward: Call, leaves: tuple[Tensor, ...], dout: Tensor) -> Call:
    """The backward pass through autograd, for what has no backward operator of its own."""
    for leaf in leaves:
        leaf.requires_grad_()
    out = forward()
    return lambda: torch.autograd.grad(out, leaves, dout, retain_graph=True)


def gradient_call(forward: Callable[[Inputs], Tensor], inputs: Inputs, fixed: tuple[str, ...] = ()) -> Call:
    """The gradients of all inputs but dout (or dy), which is the output's, and those that are fixed, in order.

    forward: the output of inputs that share the memory of those given.
    """
    leaves = {name: one.detach() for name, one in inputs.items()}
    dout = leaves.pop("dy" if "dy" in leaves else "dout")
    learned = tuple(one for name, one in leaves.items() if name not in fixed)
    import torch._functorch.config

    # A graph that is kept for further backward passes may not give its buffers away.
    with torch._functorch.config.patch(donated_buffer=False):
        call = autograd_call(lambda: forward(leaves), learned, dout)
        call()
    return call
