"""Generated files for `kubectl apply -k` and `helm install`."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.deploy.chart import chart_files
from windlass.deploy.kustomize import kustomize_files

GENERATED = ("kustomize", "helm")
"""Folders whose YAML files are all generated."""
_HEADER = "# Written by tools/write_deployment.py; change src/windlass/deploy instead.\n"


def files() -> dict[str, str]:
    """Text of every generated file by its path under `deploy/`."""
    return {path: _HEADER + text for path, text in _generated()}


def _generated() -> Iterator[tuple[str, str]]:
    for path, text in kustomize_files():
        yield f"kustomize/{path}", text
    for path, text in chart_files():
        yield f"helm/windlass/{path}", text
