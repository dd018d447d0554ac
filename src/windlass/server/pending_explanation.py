"""Full explanation of pending jobs, computed in a thread on an immutable snapshot. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from windlass.core.explain.admission_check import admission_refusal
from windlass.core.explain.alternatives import find_alternatives
from windlass.core.explain.explanation import explain
from windlass.core.ledger import Ledger
from windlass.core.model.gang import PendingGang, pending_of
from windlass.core.model.job import Job
from windlass.core.model.snapshot import Snapshot
from windlass.core.model.status import JobState
from windlass.jobs.description.hypothetical_job import with_changes
from windlass.server.data_source import SnapshotFilter
from windlass.server.errors import ApiError, ErrorCode

Json = dict[str, Any]
_IMPOSSIBLE = "can never run on the existing nodes and queues: {}"
_MAX_ALTERNATIVES = 10
"""Pending jobs for which alternatives are computed: each costs a few plans."""


def change_job(state: JobState, what_if: str, snapshot: Snapshot) -> Job:
    """The job with other options. Raises ApiError if the options are invalid or the job could never run."""
    try:
        job = with_changes(state.job, what_if)
    except ValueError as error:
        raise ApiError(ErrorCode.BAD_REQUEST, f"--what-if {error}") from None
    if no := admission_refusal(snapshot, job):
        raise ApiError(ErrorCode.REFUSED, f"such a job could never run here: {no.message}")
    return job


def find_impossibility(snapshot: Snapshot, job: Job) -> str:
    """Reason why a job can never run on the cluster as it is, with the largest job that could; empty if it can.

    `snapshot`: one without external pods, because they may end. An elastic gang has to fit with its minimum.
    """
    no = admission_refusal(snapshot, _with_minimum(job))
    return "" if no is None else _IMPOSSIBLE.format(no.message)


def _with_minimum(job: Job) -> Job:
    """The job with its minimum of replicas."""
    roles = (role if role.min_replicas is None else replace(role, replicas=role.min_replicas) for role in job.roles)
    return replace(job, roles=tuple(roles))


def explain_pending(snapshot: Snapshot, state: JobState, job: Job | None, now: int, own_only: SnapshotFilter) -> Json:
    """Explanation of a pending job; with `job`, of that job in its place."""
    gang = pending_of(state if job is None else replace(state, job=job))
    if job is not None:
        ledger = Ledger.at(snapshot)
        ledger.add_pending(gang)
        snapshot = ledger.snapshot()
    found = msgspec.to_builtins(explain(snapshot, state.id, now))
    found["never"] = find_impossibility(own_only(snapshot), state.job if job is None else job)
    reserved = _reserved(snapshot, gang, now)
    for node in found["nodes"]:
        if not node["cause"] and not node["held_for"] and node["node"] in reserved:
            node["held_for"] = f"reservation {reserved[node['node']]}"
    return {"explanation": found, "supposed": job is not None}


def use_listed_start(found: Json, line: Json | None) -> Json:
    """The explanation with the start estimate of the job's `line`, so that it agrees with every listing.

    Without a line (no listing shows a supposed job) the estimate is the verdict's. If neither has one, only the
    estimate of the simulated scheduler remains.
    """
    verdict = found["verdict"]
    if verdict is None:
        return found
    estimate = line or verdict
    expected = found["expected"] if estimate["eta"] is None else estimate["eta"]
    merged = {**verdict, "eta": estimate["eta"], "certainty": estimate["certainty"]}
    return {**found, "verdict": merged, "expected": expected}


def _reserved(snapshot: Snapshot, gang: PendingGang, now: int) -> dict[str, str]:
    """Node → name of a reservation for others that starts before the gang would end."""
    ends = None if gang.walltime is None else now + gang.walltime
    others = (each for each in snapshot.reservations if each.keeps_out(gang.queue, gang.user, now, ends))
    return {name: each.name for each in others for name in each.nodes}


def add_alternatives(snapshot: Snapshot, lines: Sequence[Json], now: int) -> list[Json]:
    """Lines of pending jobs; the first ones with changes of the job that would start it now."""
    waiting = {gang.id: gang for each in snapshot.classes for gang in each.gangs}
    chosen = [line["id"] for line in lines if line["position"] and line["id"] in waiting][:_MAX_ALTERNATIVES]
    found = {name: [each.change for each in find_alternatives(snapshot, waiting[name], now)] for name in chosen}
    return [{**line, "would_start": found.get(line["id"])} for line in lines]
