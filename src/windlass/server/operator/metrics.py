"""Metrics of the operator's own work, and their text format for Prometheus.

Names, labels and help are those of the metric table. Counting only adds to plain
numbers; everything else is computed when Prometheus scrapes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from windlass.backends.kubernetes.client.request_counters import Histogram, RequestCounters
from windlass.backends.port import Changes
from windlass.controller.observer import Observer
from windlass.core.lifecycle.events import Diagnosed
from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.status import TERMINAL, Phase, Status, state_name
from windlass.server.operator.history.store import JobHistory
from windlass.telemetry.metric_table import METRICS, MetricType
from windlass.telemetry.samples import HistogramSample, Sample

Samples: TypeAlias = Mapping[tuple[str, ...], int]
"""Values by those of the labels, in order of the metric table."""
_WAITS = (0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0)
"""Upper bounds in seconds, for durations that depend on other jobs and on kubelets."""


@dataclass(slots=True)
class OperatorMetrics:
    """Counters and histograms of one process."""

    tally: RequestCounters = field(default_factory=RequestCounters)
    turns: Histogram = field(default_factory=Histogram)
    """Time from the arrival of events to the decision."""
    plans: Histogram = field(default_factory=Histogram)
    """The same for turns in which a plan was made; most turns make one."""
    commits: Histogram = field(default_factory=Histogram)
    waited: Histogram = field(default_factory=lambda: Histogram(_WAITS))
    """Time from queueing to admission of a job."""
    gathered: Histogram = field(default_factory=lambda: Histogram(_WAITS))
    """Time from a gang's admission until all of its pods run."""
    ended: Counter[str] = field(default_factory=Counter)
    """Ended jobs by phase, and those that a user has cancelled as `Cancelled`."""
    diagnosed: Counter[str] = field(default_factory=Counter)
    """Verdicts on failed attempts by the time at which they came."""
    object_faults: Counter[str] = field(default_factory=Counter)
    """Objects that could not be used, each attempt counted, by kind."""
    unforeseen_ends: int = 0
    """Leadership terms that ended by an error that nothing foresees."""
    leading: bool = False
    """Whether this replica is the leader."""
    sizes: dict[str, Callable[[], int]] = field(default_factory=dict)
    """Lengths of internal queues by name, read at each scrape."""

    def count(self, changes: Changes) -> None:
        """Counts what a commit has changed."""
        states = {state.id: state.status for state in changes.states}
        for transition in changes.transitions:
            status = states.get(transition.job_id)
            if status is not None and transition.event == Diagnosed.__name__ and status.diagnosis is not None:
                self.diagnosed[_timing(status, status.diagnosis)] += 1
            if status is None or transition.before == transition.after:
                continue
            if transition.after == Phase.ADMITTED and status.queued_at is not None:
                self.waited.observe((transition.at - status.queued_at) / 1000)
            if (
                transition.before == Phase.ADMITTED
                and transition.after == Phase.RUNNING
                and status.admitted_at is not None
            ):
                self.gathered.observe((transition.at - status.admitted_at) / 1000)
            if transition.after in (Phase.SUCCEEDED, Phase.FAILED):
                self.ended[state_name(status)] += 1


def _timing(status: Status, cause: DiagnosedCause) -> str:
    """Returns when a verdict came: after the job's end, too late for a restart that was to wait for it, or in time."""
    if status.phase in TERMINAL and status.target is None:
        return "after the end"
    return "late" if cause.is_late else "in time"


class TurnTimer(Observer):
    """Timer of turns and commits. `last_decision`: the last plan; a new plan is a new object."""

    def __init__(self, metrics: OperatorMetrics, last_decision: Callable[[], object]) -> None:
        self._metrics, self._last_decision = metrics, last_decision
        self._seen: object = None
        self._turn_start = self._commit_start = 0.0

    def on_turn_start(self) -> None:
        """Starts the turn's clock."""
        self._turn_start = time.monotonic()

    def on_turn_end(self) -> None:
        """Observes the turn, and its plan if it made one."""
        seconds = time.monotonic() - self._turn_start
        self._metrics.turns.observe(seconds)
        if (decision := self._last_decision()) is not self._seen:
            self._seen = decision
            self._metrics.plans.observe(seconds)

    def on_commit_start(self, changes: Changes) -> None:  # noqa: ARG002 - only the time counts
        """Starts the commit's clock."""
        self._commit_start = time.monotonic()

    def on_commit_end(self, changes: Changes) -> None:
        """Observes the commit and counts its changes."""
        self._metrics.commits.observe(time.monotonic() - self._commit_start)
        self._metrics.count(changes)


