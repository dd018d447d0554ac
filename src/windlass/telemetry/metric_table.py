"""The metric table: name, kind, unit, labels and meaning of every metric that Windlass exports or records.

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
    NODE = "node"
    GPU = "gpu"
    OPERATOR = "operator"


class MetricType(StrEnum):
    """Type of a metric in Prometheus' text format."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the table."""

    name: str
    unit: str
    level: Level
    help: str
    labels: Sequence[str] = ()
    """Labels beside those of the level (`LEVEL_LABELS`)."""
    otel: str = ""
    kind: MetricType = MetricType.GAUGE
    otel_unit: str = ""
    """Unit for OpenTelemetry, where it differs; a value is multiplied by `otel_factor`."""
    otel_factor: float = 1.0

    @property
    def all_labels(self) -> tuple[str, ...]:
        """Labels in Prometheus: those of the level, then its own."""
        return (*LEVEL_LABELS[self.level], *self.labels)

    @property
    def otel_name(self) -> str:
        """Name for OpenTelemetry."""
        words = self.name.removesuffix("_total")
        return self.otel or words.replace("windlass_", "windlass.", 1).replace("_", ".")

    @property
    def has_vector(self) -> bool:
        """Whether a series has one value for each rank or GPU."""
        return self.level in (Level.RANK, Level.GPU)


LEVEL_LABELS: Mapping[Level, tuple[str, ...]] = {
    Level.CLUSTER: (),
    Level.QUEUE: ("queue",),
    Level.JOB: ("job_id",),
    Level.RANK: ("job_id", "rank"),
    Level.NODE: ("node",),
    Level.GPU: ("node", "gpu"),
    Level.OPERATOR: (),
}
"""Labels that name the object of a level. `job_id`, because Prometheus has a label `job` of its own."""
OTEL_ATTRIBUTES: Mapping[str, str] = {
    "queue": "windlass.queue.name",
    "job_id": "windlass.job.id",
    "node": "host.name",
    "gpu": "hw.id",
    "verb": "http.request.method",
    "code": "http.response.status_code",
}
"""Attribute of OpenTelemetry by label; any other label is `windlass.LABEL`."""
_SERIES: Mapping[Level, str] = {
    Level.CLUSTER: "3 for each resource, 2 for nodes, one for each phase of jobs and each reason of waiting",
    Level.QUEUE: "4, and 4 for each resource, of each queue",
    Level.JOB: "9, and at most 16 for phases, of each job that holds nodes",
    Level.RANK: "at most 8 of each rank, of jobs with up to 4,096 ranks; optional, and at most 100,000 in all",
    Level.NODE: "at most 6 of each node that is measured, of at most 5,000 nodes",
    Level.GPU: "at most 4 of each GPU of this machine",
    Level.OPERATOR: "about 150 of each replica, and one for each verb and status code of the API server",
}
_RESOURCE = ("resource",)
_PAGE_HEAD = """# Metrics

For users of telemetry: every metric that [`windlass metrics`](../guides/telemetry.md) knows or that Prometheus
scrapes. Units are in the notation of UCUM; amounts of resources are in the unit of the resource: CPU in thousandths,
memory in bytes. A metric of a rank
has one value for each rank, one of a GPU one for each GPU. Those of the operator are in its `/metrics` only.
"""
_TABLE_HEAD = """
| metric | type | unit | of | labels | meaning | OpenTelemetry |
|---|---|---|---|---|---|---|"""
_OTEL_HEAD = """
## Attributes for OpenTelemetry

The last column of the table has the name of a metric in OTLP, by the semantic conventions where they have it, with its
unit in brackets where that differs. A label becomes the attribute below, any other one *windlass.LABEL*. GPUs have
`hw.type` `gpu`. The resource has `service.name` `windlass`, `service.version` and `host.name` of the exporting process.

| label | attribute |
|---|---|"""
_SPANS = """
## Spans

[Exported](../guides/telemetry.md#opentelemetry) when they are complete. A job is one trace; its id and those of its
spans are hashes of the job's id and of the time of its submission.

| span | of |
|---|---|
| *windlass.job* | the job, from the submission to the end of its last process |
| *windlass.queue* | a wait in the queue |
| *windlass.attempt* | a start of the gang, from the placement to the end of its last process |

Every span has *windlass.job.id*, *windlass.job.name*, *windlass.queue.name*, `user.name`, *windlass.job.members* and
*windlass.job.ranks*, on a cluster `k8s.namespace.name`. An attempt has its number, *windlass.attempt*, and the reason
of its end, *windlass.attempt.end*; the job has *windlass.job.phase*. A span that ends by a failure has the status
error, and `error.type`.

| event | in | meaning |
|---|---|---|
| `submitted`, `queued`, `bound`, `running`, `suspended` | job | it has come into this phase |
| `running` | attempt | all members run |
| `first step`, `checkpoint` | attempt | by the reports of ranks, with *windlass.step* |
| `repaired in place` | attempt | agents have repaired a failure, *windlass.message* |
| `failure` | attempt, job | `error.type`, `exception.message`, and *windlass.verdict* once it is diagnosed |"""


