"""The contexts of the kubeconfig, for completion."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

_USUAL = "~/.kube/config"


def contexts() -> list[str]:
    """Their names, file by file; [] where nothing can be read."""
    files = os.environ.get("KUBECONFIG") or _USUAL
    return list(dict.fromkeys(name for file in files.split(os.pathsep) if file for name in _named(Path(file))))


def _named(file: Path) -> list[str]:
    try:
        content: Any = yaml.safe_load(file.expanduser().read_text())
        return [str(each["name"]) for each in content["contexts"]]
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError):
        return []
