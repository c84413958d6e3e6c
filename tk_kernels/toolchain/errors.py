"""What can go wrong between a kernel's source and a loaded library, each as one clear sentence."""

import difflib
from collections.abc import Iterable


def closest(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?` for a near miss, else nothing."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


class ToolchainError(Exception):
    """Base of all toolchain errors; its text is meant for the user as it stands."""


class CompilerMissingError(ToolchainError):
    """A compiler or a part of it is not installed; the text has the command that installs it."""


class KernelFolderError(ToolchainError):
    """A kernel folder that is not laid out as the toolchain needs it."""


class RefusedError(ToolchainError):
    """A kernel is not built for a target; the text says what the target lacks."""


class CompileError(ToolchainError):
    """A compiler refused a source; the text holds the compiler's own words."""


class QualityError(ToolchainError):
    """The kernel compiled, but spills registers or lost its asynchronous matrix instructions."""


class PrebuiltError(ToolchainError):
    """A folder of prebuilt kernels does not hold what this checkout needs."""
