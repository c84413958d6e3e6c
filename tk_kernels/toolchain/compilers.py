"""Finding the compilers: the CUDA compiler from PyPI wheels, CUDA_HOME or PATH; g++ from CXX or PATH."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .errors import CompilerMissingError

INSTALL_CUDA = "pip install 'tk-kernels[cuda]' -c constraints.txt (or `make env` in a checkout)"
INSTALL_GXX = "apt-get install g++ (Debian, Ubuntu) or dnf install gcc-c++ (Fedora, RHEL)"
MINIMUM_GXX = 12
MINIMUM_NVCC = (12, 8)


@dataclass(frozen=True)
class Gxx:
    """The host C++ compiler."""

    path: str
    version: str


@dataclass(frozen=True)
class Nvcc:
    """The CUDA compiler. `library_dir` holds libcudart_static.a."""

    path: str
    version: str
    library_dir: str


@cache
def find_gxx() -> Gxx:
    """g++ >= 12, from the variable CXX or from PATH; raises CompilerMissingError."""
    wanted = os.environ.get("CXX") or "g++"
    path = shutil.which(wanted)
    if path is None and len(wanted.split()) > 1:
        raise CompilerMissingError(
            f"CXX is {wanted!r}, needs to be the name or path of one program without arguments; "
            "for a compiler behind ccache or with options, name a script that calls it"
        )
    if path is None:
        raise CompilerMissingError(f"{wanted}: no such C++ compiler on this machine; install it: {INSTALL_GXX}")
    version = _output([path, "-dumpfullversion", "-dumpversion"]).strip()
    if not re.match(r"\d+", version) or int(version.split(".")[0]) < MINIMUM_GXX:
        raise CompilerMissingError(
            f"{path}: is version {version or 'unknown'}, g++ {MINIMUM_GXX} or newer is needed; "
            f"install one ({INSTALL_GXX}) and name it in the variable CXX"
        )
    return Gxx(path, version)


@cache
def find_nvcc() -> Nvcc:
    """nvcc: of the wheels in this Python environment, else of CUDA_HOME, else of PATH.

    Raises CompilerMissingError when there is none, or when the wheels are of mixed releases (ptxas then refuses cicc's
    output).
    """
    for root in wheel_roots():
        if (root / "bin" / "nvcc").is_file():
            _check_wheels()
            return _nvcc_at(root / "bin" / "nvcc", root)
    home = os.environ.get("CUDA_HOME")
    if home:
        if not (Path(home) / "bin" / "nvcc").is_file():
            raise CompilerMissingError(
                f"CUDA_HOME is {home}, which has no bin/nvcc; correct it or install: {INSTALL_CUDA}"
            )
        return _nvcc_at(Path(home) / "bin" / "nvcc", Path(home))
    on_path = shutil.which("nvcc")
    if on_path:
        return _nvcc_at(Path(on_path), _toolkit_root(on_path))
    raise CompilerMissingError(
        f"no CUDA compiler in this Python environment, CUDA_HOME or PATH; install it: {INSTALL_CUDA}"
    )


@cache
def find_nvdisasm() -> str | None:
    """Path of nvdisasm, or None: it is optional."""
    roots = [*map(str, wheel_roots()), os.environ.get("CUDA_HOME", "")]
    folders = [f"{root}/bin" for root in roots if root] + [os.environ.get("PATH", os.defpath)]
    return shutil.which("nvdisasm", path=os.pathsep.join(folders))


def wheel_roots() -> tuple[Path, ...]:
    """Folders of this environment into which NVIDIA's CUDA wheels unpack: `.../nvidia/cu13`."""
    spec = importlib.util.find_spec("nvidia")
    locations = list(spec.submodule_search_locations or []) if spec else []
    return tuple(root for location in locations for root in sorted(Path(location).glob("cu[0-9]*"), reverse=True))


def _check_wheels() -> None:
    """Raise CompilerMissingError unless all parts of the compiler are of one release."""
    releases: dict[str, str] = {}
    for package in ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt"):
        try:
            releases[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    if len({release.rsplit(".", 1)[0] for release in releases.values()}) > 1:
        listed = ", ".join(f"{package} {release}" for package, release in releases.items())
        raise CompilerMissingError(
            f"the CUDA compiler's wheels are of mixed releases ({listed}); install one: {INSTALL_CUDA}"
        )


def _nvcc_at(path: Path, root: Path) -> Nvcc:
    """Describe the nvcc at `path`, whose toolkit is `root`."""
    match = re.search(r"V(\d+\.\d+\.\d+)", _output([str(path), "--version"]))
    if match is None:
        raise CompilerMissingError(f"{path}: does not answer --version as nvcc does; install: {INSTALL_CUDA}")
    version = match.group(1)
    if tuple(int(part) for part in version.split(".")[:2]) < MINIMUM_NVCC:
        needed = ".".join(map(str, MINIMUM_NVCC))
        raise CompilerMissingError(f"{path}: is CUDA {version}, {needed} or newer is needed; install: {INSTALL_CUDA}")
    for library in ("lib", "lib64", "targets/x86_64-linux/lib"):
        if (root / library / "libcudart_static.a").is_file():
            return Nvcc(str(path), version, str(root / library))
    raise CompilerMissingError(f"{root}: has no libcudart_static.a in lib or lib64; install: {INSTALL_CUDA}")


def _toolkit_root(nvcc: str) -> Path:
    """The toolkit folder of an nvcc that may be a link or a wrapper script: nvcc itself knows it."""
    result = subprocess.run([nvcc, "--dryrun", "-x", "cu", "/dev/null"], capture_output=True, text=True, check=False)
    match = re.search(r"^#\$ TOP=(.+)$", result.stderr, re.MULTILINE)
    return Path(match.group(1).strip()).resolve() if match else Path(nvcc).resolve().parent.parent


def _output(command: list[str]) -> str:
    """Standard output of a short command; empty when it fails to start."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""
