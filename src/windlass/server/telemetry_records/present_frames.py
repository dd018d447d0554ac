"""Frames of the present: of the cluster and its queues, and of the jobs that hold nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from windlass.controller.controller import Controller
from windlass.core.model.status import HOLDING, JobState, Phase
from windlass.server.telemetry_records.measurements import cluster_frame, job_frame, queue_frames
from windlass.server.telemetry_records.node_measurements import node_frames, nodes_of_ranks
from windlass.telemetry.frames import MetricFrame

UNDECIDED = "PendingEvaluation"
"""Reason of a waiting gang that no plan has considered yet."""
RanksSeen = Callable[[JobState], Sequence[Mapping[str, Any]]]


def cluster_and_queue_frames(controller: Controller, now: int) -> list[MetricFrame]:
    """A frame of the cluster and one of each queue. `now`: ms since the epoch."""
    snapshot, states = controller.snapshot(), list(controller.states.values())
    verdicts = controller.plan.verdicts
    waiting = (verdicts.get(state.id) for state in states if state.status.phase is Phase.QUEUED)
    reasons = Counter(verdict.reason.value if verdict else UNDECIDED for verdict in waiting)
    return [cluster_frame(snapshot, states, reasons, now), *queue_frames(snapshot, states, now)]


def present_frames(controller: Controller, ranks_seen: RanksSeen, now: int) -> Iterator[MetricFrame]:
    """The same, and frames of each job that holds nodes and of each node whose ranks report the use of their GPUs.

    `ranks_seen`: what the ranks of a job last reported.
    """
    yield from cluster_and_queue_frames(controller, now)
    everything: list[Mapping[str, Any]] = []
    for state in controller.states.values():
        if state.status.phase in HOLDING:
            ranks = ranks_seen(state)
            yield job_frame(state, ranks, now)
            everything += ranks
    yield from node_frames(nodes_of_ranks(everything), now)
