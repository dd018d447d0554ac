"""Metrics in the text format of Prometheus."""

import re
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

from prometheus_client.parser import text_string_to_metric_families

from sample_telemetry import sample_frames
from windlass.backends.kubernetes.client.request_counters import Histogram
from windlass.backends.port import Changes, Transition
from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.status import CANCELLED, Phase
from windlass.server.operator.history.store import JobHistory
from windlass.server.operator.metrics import OperatorMetrics, render_metrics
from windlass.telemetry.exposition import render_frames
from windlass.telemetry.metric_table import METRICS


def values_of(metrics: OperatorMetrics) -> dict[str, float]:
    """Samples by name and labels."""
    families = text_string_to_metric_families(render_metrics(metrics, None).decode())
    samples = [sample for family in families for sample in family.samples]
    return {
        " ".join([sample.name, *(sample.labels[key] for key in sorted(sample.labels))]): sample.value
        for sample in samples
    }


def test_buckets_are_cumulative():
    metrics = OperatorMetrics(turns=Histogram((0.1, 1.0)))
    for seconds in (0.05, 0.1, 0.5, 7):
        metrics.turns.observe(seconds)
    found = values_of(metrics)
    assert [found[f"windlass_turn_seconds_bucket {bound}"] for bound in ("0.1", "1.0", "+Inf")] == [2, 3, 4]
    assert (found["windlass_turn_seconds_count"], found["windlass_turn_seconds_sum"]) == (4, 7.65)


def test_a_binding_counts_when_it_has_succeeded():
    metrics = OperatorMetrics()
    path = "/api/v1/namespaces/team/pods/digits-0/binding"
    for status in (201, 409, 201, None):
        metrics.tally.count_request("POST", path, status, 0.01)
    metrics.tally.count_watch("/api/v1/pods")
    found = values_of(metrics)
    assert found["windlass_pods_bound_total"] == found["windlass_bind_seconds_count"] == 2
    assert [found[f"windlass_api_requests_total {code} POST"] for code in ("201", "409", "none")] == [2, 1, 1]
    assert found["windlass_watches_total pods"] == 1


def test_waiting_times_are_observed_at_the_next_phase(state):
    metrics = OperatorMetrics()
    job = state(queued_at=1_000, admitted_at=3_000)
    steps = [("Queued", "Admitted", 3_000), ("Admitted", "Admitted", 3_500), ("Admitted", "Running", 10_000)]
    for before, after, at in steps:
        metrics.count(Changes(states=(job,), transitions=(Transition(job.id, at, "E", before, after, ""),)))
    metrics.count(Changes(transitions=(Transition("team/other", 1, "E", "", "Queued", ""),)))
    ended = state(phase=Phase.FAILED)
    metrics.count(Changes(states=(ended,), transitions=(Transition(job.id, 1, "E", "Running", "Failed", ""),)))
    cancelled = state(phase=Phase.FAILED, reason=CANCELLED)
    metrics.count(Changes(states=(cancelled,), transitions=(Transition(job.id, 1, "E", "Running", "Failed", ""),)))
    found = values_of(metrics)
    assert found["windlass_jobs_ended_total Cancelled"] == 1
    assert (found["windlass_job_wait_seconds_count"], found["windlass_job_wait_seconds_sum"]) == (1, 2)
    assert (found["windlass_gang_start_seconds_count"], found["windlass_gang_start_seconds_sum"]) == (1, 7)
    assert found["windlass_jobs_ended_total Failed"] == 1


def test_verdicts_count_by_the_time_at_which_they_come(state):
    metrics, cause = OperatorMetrics(), DiagnosedCause(1, "einops is missing", "package-missing")
    for phase, verdict in (
        (Phase.RESTARTING, cause),
        (Phase.RUNNING, replace(cause, is_late=True)),
        (Phase.FAILED, cause),
        (Phase.FAILED, cause),
    ):
        job = state(phase=phase, diagnosis=verdict)
        step = Transition(job.id, 1, "Diagnosed", phase, phase, "attempt 1: einops is missing")
        metrics.count(Changes(states=(job,), transitions=(step,)))
    found = values_of(metrics)
    told = [found[f"windlass_diagnoses_total {when}"] for when in ("in time", "late", "after the end")]
    assert told == [1, 1, 2]
    assert "windlass_jobs_ended_total Failed" not in found


def test_a_follower_reports_that_it_does_not_lead():
    metrics = OperatorMetrics(sizes={"logs to read": lambda: 3})
    found = values_of(metrics)
    assert (found["windlass_leader"], found["windlass_queue_size logs to read"]) == (0, 3)
    assert "windlass_nodes" not in found


def test_every_metric_of_the_table_is_exported_with_its_labels_and_no_other():
    metrics = OperatorMetrics(
        ended=Counter({"Failed": 1}),
        diagnosed=Counter({"late": 1}),
        object_faults=Counter({"Job": 1}),
        sizes={"logs to read": lambda: 3},
    )
    metrics.tally.count_request("GET", "/api/v1/pods", 200, 0.01)
    metrics.tally.count_watch("/api/v1/pods")
    history = cast("JobHistory", SimpleNamespace(writer=SimpleNamespace(waiting=0, lost=0)))
    text = render_metrics(metrics, history) + render_frames(sample_frames(), ranks=True)
    exported: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text.decode()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        for sample in family.samples:
            exported.setdefault(name, set()).update(sample.labels.keys() - {"le"})
    assert exported == {name: set(metric.all_labels) for name, metric in METRICS.items()}


def test_types_are_those_of_the_table():
    text = render_metrics(OperatorMetrics(), None).decode()
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    assert types == {name: METRICS[name].kind for name in types}
