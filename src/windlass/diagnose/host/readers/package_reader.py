"""Reads which torch, CUDA and NCCL packages are installed, from their metadata: none of them is imported."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path

from windlass.diagnose.host.facts import TorchPackage
from windlass.diagnose.host.readers.files import children, read_text

_PACKAGES = re.compile(r"(nvidia-|cuda-|torch|triton|deepspeed|flash[-_]attn|transformer[-_]engine|nccl)[\w.-]*")
_CUDA = re.compile(r"^cuda\b[^=]*=\s*'([\d.]+)'", re.MULTILINE)
_NCCL = re.compile(r"nvidia-nccl-cu\d+==([\d.]+)")


def read_packages() -> dict[str, str]:
    """Returns the versions of installed GPU packages."""
    named = ((found.metadata["Name"] or "", found.version) for found in distributions())
    return {name.lower(): version for name, version in sorted(named) if _PACKAGES.fullmatch(name.lower())}


def read_torch() -> TorchPackage | None:
    """Returns the installed torch; None without one."""
    try:
        return describe_torch(distribution("torch"))
    except PackageNotFoundError:
        return None


def describe_torch(package: Distribution) -> TorchPackage:
    """Returns version, CUDA and pinned NCCL of a distribution of torch; CUDA is in its file version.py."""
    version = re.search(r"^__version__ = '([^']+)'", text := _version_file(package), re.MULTILINE)
    cuda = _CUDA.search(text)
    pins = (_NCCL.match(requirement) for requirement in package.requires or [])
    nccl = next((pin[1] for pin in pins if pin), "")
    return TorchPackage(version[1] if version else package.version, cuda[1] if cuda else "", nccl)


def _version_file(package: Distribution) -> str:
    return read_text(Path(str(package.locate_file("torch/version.py"))))


def find_preloaded_nccl(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Returns NCCL libraries that LD_PRELOAD and LD_LIBRARY_PATH put before the one that torch brings."""
    preloaded = [path for path in re.split(r"[ :]", environment.get("LD_PRELOAD", "")) if "libnccl.so" in path]
    folders = [Path(each) for each in environment.get("LD_LIBRARY_PATH", "").split(":") if each]
    found = [str(path) for folder in folders for path in children(folder) if path.name == "libnccl.so.2"]
    return tuple(preloaded + found)
