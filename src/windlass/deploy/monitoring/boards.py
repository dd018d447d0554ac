"""Grafana boards, generated from the metric table: overview, queues, job.

A panel names a metric of the table; its description, unit and labels come from there. The JSON model is that of Grafana
9 and later (schema version 37); the data source is a variable.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from windlass.telemetry.metric_table import METRICS, Level, Metric, MetricType

Json = dict[str, Any]
_COLUMNS, _HEIGHT = 2, 8
_WIDTH = 24 // _COLUMNS
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_UNITS = {"s": "s", "By": "bytes", "MiBy": "mbytes", "1": "percentunit", "%": "percent", "MHz": "rotmhz"}
"""Grafana's name of a unit, by that of UCUM."""
_SELECTORS = {
    Level.QUEUE: 'queue=~"$queue"',
    Level.JOB: 'job_id=~"$job_id"',
    Level.RANK: 'job_id=~"$job_id"',
    Level.NODE: 'node=~"$node"',
    Level.GPU: 'node=~"$node"',
}
_RATE = "5m"


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph of metrics of the same unit. `needs_ranks`: whether it is empty without series of ranks."""

    title: str
    metrics: Sequence[str]
    needs_ranks: bool = False


@dataclass(frozen=True, slots=True)
class Board:
    """One board. `variables`: labels that the reader chooses, each with the metric that has its values."""

    uid: str
    title: str
    panels: Sequence[Panel]
    variables: Sequence[tuple[str, str]] = ()


BOARDS = (
    Board(
        "windlass-overview",
        "Windlass: overview",
        (
            Panel("Nodes", ("windlass_nodes", "windlass_nodes_usable")),
            Panel("Jobs", ("windlass_jobs",)),
            Panel("Capacity", ("windlass_capacity", "windlass_allocated", "windlass_unusable")),
            Panel("Reasons of waiting", ("windlass_pending_gangs",)),
            Panel("Wait until admission", ("windlass_job_wait_seconds",)),
            Panel("Start of a gang", ("windlass_gang_start_seconds",)),
            Panel("Decisions", ("windlass_turn_seconds", "windlass_plan_seconds", "windlass_commit_seconds")),
            Panel("Bindings", ("windlass_bind_seconds",)),
            Panel("Requests to the API server", ("windlass_api_requests_total",)),
            Panel("Ended jobs", ("windlass_jobs_ended_total",)),
            Panel("Leader", ("windlass_leader",)),
            Panel("Backlog", ("windlass_queue_size", "windlass_history_waiting")),
        ),
    ),
    Board(
        "windlass-queues",
        "Windlass: queues",
        (
            Panel("Jobs", ("windlass_queue_running", "windlass_queue_waiting")),
            Panel("Longest wait", ("windlass_queue_oldest_wait_seconds",)),
            Panel("Held and quota", ("windlass_queue_held", "windlass_queue_quota")),
            Panel("Borrowed and lent", ("windlass_queue_borrowed", "windlass_queue_lent")),
            Panel("Weighted share", ("windlass_queue_share_ratio",)),
        ),
        (("queue", "windlass_queue_running"),),
    ),
    Board(
        "windlass-nodes",
        "Windlass: nodes",
        (
            Panel("Utilization of GPUs", ("windlass_node_gpu_utilization_ratio",)),
            Panel("Memory of GPUs", ("windlass_node_gpu_memory_used_bytes",)),
            Panel("Hottest GPU", ("windlass_node_gpu_temperature_celsius",)),
            Panel("Unhealthy GPUs", ("windlass_node_unhealthy_gpus",)),
            Panel("CPU", ("windlass_node_cpu_utilization_ratio",)),
            Panel("Memory", ("windlass_node_memory_used_bytes",)),
        ),
        (("node", "windlass_node_gpu_utilization_ratio"),),
    ),
    Board(
        "windlass-job",
        "Windlass: job",
        (
            Panel("Loss", ("windlass_job_loss",)),
            Panel("Step", ("windlass_job_step",)),
            Panel("Time of a step", ("windlass_job_step_seconds",)),
            Panel("Phases of a step", ("windlass_job_phase_seconds",)),
            Panel("Throughput", ("windlass_job_samples_per_second",)),
            Panel("Model FLOPs utilization", ("windlass_job_mfu_ratio",)),
            Panel("Memory", ("windlass_job_memory_bytes",)),
            Panel("Age of the newest checkpoint", ("windlass_job_checkpoint_age_seconds",)),
            Panel("Slow ranks, attempt", ("windlass_job_slow_ranks", "windlass_job_attempt")),
            Panel("Busy time of ranks", ("windlass_rank_busy_seconds",), needs_ranks=True),
            Panel("Waiting time of ranks", ("windlass_rank_wait_seconds",), needs_ranks=True),
            Panel("GPU utilization of ranks", ("DCGM_FI_DEV_GPU_UTIL",), needs_ranks=True),
            Panel("GPU memory of ranks", ("DCGM_FI_DEV_FB_USED",), needs_ranks=True),
        ),
        (("job_id", "windlass_job_attempt"),),
    ),
)


def board_files() -> dict[str, str]:
    """JSON of every board, by the name of its file."""
    return {f"{board.uid}.json": json.dumps(board_model(board), indent=1) + "\n" for board in BOARDS}


def board_model(board: Board) -> Json:
    """The board in Grafana's JSON model."""
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    return {
        "uid": board.uid,
        "title": board.title,
        "tags": ["windlass"],
        "schemaVersion": 37,
        "timezone": "browser",
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": [source, *(_variable(*each) for each in board.variables)]},
        "panels": [_panel_model(panel, number) for number, panel in enumerate(board.panels)],
    }


