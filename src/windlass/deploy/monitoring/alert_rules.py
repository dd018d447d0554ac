"""Alert rules for Prometheus. A test holds that each rule reads metrics that exist."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.jobs.kubernetes.manifest_reader import Manifest

DCGM_XID = "DCGM_FI_DEV_XID_ERRORS"
"""Number of the last Xid of a GPU. Source: default-counters.csv of dcgm-exporter 4.2."""
DCGM_METRICS = (DCGM_XID, "DCGM_FI_DEV_GPU_TEMP")
"""Metrics that only the DCGM exporter has."""
_FELL_OFF_THE_BUS = 79
"""Xid of a GPU that the driver cannot reach any more."""


@dataclass(frozen=True, slots=True)
class AlertRule:
    """One alert. `pending`: how long the expression must hold."""

    name: str
    severity: str
    pending: str
    expression: str
    summary: str
    fix: str


RULES = (
    AlertRule(
        "WindlassOperatorDown",
        "critical",
        "3m",
        "absent(windlass_leader == 1)",
        "No replica of the operator leads: no job starts, ends or restarts",
        "windlass operator check",
    ),
    AlertRule(
        "WindlassOperatorFailing",
        "warning",
        "0m",
        "increase(windlass_unforeseen_ends_total[30m]) > 0",
        "An unforeseen error ended a leadership term on {{ $labels.instance }}",
        "read the log of that replica",
    ),
    AlertRule(
        "WindlassOperatorSlow",
        "warning",
        "15m",
        "histogram_quantile(0.99, sum by (le) (rate(windlass_turn_seconds_bucket[10m]))) > 1",
        "One of a hundred decisions takes {{ $value | humanizeDuration }}",
        "compare windlass_commit_seconds and windlass_bind_seconds: a slow API server is the usual cause",
    ),
    AlertRule(
        "WindlassJobHung",
        "warning",
        "5m",
        "changes(windlass_job_step[20m]) == 0 and changes(windlass_job_attempt[20m]) == 0"
        " and windlass_job_step offset 20m >= 0 unless windlass_job_step_seconds > 600",
        "{{ $labels.job_id }} has made no step for 20 minutes",
        "windlass doctor {{ $labels.job_id }}",
    ),
    AlertRule(
        "WindlassStraggler",
        "warning",
        "15m",
        "windlass_job_slow_ranks > 0",
        "{{ $value }} ranks of {{ $labels.job_id }} keep the others waiting",
        "windlass doctor slow {{ $labels.job_id }}",
    ),
    AlertRule(
        "WindlassCheckpointTooOld",
        "warning",
        "10m",
        "windlass_job_checkpoint_age_seconds > 7200",
        "The newest checkpoint of {{ $labels.job_id }} is {{ $value | humanizeDuration }} old",
        "windlass logs {{ $labels.job_id }}, which names failed saves; else save more often",
    ),
    AlertRule(
        "WindlassQueueStarving",
        "warning",
        "15m",
        "windlass_queue_oldest_wait_seconds > 14400"
        " unless on (queue) (windlass_queue_quota > 0 and windlass_queue_held >= windlass_queue_quota)",
        "A job of {{ $labels.queue }} has waited {{ $value | humanizeDuration }} although its quota is not used",
        "windlass why JOB",
    ),
    AlertRule(
        "WindlassQuotaExhausted",
        "info",
        "15m",
        "windlass_queue_quota > 0 and windlass_queue_held >= windlass_queue_quota"
        " and on (queue) windlass_queue_waiting > 0",
        "{{ $labels.queue }} holds all of its quota of {{ $labels.resource }}, and jobs wait",
        "windlass share",
    ),
    AlertRule(
        "WindlassNodesUnusable",
        "warning",
        "15m",
        "windlass_nodes_usable < 0.9 * windlass_nodes",
        "Only {{ $value }} nodes accept gangs",
        "windlass doctor cluster",
    ),
    AlertRule(
        "WindlassGpuLost",
        "critical",
        "1m",
        f"{DCGM_XID} == {_FELL_OFF_THE_BUS} or on (Hostname)"
        " count by (Hostname) (DCGM_FI_DEV_GPU_TEMP)"
        " < max_over_time(count by (Hostname) (DCGM_FI_DEV_GPU_TEMP)[30m:1m])",
        "A GPU of {{ $labels.Hostname }} is lost",
        "drain the node and restart it; replace the GPU if it repeats",
    ),
    AlertRule(
        "WindlassXid",
        "warning",
        "0m",
        f"{DCGM_XID} > 0 and changes({DCGM_XID}[30m]) > 0",
        "The driver reports Xid {{ $value }} on GPU {{ $labels.gpu }} of {{ $labels.Hostname }}",
        "windlass doctor host, on that node",
    ),
)


def rule_groups() -> Manifest:
    """The content of a rules file of Prometheus, and of the spec of a PrometheusRule."""
    return {"groups": [{"name": "windlass", "rules": [_rule(each) for each in RULES]}]}


def _rule(rule: AlertRule) -> Manifest:
    return {
        "alert": rule.name,
        "expr": rule.expression,
        "for": rule.pending,
        "labels": {"severity": rule.severity},
        "annotations": {"summary": rule.summary, "fix": rule.fix},
    }