def render_metrics(metrics: OperatorMetrics, history: JobHistory | None) -> bytes:
    """The metrics of this process in the text format of Prometheus."""
    families = [_family(name, values) for name, values in (*_counts(metrics), *_history(history))]
    families += [_histogram(name, histogram) for name, histogram in _histograms(metrics)]
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_FixedCollector(families))
    return generate_latest(registry)


def own_samples(metrics: OperatorMetrics, history: JobHistory, now: int) -> list[Sample | HistogramSample]:
    """The same for exporters. `now`: in ms."""
    numbers = [
        Sample(METRICS[name], dict(zip(METRICS[name].labels, labels, strict=True)), value, now)
        for name, values in (*_counts(metrics), *_history(history))
        for labels, value in values.items()
    ]
    histograms = [
        HistogramSample(METRICS[name], {}, each.bounds, tuple(each.counts), each.total, now)
        for name, each in _histograms(metrics)
    ]
    return [*numbers, *histograms]


class _FixedCollector(Collector):
    def __init__(self, families: list[Any]) -> None:
        self._families = families

    def collect(self) -> Iterable[Any]:
        return self._families


def _counts(metrics: OperatorMetrics) -> Iterator[tuple[str, Samples]]:
    tally = metrics.tally
    yield "windlass_leader", {(): int(metrics.leading)}
    yield "windlass_pods_bound_total", {(): sum(tally.bindings.counts)}
    yield "windlass_jobs_ended_total", _by_label(metrics.ended)
    yield "windlass_diagnoses_total", _by_label(metrics.diagnosed)
    yield "windlass_object_faults_total", _by_label(metrics.object_faults)
    yield "windlass_unforeseen_ends_total", {(): metrics.unforeseen_ends}
    yield "windlass_api_requests_total", dict(tally.requests.items())
    yield "windlass_watches_total", _by_label(tally.watches)
    yield "windlass_queue_size", _by_label({name: size() for name, size in metrics.sizes.items()})


def _history(history: JobHistory | None) -> Iterator[tuple[str, Samples]]:
    if history is not None:
        yield "windlass_history_waiting", {(): history.writer.waiting}
        yield "windlass_history_lost_total", {(): history.writer.lost}


def _histograms(metrics: OperatorMetrics) -> Iterator[tuple[str, Histogram]]:
    yield "windlass_turn_seconds", metrics.turns
    yield "windlass_plan_seconds", metrics.plans
    yield "windlass_commit_seconds", metrics.commits
    yield "windlass_job_wait_seconds", metrics.waited
    yield "windlass_gang_start_seconds", metrics.gathered
    yield "windlass_bind_seconds", metrics.tally.bindings


def _by_label(values: Mapping[str, int]) -> Samples:
    return {(label,): value for label, value in values.items()}


def _family(name: str, values: Samples) -> Any:
    metric = METRICS[name]
    family: Any = CounterMetricFamily if metric.kind is MetricType.COUNTER else GaugeMetricFamily
    made = family(name, metric.help, labels=metric.labels)
    for labels, value in values.items():
        made.add_metric(labels, value)
    return made


def _histogram(name: str, histogram: Histogram) -> Any:
    buckets, so_far = [], 0
    for bound, count in zip((*histogram.bounds, "+Inf"), histogram.counts, strict=True):
        so_far += count
        buckets.append((str(bound), so_far))
    return HistogramMetricFamily(name, METRICS[name].help, buckets=buckets, sum_value=histogram.total)