def query(metric: Metric) -> str:
    """PromQL of a metric: its values, the rate of a counter, or the 99th percentile of a histogram."""
    selector = _SELECTORS.get(metric.level, "")
    if metric.kind is MetricType.HISTOGRAM:
        return f"histogram_quantile(0.99, sum by (le) (rate({metric.name}_bucket[{_RATE}])))"
    labels = ", ".join(metric.all_labels)
    if metric.kind is MetricType.COUNTER:
        return f"sum by ({labels}) (rate({metric.name}[{_RATE}]))"
    selected = f"{metric.name}{{{selector}}}" if selector else metric.name
    return f"max by ({labels}) ({selected})" if labels else f"max({selected})"


def _variable(label: str, metric: str) -> Json:
    values = f"label_values({metric}, {label})"
    more = {"query": {"query": values, "refId": label}, "refresh": 2, "includeAll": True, "multi": True, "sort": 1}
    return {"name": label, "type": "query", "datasource": _SOURCE, "definition": values, **more}


def _panel_model(panel: Panel, number: int) -> Json:
    metrics = [METRICS[name] for name in panel.metrics]
    (unit,) = {metric.unit for metric in metrics}
    more = " Needs the metrics of ranks: --metrics-level rank." if panel.needs_ranks else ""
    targets = [
        {"refId": chr(ord("A") + at), "datasource": _SOURCE, "expr": query(metric), "legendFormat": _legend(metric)}
        for at, metric in enumerate(metrics)
    ]
    row, column = divmod(number, _COLUMNS)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": " ".join(metric.help for metric in metrics) + more,
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": _grafana_unit(metrics[0], unit)}, "overrides": []},
        "targets": targets,
    }


def _grafana_unit(metric: Metric, unit: str) -> str:
    return "ops" if metric.kind is MetricType.COUNTER else _UNITS.get(unit, "short")


def _legend(metric: Metric) -> str:
    words = metric.name.removeprefix("windlass_")
    labels = "" if metric.kind is MetricType.HISTOGRAM else " ".join(f"{{{{{label}}}}}" for label in metric.all_labels)
    return f"{words} {labels}".strip()