def _of_operator(
    name: str, unit: str, help: str, labels: Sequence[str] = (), kind: MetricType = MetricType.COUNTER
) -> Metric:
    return Metric(name, unit, Level.OPERATOR, help, labels, kind=kind)


_HISTOGRAM = MetricType.HISTOGRAM
METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("windlass_nodes", "", Level.CLUSTER, "Known nodes."),
        Metric("windlass_nodes_usable", "", Level.CLUSTER, "Nodes that accept new gangs."),
        Metric(
            "windlass_capacity",
            "",
            Level.CLUSTER,
            "Capacity of all nodes: CPU in 1/1000 core, memory in bytes, others by number.",
            _RESOURCE,
        ),
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
        Metric(
            "windlass_job_checkpoint_age_seconds",
            "s",
            Level.JOB,
            "Age of the newest good checkpoint; without one, time since the loop began.",
        ),
        Metric("windlass_job_slow_ranks", "", Level.JOB, "Ranks for which the others wait."),
        Metric("windlass_rank_step", "", Level.RANK, "Step that the rank is in."),
        Metric("windlass_rank_step_seconds", "s", Level.RANK, "Time of one step."),
        Metric("windlass_rank_busy_seconds", "s", Level.RANK, "Part of a step that is no waiting."),
        Metric("windlass_rank_wait_seconds", "s", Level.RANK, "Part of a step that waits for others or for data."),
        Metric("windlass_rank_memory_bytes", "By", Level.RANK, "Peak memory of the device, or of the process."),
        Metric(
            "DCGM_FI_DEV_GPU_UTIL",
            "%",
            Level.RANK,
            "Utilization of the rank's GPU.",
            otel="hw.gpu.utilization",
            otel_unit="1",
            otel_factor=0.01,
        ),
        Metric(
            "DCGM_FI_DEV_FB_USED",
            "MiBy",
            Level.RANK,
            "Memory in use of the GPU.",
            otel="hw.gpu.memory.usage",
            otel_unit="By",
            otel_factor=float(1 << 20),
        ),
        Metric("DCGM_FI_DEV_SM_CLOCK", "MHz", Level.RANK, "Clock of the GPU's multiprocessors."),
        Metric("DCGM_FI_DEV_GPU_TEMP", "Cel", Level.RANK, "Temperature of the rank's GPU.", otel="hw.temperature"),
        Metric(
            "windlass_node_cpu_utilization_ratio",
            "1",
            Level.NODE,
            "Part of the node's CPU time that all programs take.",
            otel="system.cpu.utilization",
        ),
        Metric(
            "windlass_node_memory_used_bytes",
            "By",
            Level.NODE,
            "Memory of the node in use, without caches.",
            otel="system.memory.usage",
        ),
        Metric("windlass_node_gpu_utilization_ratio", "1", Level.NODE, "Mean utilization of the node's GPUs."),
        Metric("windlass_node_gpu_memory_used_bytes", "By", Level.NODE, "Memory in use of all GPUs of the node."),
        Metric("windlass_node_gpu_temperature_celsius", "Cel", Level.NODE, "Temperature of the node's hottest GPU."),
        Metric("windlass_node_unhealthy_gpus", "", Level.NODE, "GPUs of the node that are not healthy."),
        Metric("windlass_gpu_utilization_ratio", "1", Level.GPU, "Utilization of the GPU.", otel="hw.gpu.utilization"),
        Metric(
            "windlass_gpu_memory_used_bytes", "By", Level.GPU, "Memory in use of the GPU.", otel="hw.gpu.memory.usage"
        ),
        Metric("windlass_gpu_temperature_celsius", "Cel", Level.GPU, "Temperature of the GPU.", otel="hw.temperature"),
        Metric(
            "windlass_gpu_healthy",
            "",
            Level.GPU,
            "1 if the GPU answers, without memory errors that need a reset; else 0.",
        ),
        Metric("windlass_rank_series_left_out", "", Level.CLUSTER, "Series of ranks beyond the limit of a scrape."),
        _of_operator("windlass_leader", "", "1 on the leader, 0 on other replicas.", kind=MetricType.GAUGE),
        _of_operator("windlass_turn_seconds", "s", "Time from the arrival of events to the decision.", (), _HISTOGRAM),
        _of_operator("windlass_plan_seconds", "s", "The same, for turns with a plan.", (), _HISTOGRAM),
        _of_operator("windlass_commit_seconds", "s", "Time to write a turn's states into objects.", (), _HISTOGRAM),
        _of_operator("windlass_job_wait_seconds", "s", "Time from queueing to admission of a job.", (), _HISTOGRAM),
        _of_operator("windlass_gang_start_seconds", "s", "Time from admission until all pods run.", (), _HISTOGRAM),
        _of_operator("windlass_bind_seconds", "s", "Latency of pod bindings at the API server.", (), _HISTOGRAM),
        _of_operator("windlass_pods_bound_total", "", "Pods bound to nodes."),
        _of_operator("windlass_jobs_ended_total", "", "Ended jobs, by phase; cancelled ones as Cancelled.", ("phase",)),
        _of_operator("windlass_diagnoses_total", "", "Verdicts by time: in time, late, after the end.", ("when",)),
        _of_operator("windlass_object_faults_total", "", "Objects that could not be used, by kind.", ("kind",)),
        _of_operator("windlass_unforeseen_ends_total", "", "Leadership terms that an unforeseen error ended."),
        _of_operator("windlass_api_requests_total", "", "Attempted requests to the API server.", ("verb", "code")),
        _of_operator("windlass_watches_total", "", "Watches started, by resource.", ("resource",)),
        _of_operator("windlass_queue_size", "", "Length of an internal queue.", ("name",), MetricType.GAUGE),
        _of_operator("windlass_history_waiting", "", "History entries not written yet.", kind=MetricType.GAUGE),
        _of_operator("windlass_history_lost_total", "", "History entries dropped."),
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
    pairs = ",".join(f'{name}="{escape_label(labels[name])}"' for name in expected)
    return f"{metric}{{{pairs}}}"


