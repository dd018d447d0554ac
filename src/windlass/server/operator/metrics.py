"""What the operator counts, and how Prometheus reads it.

The names follow Prometheus' conventions: seconds, `_total` for what only grows. Counting is adding to plain numbers;
everything else is worked out when somebody asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from windlass.backends.kubernetes.client.request_counters import Histogram, RequestCounters
from windlass.backends.port import Changes
from windlass.controller import Controller
from windlass.core.model.status import Phase
from windlass.server.operator.history.store import JobHistory

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_WAITS = (0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0)
"""Seconds: of what depends on what others do."""


@dataclass(slots=True)
class OperatorMetrics:
    """One of each process. `leading` is set by whoever leads, `sizes` by whoever has queues to show."""

    tally: RequestCounters = field(default_factory=RequestCounters)
    turns: Histogram = field(default_factory=Histogram)
    """From what happened to what was decided."""
    plans: Histogram = field(default_factory=Histogram)
    """The same of those turns in which a plan was made: that is most of them."""
    commits: Histogram = field(default_factory=Histogram)
    waited: Histogram = field(default_factory=lambda: Histogram(_WAITS))
    """From its place in the queue to a job's admission."""
    gathered: Histogram = field(default_factory=lambda: Histogram(_WAITS))
    """From a gang's admission until all of it ran."""
    ended: Counter[str] = field(default_factory=Counter)
    """Jobs by the phase in which they ended."""
    leading: bool = False
    sizes: dict[str, Callable[[], int]] = field(default_factory=dict)
    """What waits to be done, by name: asked when somebody looks."""

    def count(self, changes: Changes) -> None:
        """What was committed."""
        states = {state.id: state.status for state in changes.states}
        for told in changes.transitions:
            status = states.get(told.job_id)
            if status is None or told.before == told.after:
                continue
            if told.after == Phase.ADMITTED and status.queued_at is not None:
                self.waited.observe((told.at - status.queued_at) / 1000)
            if told.before == Phase.ADMITTED and told.after == Phase.RUNNING and status.admitted_at is not None:
                self.gathered.observe((told.at - status.admitted_at) / 1000)
            if told.after in (Phase.SUCCEEDED, Phase.FAILED):
                self.ended[told.after] += 1


def render_metrics(metrics: OperatorMetrics, controller: Controller | None, history: JobHistory | None) -> bytes:
    """As Prometheus reads it. A follower has no controller."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected([*_counted(metrics), *_jobs(controller), *_kept(history)]))
    return generate_latest(registry)


class _Collected(Collector):
    def __init__(self, families: list[Any]) -> None:
        self._families = families

    def collect(self) -> Iterable[Any]:
        return self._families


def _counted(metrics: OperatorMetrics) -> Iterator[Any]:
    tally = metrics.tally
    yield GaugeMetricFamily("windlass_leader", "1 on the replica that decides.", value=int(metrics.leading))
    yield _histogram("windlass_turn", "From what happened to what was decided.", metrics.turns)
    yield _histogram("windlass_plan", "The same of turns in which a plan was made.", metrics.plans)
    yield _histogram("windlass_commit", "Writing a turn's states into their objects.", metrics.commits)
    yield _histogram("windlass_job_wait", "From a job's place in the queue to its admission.", metrics.waited)
    yield _histogram("windlass_gang_start", "From a gang's admission until all of it ran.", metrics.gathered)
    yield _histogram("windlass_bind", "One binding, as the API server answered it.", tally.bindings)
    bound = sum(tally.bindings.counts)
    yield CounterMetricFamily("windlass_pods_bound", "Pods that were put on their nodes.", value=bound)
    yield _labelled(CounterMetricFamily, "windlass_jobs_ended", "Jobs that ended.", ("phase",), metrics.ended)
    said = "Requests to the API server, each attempt."
    yield _labelled(CounterMetricFamily, "windlass_api_requests", said, ("verb", "code"), tally.requests)
    said = "Watches begun: one, and one more for each that ended."
    yield _labelled(CounterMetricFamily, "windlass_watches", said, ("resource",), tally.watches)
    sizes = {name: size() for name, size in metrics.sizes.items()}
    yield _labelled(GaugeMetricFamily, "windlass_queue_size", "What waits to be done.", ("name",), sizes)


def _jobs(controller: Controller | None) -> Iterator[Any]:
    if controller is None:
        return
    states = list(controller.states.values())
    phases = Counter((state.job.queue, state.status.phase.value) for state in states)
    yield _labelled(GaugeMetricFamily, "windlass_jobs", "Jobs by queue and phase.", ("queue", "phase"), phases)
    verdicts = controller.plan.verdicts
    waiting = (verdicts.get(state.id) for state in states if state.status.phase is Phase.QUEUED)
    reasons = Counter(verdict.reason.value if verdict else "PendingEvaluation" for verdict in waiting)
    yield _labelled(GaugeMetricFamily, "windlass_pending_gangs", "Gangs that wait, by reason.", ("reason",), reasons)
    table = controller.snapshot().table
    yield GaugeMetricFamily("windlass_nodes", "Nodes that are known.", value=len(table.nodes))
    yield GaugeMetricFamily("windlass_nodes_usable", "Nodes where something may start.", value=int(table.usable.sum()))


def _kept(history: JobHistory | None) -> Iterator[Any]:
    if history is None:
        return
    yield GaugeMetricFamily("windlass_history_waiting", "Entries not written yet.", value=history.waiting)
    yield CounterMetricFamily("windlass_history_lost", "Entries that found no room.", value=history.lost)


def _histogram(name: str, said: str, found: Histogram) -> Any:
    buckets, so_far = [], 0
    for bound, count in zip((*found.bounds, "+Inf"), found.counts, strict=True):
        so_far += count
        buckets.append((str(bound), so_far))
    return HistogramMetricFamily(name, said, buckets=buckets, sum_value=found.total, unit="seconds")


def _labelled(family: Any, name: str, said: str, labels: tuple[str, ...], values: Mapping[Any, int]) -> Any:
    made = family(name, said, labels=labels)
    for key, value in values.items():
        made.add_metric(key if isinstance(key, tuple) else (key,), value)
    return made
