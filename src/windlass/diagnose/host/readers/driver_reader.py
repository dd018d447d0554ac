"""Reads the driver: kernel modules, versions of its libraries, and whether the device nodes can be opened."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path

from windlass.diagnose.host.readers.files import children, read_text

_FOLDERS = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/local/nvidia/lib64",
    "lib/x86_64-linux-gnu",
    "run/nvidia/driver/usr/lib/x86_64-linux-gnu",
)
_COMPATIBLE = ("usr/local/cuda/compat", "usr/local/cuda-*/compat")
_LIBRARIES = ("libcuda.so", "libnvidia-ml.so", "libnvidia-nscq.so")
_VERSIONED = re.compile(r"(lib[\w-]+\.so)\.(\d+\.\d+(?:\.\d+)?)")
_MODULES = re.compile("nvidia|nouveau|amdgpu|gdrdrv|ib_|mlx5|efa|rdma|irdma|bnxt_re")
_VERSION = re.compile(r"\b(\d{3}\.\d+(?:\.\d+)?)\b")
_NODES = re.compile(r"nvidia\d+|nvidiactl|nvidia-uvm|nvidia-uvm-tools|nvidia-modeset|nvidia-nvswitch\w*|kfd|dxg")


def read_modules(root: Path) -> dict[str, str]:
    """Returns loaded kernel modules of GPUs and networks, each with its version or ""."""
    listed = (line.split()[0] for line in read_text(root / "proc/modules").splitlines() if line.split())
    built_in = (path.name for path in children(root / "sys/module"))
    names = {name for name in chain(listed, built_in) if _MODULES.match(name)}
    return {name: read_text(root / "sys/module" / name / "version") for name in sorted(names)}


def read_driver(root: Path) -> tuple[str, bool]:
    """Returns the version of NVIDIA's kernel module, "" if it is not loaded, and whether it is the open one."""
    text = read_text(root / "proc/driver/nvidia/version")
    found = _VERSION.search(text)
    return (found[1] if found else ""), "Open Kernel Module" in text


def read_libraries(root: Path) -> dict[str, tuple[str, ...]]:
    """Returns the versions of the driver's libraries, from the names of their files."""
    found: dict[str, set[str]] = {}
    for folder in _FOLDERS:
        for library in _LIBRARIES:
            for path in _matches(root / folder, f"{library}.*"):
                if match := _VERSIONED.fullmatch(path.name):
                    found.setdefault(match[1], set()).add(match[2])
    return {name: tuple(sorted(versions)) for name, versions in sorted(found.items())}


def read_compatible_driver(root: Path) -> str:
    """Returns the version of libcuda in CUDA's forward compatibility package, "" if it is not installed."""
    paths = (path for folder in _COMPATIBLE for path in _matches(root, f"{folder}/libcuda.so.*"))
    return max((found[2] for path in paths if (found := _VERSIONED.fullmatch(path.name))), default="")


def _matches(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []


def read_nodes(root: Path, open_error: Callable[[Path], str]) -> Mapping[str, str]:
    """Returns GPUs' and RDMA's device nodes, each with the error of opening it, "" if it opens."""
    names = [path.name for path in children(root / "dev") if _NODES.fullmatch(path.name)]
    names += [f"infiniband/{path.name}" for path in children(root / "dev/infiniband")]
    return {name: open_error(root / "dev" / name) for name in names}