def metric_of(series: str) -> Metric:
    """The metric of a series. Raises KeyError for one that is not in the table."""
    return METRICS[series.partition("{")[0]]


def metrics_page() -> str:
    """The reference page of all metrics, in Markdown."""
    rows = [
        f"| `{each.name}` | {each.kind.value} | {each.unit} | {each.level.value} "
        f"| {', '.join(f'`{label}`' for label in each.all_labels)} | {each.help} | {_otel_text(each)} |"
        for each in METRICS.values()
    ]
    bounds = [f"| {level.value} | {text} |" for level, text in _SERIES.items()]
    series = ["", "## Number of series", "", "| of | series |", "|---|---|", *bounds]
    names = [f"| `{label}` | *{attribute}* |" for label, attribute in OTEL_ATTRIBUTES.items()]
    return "\n".join([_PAGE_HEAD.rstrip("\n"), _TABLE_HEAD, *rows, *series, _OTEL_HEAD, *names, _SPANS]) + "\n"


def _otel_text(metric: Metric) -> str:
    """The name for OpenTelemetry, and the unit where that differs."""
    return f"{metric.otel_name} ({metric.otel_unit})" if metric.otel_unit else metric.otel_name


def escape_label(value: str) -> str:
    """Text of a label's value in the notation of Prometheus."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
