"""Grafana boards and DCGM's labels against a real Prometheus."""

import math
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from processes.prometheus.prometheus_server import Prometheus, prometheus
from sample_telemetry import sample_frames
from windlass.deploy.monitoring.boards import BOARDS, board_model, query
from windlass.deploy.monitoring.dcgm_exporter import exporter_values
from windlass.server.operator.history.store import JobHistory
from windlass.server.operator.metrics import OperatorMetrics, render_metrics
from windlass.telemetry.exposition import render_frames
from windlass.telemetry.metric_table import METRICS

GPU = (
    'DCGM_FI_DEV_XID_ERRORS{{gpu="0",UUID="GPU-1",Hostname="n1",namespace="team",pod="{pod}",container="trainer",{labels}}}'
    " 79\n"
)


class BusyOperator:
    """Metrics of a leader that does something between two scrapes."""

    def __init__(self) -> None:
        self.metrics = OperatorMetrics(ended=Counter({"Failed": 0}), sizes={"logs to read": lambda: 3}, leading=True)
        self.scrapes = 0

    def text(self) -> bytes:
        self.scrapes += 1
        metrics = self.metrics
        for histogram in (metrics.turns, metrics.plans, metrics.commits, metrics.waited, metrics.gathered):
            histogram.observe(0.02)
        metrics.ended["Failed"] += 1
        metrics.tally.count_request("POST", "/api/v1/namespaces/team/pods/a/binding", 201, 0.01)
        history = cast("JobHistory", SimpleNamespace(writer=SimpleNamespace(waiting=0, lost=0)))
        return render_metrics(metrics, history) + render_frames(sample_frames(step=self.scrapes), ranks=True)


def expressions(model: dict[str, Any]) -> dict[str, list[str]]:
    """Queries of each panel, with every value of the board's variables."""
    return {
        panel["title"]: [re.sub(r"\$(queue|job_id|node)", ".*", target["expr"]) for target in panel["targets"]]
        for panel in model["panels"]
    }


def is_number(series: dict[str, Any]) -> bool:
    return math.isfinite(float(series["value"][1]))


def test_every_query_of_every_board_returns_data(tmp_path: Path) -> None:
    with prometheus(tmp_path, BusyOperator().text) as server:
        empty = [
            (board.title, title, expression)
            for board in BOARDS
            for title, found in expressions(board_model(board)).items()
            for expression in found
            if not any(is_number(series) for series in server.query(expression))
        ]
        assert not empty
        assert choices(server) == {
            "queue": {"all", "default", "research", "vision"},
            "job_id": {"team/digits-0"},
            "node": {"n0"},
        }
        assert ranks_of(server) == {"0", "1", "2", "3"}


def choices(server: Prometheus) -> dict[str, set[str]]:
    """Values of the variables of all boards."""
    return {
        label: {series["metric"][label] for series in server.query(metric)}
        for board in BOARDS
        for label, metric in board.variables
    }


def ranks_of(server: Prometheus) -> set[str]:
    found = server.query(query(METRICS["windlass_rank_busy_seconds"]).replace("$job_id", ".*"))
    return {series["metric"]["rank"] for series in found}


def test_series_of_the_dcgm_exporter_get_the_labels_of_jobs(tmp_path: Path) -> None:
    kubeflow = "training_kubeflow_org_{}"
    pods = {
        "own": 'windlass_dev_job_name="digits",windlass_dev_role="worker",windlass_dev_replica_index="3"',
        "pytorch": ",".join(
            f'{kubeflow.format(name)}="{value}"'
            for name, value in (
                ("operator_name", "pytorchjob-controller"),
                ("job_name", "bert"),
                ("replica_type", "master"),
                ("replica_index", "0"),
            )
        ),
        "mpi": f'{kubeflow.format("operator_name")}="mpi-operator",{kubeflow.format("job_name")}="ring"',
        "other": 'app="web"',
    }
    text = "".join(GPU.format(pod=pod, labels=labels) for pod, labels in pods.items()).encode()
    relabelings = [_snake_case(each) for each in exporter_values()["serviceMonitor"]["metricRelabelings"]]
    with prometheus(tmp_path, lambda: text, relabelings) as server:
        found = {series["metric"]["pod"]: series["metric"] for series in server.query("DCGM_FI_DEV_XID_ERRORS")}
    named = {pod: tuple(labels.get(name) for name in ("job_id", "role", "replica")) for pod, labels in found.items()}
    assert named == {
        "own": ("team/digits", "worker", "3"),
        "pytorch": ("team/pytorchjob/bert", "master", "0"),
        "mpi": ("team/mpijob/ring", None, None),
        "other": (None, None, None),
    }
    assert not [
        label for labels in found.values() for label in labels if label.startswith(("windlass_dev", "training"))
    ]


def _snake_case(rule: dict[str, Any]) -> dict[str, Any]:
    """A relabelling of a ServiceMonitor as in Prometheus' own configuration."""
    names = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
    return {names.get(name, name): value for name, value in rule.items()}
