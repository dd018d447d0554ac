"""Metrics of the operator, and their text format for Prometheus.

Names follow the conventions of Prometheus: seconds as the unit, `_total` for counters. Counting only adds to plain
numbers; everything else is computed when Prometheus scrapes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from windlass.backends.kubernetes.client.request_counters import Histogram, RequestCounters
from windlass.backends.port import Changes
from windlass.controller.controller import Controller
from windlass.controller.observer import Observer
from windlass.core.model.status import Phase
from windlass.server.operator.history.store import JobHistory

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
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
    """Ended jobs by phase."""
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
                self.ended[transition.after] += 1


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


def render_metrics(metrics: OperatorMetrics, controller: Controller | None, history: JobHistory | None) -> bytes:
    """The metrics in the text format of Prometheus. A replica that follows has no controller."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_FixedCollector([*_counters(metrics), *_jobs(controller), *_history(history)]))
    return generate_latest(registry)


class _FixedCollector(Collector):
    def __init__(self, families: list[Any]) -> None:
        self._families = families

    def collect(self) -> Iterable[Any]:
        return self._families


def _counters(metrics: OperatorMetrics) -> Iterator[Any]:
    tally = metrics.tally
    yield GaugeMetricFamily("windlass_leader", "1 on the leader, 0 on other replicas.", value=int(metrics.leading))
    yield _histogram("windlass_turn", "Time from the arrival of events to the decision.", metrics.turns)
    yield _histogram(
        "windlass_plan", "Time from the arrival of events to the decision, for turns with a plan.", metrics.plans
    )
    yield _histogram("windlass_commit", "Time to write the states of a turn into their objects.", metrics.commits)
    yield _histogram("windlass_job_wait", "Time from the queueing of a job to its admission.", metrics.waited)
    yield _histogram(
        "windlass_gang_start", "Time from the admission of a gang until all of its pods run.", metrics.gathered
    )
    yield _histogram("windlass_bind", "Latency of pod bindings at the API server.", tally.bindings)
    bound = sum(tally.bindings.counts)
    yield CounterMetricFamily("windlass_pods_bound", "Pods bound to nodes.", value=bound)
    yield _labelled(CounterMetricFamily, "windlass_jobs_ended", "Ended jobs by phase.", ("phase",), metrics.ended)
    help = "Objects that could not be used, each attempt counted, by kind."
    yield _labelled(CounterMetricFamily, "windlass_object_faults", help, ("kind",), metrics.object_faults)
    help = "Leadership terms of this replica that ended by an unforeseen error."
    yield CounterMetricFamily("windlass_unforeseen_ends", help, value=metrics.unforeseen_ends)
    help = "Requests to the API server, each attempt counted."
    yield _labelled(CounterMetricFamily, "windlass_api_requests", help, ("verb", "code"), tally.requests)
    help = "Watches started, by resource."
    yield _labelled(CounterMetricFamily, "windlass_watches", help, ("resource",), tally.watches)
    sizes = {name: size() for name, size in metrics.sizes.items()}
    yield _labelled(GaugeMetricFamily, "windlass_queue_size", "Length of an internal queue.", ("name",), sizes)


def _jobs(controller: Controller | None) -> Iterator[Any]:
    if controller is None:
        return
    states = list(controller.states.values())
    phases = Counter((state.job.queue, state.status.phase.value) for state in states)
    yield _labelled(GaugeMetricFamily, "windlass_jobs", "Jobs by queue and phase.", ("queue", "phase"), phases)
    verdicts = controller.plan.verdicts
    waiting = (verdicts.get(state.id) for state in states if state.status.phase is Phase.QUEUED)
    reasons = Counter(verdict.reason.value if verdict else "PendingEvaluation" for verdict in waiting)
    yield _labelled(GaugeMetricFamily, "windlass_pending_gangs", "Pending gangs by reason.", ("reason",), reasons)
    table = controller.snapshot().table
    yield GaugeMetricFamily("windlass_nodes", "Known nodes.", value=len(table.nodes))
    yield GaugeMetricFamily("windlass_nodes_usable", "Nodes that accept new pods.", value=int(table.usable.sum()))


def _history(history: JobHistory | None) -> Iterator[Any]:
    if history is None:
        return
    yield GaugeMetricFamily(
        "windlass_history_waiting", "History entries not written yet.", value=history.writer.waiting
    )
    yield CounterMetricFamily("windlass_history_lost", "History entries dropped.", value=history.writer.lost)


def _histogram(name: str, help: str, histogram: Histogram) -> Any:
    buckets, so_far = [], 0
    for bound, count in zip((*histogram.bounds, "+Inf"), histogram.counts, strict=True):
        so_far += count
        buckets.append((str(bound), so_far))
    return HistogramMetricFamily(name, help, buckets=buckets, sum_value=histogram.total, unit="seconds")


def _labelled(family: Any, name: str, help: str, labels: tuple[str, ...], values: Mapping[Any, int]) -> Any:
    metric = family(name, help, labels=labels)
    for key, value in values.items():
        metric.add_metric(key if isinstance(key, tuple) else (key,), value)
    return metric
