"""The files for people, written from the tables: what `kubectl apply -k` and `helm install` take."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.deploy.chart import chart_files
from windlass.deploy.kustomize import kustomize_files

GENERATED = ("kustomize", "helm")
"""Folders in which every YAML file is generated."""
_WRITTEN = "# Written by tools/write_deployment.py; change src/windlass/deploy instead.\n"


def files() -> dict[str, str]:
    """Every generated file by its path under `deploy/`."""
    return {path: _WRITTEN + text for path, text in _made()}


def _made() -> Iterator[tuple[str, str]]:
    for path, text in kustomize_files():
        yield f"kustomize/{path}", text
    for path, text in chart_files():
        yield f"helm/windlass/{path}", text
