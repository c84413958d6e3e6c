"""Models on the operators: `tk_kernels.models.Llama`."""

from .llama import Llama, LlamaCache

__all__ = ["Llama", "LlamaCache"]
