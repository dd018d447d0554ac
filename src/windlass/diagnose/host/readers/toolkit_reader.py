"""Reads whether container runtimes can give GPUs to containers: the toolkit, its configuration, CDI specifications."""

from __future__ import annotations

import re
from pathlib import Path

from windlass.diagnose.host.facts import ContainerToolkit
from windlass.diagnose.host.readers.files import children, read_text

_PROGRAMS = ("nvidia-ctk", "nvidia-container-cli", "nvidia-container-runtime")
_PATHS = ("usr/bin", "usr/local/bin", "usr/local/nvidia/toolkit")
_CONFIGURATIONS = (
    "etc/docker/daemon.json",
    "etc/containerd/config.toml",
    "etc/containerd/conf.d",
    "etc/crio/crio.conf.d",
    "etc/containers/oci/hooks.d",
    "var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    "var/lib/rancher/rke2/agent/etc/containerd/config.toml",
)
_CDI = ("etc/cdi", "var/run/cdi", "run/cdi")
_DRIVER = re.compile(r"lib(?:cuda|nvidia-ml)\.so\.(\d{3}\.\d+(?:\.\d+)?)")


def read_toolkit(root: Path) -> ContainerToolkit:
    """Returns programs, runtimes that are configured for them, and CDI specifications."""
    programs = [name for name in _PROGRAMS if any((root / folder / name).exists() for folder in _PATHS)]
    runtimes = [f"/{name}" for name in _CONFIGURATIONS if _names_nvidia(root / name)]
    return ContainerToolkit(tuple(programs), tuple(runtimes), _read_cdi(root))


def _names_nvidia(path: Path) -> bool:
    files = children(path) if path.is_dir() else [path]
    return any("nvidia" in read_text(file) for file in files)


def _read_cdi(root: Path) -> dict[str, str]:
    """Returns the specifications of NVIDIA's devices, each with the version of the driver that it mounts."""
    found: dict[str, str] = {}
    folders = {folder.resolve(): f"/{name}" for name in reversed(_CDI) if (folder := root / name).is_dir()}
    for folder, name in folders.items():
        for path in children(folder):
            text = read_text(path) if path.suffix in (".yaml", ".json") else ""
            if "nvidia.com/" in text:
                driver = _DRIVER.search(text)
                found[f"{name}/{path.name}"] = driver[1] if driver else ""
    return found
