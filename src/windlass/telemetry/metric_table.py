"""The metric table: name, unit, labels and meaning of every metric.

Names follow the conventions of Prometheus (base units); metrics of GPUs keep DCGM's names. `otel` is the name under
OpenTelemetry's semantic conventions where they have the metric, else the same words with dots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """Object of a measurement."""

    CLUSTER = "cluster"
    QUEUE = "queue"
    JOB = "job"
    RANK = "rank"


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table. Every metric here is a gauge."""

    name: str
    unit: str
    level: Level
    help: str
    labels: Sequence[str] = ()
    """Labels beside those that name the level: `queue`; `job`; `job` and `rank`."""
    otel: str = ""

    @property
    def otel_name(self) -> str:
        """Name for OpenTelemetry."""
        return self.otel or self.name.replace("windlass_", "windlass.", 1).replace("_", ".")


_RESOURCE = ("resource",)
_PAGE_HEAD = """# Metrics

For users of recorded telemetry: every metric that [`windlass metrics`](../guides/telemetry.md) knows. Units are in
the notation of UCUM; amounts of resources are in the unit of the resource: CPU in thousandths, memory in bytes.
A metric of a rank has one value for each rank.

| metric | unit | of | labels | meaning | OpenTelemetry |
|---|---|---|---|---|---|"""

METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("windlass_nodes", "", Level.CLUSTER, "Known nodes.", otel="k8s.node.count"),
        Metric("windlass_nodes_usable", "", Level.CLUSTER, "Nodes that accept new gangs."),
        Metric("windlass_capacity", "", Level.CLUSTER, "Capacity of all nodes, in the resource's unit.", _RESOURCE),
        Metric("windlass_allocated", "", Level.CLUSTER, "Capacity that running gangs hold.", _RESOURCE),
        Metric("windlass_unusable", "", Level.CLUSTER, "Free capacity of nodes that accept no gangs.", _RESOURCE),
        Metric("windlass_jobs", "", Level.CLUSTER, "Jobs that have not ended, by phase.", ("phase",)),
        Metric("windlass_pending_gangs", "", Level.CLUSTER, "Waiting gangs, by reason.", ("reason",)),
        Metric("windlass_queue_waiting", "", Level.QUEUE, "Waiting jobs of the queue and those below it."),
        Metric("windlass_queue_running", "", Level.QUEUE, "Jobs that hold nodes, of the queue and those below it."),
        Metric("windlass_queue_quota", "", Level.QUEUE, "Nominal quota.", _RESOURCE),
        Metric("windlass_queue_held", "", Level.QUEUE, "Amount that running gangs hold.", _RESOURCE),
        Metric("windlass_queue_borrowed", "", Level.QUEUE, "Held amount beyond the quota.", _RESOURCE),
        Metric("windlass_queue_lent", "", Level.QUEUE, "Part of the quota that relatives use.", _RESOURCE),
        Metric("windlass_queue_share_ratio", "1", Level.QUEUE, "Weighted dominant share of the cluster."),
        Metric("windlass_queue_oldest_wait_seconds", "s", Level.QUEUE, "Wait of the job that waits longest."),
        Metric("windlass_job_attempt", "", Level.JOB, "Number of the present start of the gang."),
        Metric("windlass_job_step", "", Level.JOB, "Last step that a rank reported."),
        Metric("windlass_job_loss", "", Level.JOB, "Loss over all ranks, since the report before."),
        Metric("windlass_job_step_seconds", "s", Level.JOB, "Time of one step: that of the slowest rank."),
        Metric("windlass_job_phase_seconds", "s", Level.JOB, "Part of a step by phase, on the first rank.", ("phase",)),
        Metric("windlass_job_samples_per_second", "", Level.JOB, "Throughput over all ranks."),
        Metric("windlass_job_mfu_ratio", "1", Level.JOB, "Model FLOPs utilization: useful operations of the peak."),
        Metric("windlass_job_memory_bytes", "By", Level.JOB, "Peak memory of the rank with the highest."),
        Metric("windlass_job_slow_ranks", "", Level.JOB, "Ranks for which the others wait."),
        Metric("windlass_rank_step", "", Level.RANK, "Step that the rank is in."),
        Metric("windlass_rank_step_seconds", "s", Level.RANK, "Time of one step."),
        Metric("windlass_rank_busy_seconds", "s", Level.RANK, "Part of a step that is no waiting."),
        Metric("windlass_rank_wait_seconds", "s", Level.RANK, "Part of a step that waits for others or for data."),
        Metric("windlass_rank_memory_bytes", "By", Level.RANK, "Peak memory of the device, or of the process."),
        Metric("DCGM_FI_DEV_GPU_UTIL", "%", Level.RANK, "Utilization of the rank's GPU.", otel="hw.gpu.utilization"),
        Metric("DCGM_FI_DEV_FB_USED", "MiBy", Level.RANK, "Memory in use of the GPU.", otel="hw.gpu.memory.usage"),
        Metric("DCGM_FI_DEV_SM_CLOCK", "MHz", Level.RANK, "Clock of the GPU's multiprocessors."),
    )
}


def series_name(metric: str, **labels: str) -> str:
    """Name of a series: the metric's, then the labels in the notation of Prometheus. Raises KeyError, ValueError.

    Values come from users: backslash, quote and line end are escaped.
    """
    expected = METRICS[metric].labels
    if set(labels) != set(expected):
        raise ValueError(f"{metric} has the labels {', '.join(expected) or 'none'}, not {', '.join(labels) or 'none'}")
    if not labels:
        return metric
    pairs = ",".join(f'{name}="{_escape(labels[name])}"' for name in expected)
    return f"{metric}{{{pairs}}}"


def metric_of(series: str) -> Metric:
    """The metric of a series. Raises KeyError for one that is not in the table."""
    return METRICS[series.partition("{")[0]]


def metrics_page() -> str:
    """The reference page of all metrics, in Markdown."""
    rows = [
        f"| `{each.name}` | {each.unit} | {each.level.value} | {', '.join(f'`{label}`' for label in each.labels)} "
        f"| {each.help} | {each.otel_name} |"
        for each in METRICS.values()
    ]
    return "\n".join([_PAGE_HEAD, *rows]) + "\n"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
