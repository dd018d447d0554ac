"""The first page in one answer: capacity, jobs by queue, recent changes, and findings that need a person. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from windlass.core.model.node import Node
from windlass.core.model.reasons import PERMANENT_REASONS, Verdict
from windlass.core.model.snapshot import Snapshot
from windlass.core.model.status import CANCELLED, HOLDING, JobState, Phase, state_name

Json = dict[str, Any]
RECENT_MS = 3_600_000
_NO_DEVICES = ("memory", "cpu", "gpu_milli", "pods", "ephemeral-storage")
_MAX_CHANGES = 50
_MAX_NODES = 8
"""Nodes that a change names."""


def overview(
    snapshot: Snapshot, states: Iterable[JobState], ended: Sequence[JobState], verdicts: Mapping[str, Verdict], now: int
) -> Json:
    """The answer for the page. `ended`: jobs that ended within `RECENT_MS`, the last first."""
    living = list(states)
    return {
        "now": now,
        "capacity": [_capacity(snapshot, name) for name in _resources(snapshot)],
        "queues": _queues(living),
        "reasons": Counter(
            verdict.reason.value
            for state in living
            if state.status.phase is Phase.QUEUED and (verdict := verdicts.get(state.id))
        ),
        "changes": _changes([*living, *ended], now - RECENT_MS)[:_MAX_CHANGES],
        "ended": Counter(state_name(state.status) for state in ended),
        "findings": [
            *_node_findings(snapshot.table.nodes),
            *_job_findings(living, ended),
            *_hopeless(living, verdicts),
        ],
    }


def without_nodes(found: Json) -> Json:
    """The answer for a visitor who may not list nodes."""
    findings = [each for each in found["findings"] if each["kind"] != "node"]
    return {**found, "capacity": [], "findings": findings}


def _resources(snapshot: Snapshot) -> list[str]:
    """Devices, or the CPUs of a cluster without any."""
    names = [name for name in snapshot.table.resource_names if name not in _NO_DEVICES and ":" not in name]
    names = [name for name in names if not name.startswith("hugepages-")]
    present = [name for name in names if snapshot.table.capacity[:, snapshot.table.column[name]].any()]
    return present or ["cpu"]


def _capacity(snapshot: Snapshot, resource: str) -> Json:
    """Sums of one resource. `fragmented`: free on nodes in partial use; `broken`: free on nodes that are not usable."""
    table = snapshot.table
    column = table.column[resource]
    capacity, free = table.capacity[:, column], snapshot.free[:, column]
    broken = ~table.usable
    partly = (free > 0) & (free < capacity) & ~broken
    return {
        "resource": resource,
        "total": int(capacity.sum()),
        "allocated": int((capacity - free).sum()),
        "fragmented": int(free[partly].sum()),
        "broken": int(np.maximum(free[broken], 0).sum()),
        "idle": int(free[(free == capacity) & ~broken].sum()),
    }


def _queues(states: Iterable[JobState]) -> list[Json]:
    found: dict[str, Json] = {}
    for state in states:
        row = found.setdefault(state.job.queue, {"queue": state.job.queue, "running": 0, "waiting": 0, "suspended": 0})
        phase = state.status.phase
        kind = "running" if phase in HOLDING else "suspended" if phase is Phase.SUSPENDED else "waiting"
        row[kind] += 1
    return [found[name] for name in sorted(found)]


def _changes(states: Iterable[JobState], since: int) -> list[Json]:
    """First starts, failures that a job has survived, and ends since a time (ms), the last first."""
    found: list[Json] = []
    for state in states:
        status = state.status
        has_ended = status.finished_at is not None
        found.append(_change(state, status.started_at, "started", ", ".join(_nodes(state))))
        if status.last_failure is not None and not has_ended:
            found.append(_change(state, status.last_failure.at, "lost members", status.last_failure.message))
        if has_ended:
            found.append(_change(state, status.finished_at, state_name(status).lower(), _end_cause(state)))
    return sorted((each for each in found if (each["at"] or 0) >= since), key=lambda each: -each["at"])


def _change(state: JobState, at: int | None, change: str, message: str) -> Json:
    return {"at": at, "job": state.id, "queue": state.job.queue, "change": change, "message": message}


def _nodes(state: JobState) -> Sequence[str]:
    return state.status.placement.distinct()[:_MAX_NODES] if state.status.placement else ()


def _node_findings(nodes: Iterable[Node]) -> list[Json]:
    return [
        {
            "kind": "node",
            "name": node.name,
            "text": "is not ready" if not node.ready else f"accepts no jobs: {node.cordoned}",
        }
        for node in nodes
        if not node.ready or node.cordoned
    ]


def _job_findings(living: Iterable[JobState], ended: Iterable[JobState]) -> list[Json]:
    """Jobs that failed within the last hour, and running ones that have lost members more than once."""
    failed = [
        {"kind": "job", "name": state.id, "text": f"failed: {_end_cause(state)}"}
        for state in ended
        if state.status.phase is Phase.FAILED and state_name(state.status) != CANCELLED
    ]
    restarted = [
        {
            "kind": "job",
            "name": state.id,
            "text": f"runs for the {_ordinal(state.status.attempts)} time: {_cause(state)}",
        }
        for state in living
        if state.status.attempts > 1 and state.status.phase in HOLDING
    ]
    return failed + restarted


def _hopeless(living: Iterable[JobState], verdicts: Mapping[str, Verdict]) -> list[Json]:
    """Waiting jobs that cannot start until they, their queue or the nodes change."""
    return [
        {"kind": "job", "name": state.id, "text": f"cannot start as it is: {verdict.message}"}
        for state in living
        if state.status.phase is Phase.QUEUED
        and (verdict := verdicts.get(state.id)) is not None
        and verdict.reason in PERMANENT_REASONS
    ]


def _end_cause(state: JobState) -> str:
    """The verdict on the last attempt of a failed job, if there is one; else what its state says."""
    status, cause = state.status, state.status.diagnosis
    if status.phase is Phase.FAILED and cause is not None and cause.rule and cause.generation == status.generation:
        return cause.text
    return status.message or status.reason


def _cause(state: JobState) -> str:
    failure = state.status.last_failure
    return failure.message if failure is not None else state.status.reason


def _ordinal(number: int) -> str:
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
