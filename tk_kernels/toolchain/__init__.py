"""Compile, cache and load kernels.

`python -m tk_kernels.toolchain build --target gpu|cpu [names]` compiles; `load(name, target)`
gives the library to Python; `manifest(name, target)` says what was built and from what.
"""

from .building import Build as Build
from .building import BuildOptions as BuildOptions
from .building import build as build
from .building import export as export
from .errors import ToolchainError as ToolchainError
from .keys import source_hash as source_hash
from .loading import ensure_built as ensure_built
from .loading import load as load
from .loading import manifest as manifest
from .loading import obstacle as obstacle
from .targets import CPU as CPU
from .targets import DEFAULT_OF_DEVICE as DEFAULT_OF_DEVICE
from .targets import LEAST_CAPABILITY as LEAST_CAPABILITY
from .targets import SM_80 as SM_80
from .targets import SM_90A as SM_90A
from .targets import TARGETS as TARGETS
from .targets import Target as Target
from .targets import find_target as find_target
from .targets import find_targets as find_targets
from .targets import slowed_percent as slowed_percent
from .targets import target_of_capability as target_of_capability
from .targets import target_of_this_gpu as target_of_this_gpu
from .units import Unit as Unit
from .units import find_unit as find_unit
from .units import open_units as open_units
from .units import unit_names as unit_names
