"""Generated files for `kubectl apply -k` and `helm install`, for Prometheus, Grafana and the DCGM exporter."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.deploy.chart import chart_files
from windlass.deploy.kustomize import kustomize_files
from windlass.deploy.monitoring.alert_rules import rule_groups
from windlass.deploy.monitoring.boards import board_files
from windlass.deploy.monitoring.dcgm_exporter import exporter_values
from windlass.jobs.kubernetes.manifests.manifest_file import as_yaml

GENERATED = ("kustomize", "helm", "prometheus", "grafana", "dcgm-exporter")
"""Folders whose YAML and JSON files are all generated."""
_HEADER = "# Written by tools/write_deployment.py; change src/windlass/deploy instead.\n"


def files() -> dict[str, str]:
    """Text of every generated file by its path under `deploy/`."""
    commented = {path: _HEADER + text for path, text in _generated()}
    return {**commented, **{f"grafana/{name}": text for name, text in board_files().items()}}


def _generated() -> Iterator[tuple[str, str]]:
    for path, text in kustomize_files():
        yield f"kustomize/{path}", text
    for path, text in chart_files():
        yield f"helm/windlass/{path}", text
    yield "prometheus/rules.yaml", as_yaml([rule_groups()])
    yield "dcgm-exporter/values.yaml", as_yaml([exporter_values()])
