"""What a repository of the kernel hub holds: one folder a build variant, which is a Python package by itself.

`build/tvm-ffi01-cu130-x86_64-linux/` names tvm-ffi's version, CUDA's and the machine. In it lie `__init__.py`, `ops`,
`toolchain`, `include` and `kernels`, as in `tk_kernels`. `prebuilt` has compiled kernels, by the hash of their sources.
`metadata.json` has the name, identifier, version, licence, backend, and a digest of each file. The folder `tk_kernels`
hands the same on to readers of the format before. `README.md` beside `build` is the card.

The operators are registered with PyTorch under the identifier, so that two versions live in one process.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tk_kernels
from tk_kernels import toolchain
from tk_kernels.ops.library import NAMESPACE

PACKAGE = Path(tk_kernels.__file__).parent
PARTS = ("ops", "toolchain", "include", "kernels", "distributed")
NAME, LICENSE, VERSION = "tk-kernels", "Apache-2.0", 0
"""Version 0 says that operators may still change."""
METADATA = "metadata.json"
REGISTERED = f'NAMESPACE = "{NAMESPACE}"'

COMPATIBLE = '''"""The package above, for readers that look for a folder of the repository's name."""

import importlib.util
import sys
from pathlib import Path

_file = Path(__file__).resolve().parents[1] / "__init__.py"
_name = "{identifier}"
if _name not in sys.modules:
    _spec = importlib.util.spec_from_file_location(_name, _file, submodule_search_locations=[str(_file.parent)])
    sys.modules[_name] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules[_name])
globals().update({{_one: getattr(sys.modules[_name], _one) for _one in sys.modules[_name].__all__}})
__all__ = list(sys.modules[_name].__all__)
'''

CARD = """---
library_name: kernels
license: apache-2.0
tags: [kernels]
---
# {name}

Kernels of the ThunderKittens paper, written anew in a tile library of their own, as PyTorch operators.

```python
from kernels import get_kernel

tk = get_kernel("<account>/{name}", version={version}, trust_remote_code=True)
out = tk.rotary(x, cos, sin)
```

Needs PyTorch and `apache-tvm-ffi=={tvm_ffi}`. Prebuilt: {kernels}, for {target}. Operators whose kernel is not
prebuilt compile it at their first call, which needs g++ and nvcc. Sources are in the folder.
"""


class HubError(Exception):
    """A repository that cannot be made; the text is one sentence."""


def variant(backend: str) -> str:
    """The folder of a build: `tvm-ffi01-cu130-x86_64-linux` of the backend `cu130`, or `cpu`."""
    major, minor = version("apache-tvm-ffi").split(".")[:2]
    return f"tvm-ffi{major}{minor}-{backend}-x86_64-linux"


def architecture(target: str) -> str:
    """A target of GPUs as the hub writes it: `9.0a`, of one GPU alone, or `8.0+PTX`, of all since."""
    number = target.removeprefix("sm_")
    digits = number.rstrip("a")
    suffix = "a" if number != digits else "+PTX"
    return f"{digits[:-1]}.{digits[-1]}{suffix}"


def write(folder: Path, target: str, names: Sequence[str], cuda: str = "cu130") -> Path:
    """Writes a repository with these kernels prebuilt for a target; gives the variant's folder.

    cuda: the variant's CUDA, as `kernels` compares it with PyTorch's. Raises `HubError` where the folder is not empty.
    """
    if folder.exists() and not folder.is_dir():
        raise HubError(f"{folder} is no folder; name another")
    if folder.exists() and any(folder.iterdir()):
        raise HubError(f"{folder} is not empty; name another folder, or empty it")
    if not re.fullmatch(r"cu\d+", cuda):
        raise HubError(f"--cuda is {cuda!r}; name PyTorch's CUDA such as cu130")
    wanted, kernels = toolchain.find_target(target), [toolchain.find_unit(name) for name in names]
    on_gpu = wanted.cuda
    package = folder / "build" / variant(cuda if on_gpu else "cpu")
    try:
        package.mkdir(parents=True)
    except OSError as error:
        raise HubError(f"{folder} cannot be written ({error.strerror}); name another folder") from None
    shutil.copy(PACKAGE / "__init__.py", package)
    for part in PARTS:
        shutil.copytree(PACKAGE / part, package / part, ignore=shutil.ignore_patterns("__pycache__"))
    toolchain.export(kernels, wanted, package / "prebuilt", toolchain.BuildOptions())
    identifier = _identifier(package, target)
    _register_as(package / "ops" / "library.py", identifier)
    older = package / NAME.replace("-", "_")
    older.mkdir()
    (older / "__init__.py").write_text(COMPATIBLE.format(identifier=identifier))
    backend: dict[str, Any] = {"type": "cuda", "archs": [architecture(target)]} if on_gpu else {"type": "cpu"}
    metadata = {
        "name": NAME,
        "id": identifier,
        "version": VERSION,
        "license": LICENSE,
        "python-depends": [],
        "backend": backend,
        "digest": {"algorithm": "sha256", "files": digests(package)},
    }
    (package / METADATA).write_text(json.dumps(metadata, indent=2) + "\n")
    card = CARD.format(
        name=NAME, version=VERSION, tvm_ffi=version("apache-tvm-ffi"), kernels=", ".join(names), target=target
    )
    (folder / "README.md").write_text(card)
    return package


def digests(package: Path) -> dict[str, str]:
    """The SHA-256 of every file of a variant but its metadata, in base64, by path."""
    files = sorted(path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {
        path.relative_to(package).as_posix(): base64.b64encode(hashlib.sha256(path.read_bytes()).digest()).decode()
        for path in files
        if path.relative_to(package) != Path(METADATA)
    }


def _identifier(package: Path, target: str) -> str:
    """A module's name that no other build has: of the target and of all files."""
    content = hashlib.sha256(json.dumps(digests(package), sort_keys=True).encode()).hexdigest()
    return f"_{NAME.replace('-', '_')}_{target}_{content[:8]}"


def _register_as(library: Path, identifier: str) -> None:
    """Changes the namespace in which operators are registered."""
    text = library.read_text()
    if text.count(REGISTERED) != 1:
        raise HubError(f"{library} does not name its namespace once as {REGISTERED}")
    library.write_text(text.replace(REGISTERED, f'NAMESPACE = "{identifier}"'))
