"""Generated files for `kubectl apply -k` and `helm install`, for Prometheus, Grafana and the DCGM exporter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from windlass.deploy.chart import chart_files
from windlass.deploy.kustomize import kustomize_files
from windlass.deploy.monitoring.alert_rules import rule_groups
from windlass.deploy.monitoring.boards import board_files
from windlass.deploy.monitoring.dcgm_exporter import exporter_values
from windlass.jobs.kubernetes.manifests.manifest_file import as_yaml

GENERATED = ("kustomize", "helm", "prometheus", "grafana", "dcgm-exporter")
"""Folders whose YAML and JSON files are all generated."""
_HEADER = "# Written by tools/write_deployment.py; change src/windlass/deploy instead.\n"


def files(header: str = _HEADER) -> dict[str, str]:
    """Text of every generated file by its path under `deploy/`. `header`: comment that YAML files begin with."""
    commented = {path: header + text for path, text in _generated()}
    return {**commented, **{f"grafana/{name}": text for name, text in board_files().items()}}


def write_files(folder: Path, contents: Mapping[str, str]) -> None:
    """Writes files, by their paths below a folder that is made if it does not exist. Raises OSError."""
    for name, text in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _generated() -> Iterator[tuple[str, str]]:
    for path, text in kustomize_files():
        yield f"kustomize/{path}", text
    for path, text in chart_files():
        yield f"helm/windlass/{path}", text
    yield "prometheus/rules.yaml", as_yaml([rule_groups()])
    yield "dcgm-exporter/values.yaml", as_yaml([exporter_values()])
