"""Why jobs wait, in full: worked out beside the loop, on a snapshot that does not change. Pure."""

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
from windlass.server.errors import ApiError, Code

Json = dict[str, Any]
_NEVER = "can never run on the nodes and queues that there are: {}"
_TRIED = 10
"""Of the jobs that wait, so many are told what would start instead: each costs a few plans."""


def change_job(state: JobState, what_if: str, snapshot: Snapshot) -> Job:
    """The job as if it had asked for something else. Raises ApiError if it cannot ask for that, or never had it."""
    try:
        job = with_changes(state.job, what_if)
    except ValueError as error:
        raise ApiError(Code.BAD_REQUEST, f"--what-if {error}") from None
    if no := admission_refusal(snapshot, job):
        raise ApiError(Code.REFUSED, f"that could never run here: {no.message}")
    return job


def find_impossibility(snapshot: Snapshot, job: Job) -> str:
    """Why a job can never run on the cluster as it is, with the largest that could; "" if it can.

    `snapshot`: a bare one, for what is not ours may go. Of a gang that is elastic its least has to fit.
    """
    no = admission_refusal(snapshot, _at_least(job))
    return "" if no is None else _NEVER.format(no.message)


def _at_least(job: Job) -> Job:
    """The job with the fewest replicas that it takes."""
    roles = (role if role.min_replicas is None else replace(role, replicas=role.min_replicas) for role in job.roles)
    return replace(job, roles=tuple(roles))


def explain_pending(snapshot: Snapshot, state: JobState, job: Job | None, now: int, bare: SnapshotFilter) -> Json:
    """The explanation of a job that waits; with a `job` in its place as if that waited there, all else equal."""
    gang = pending_of(state if job is None else replace(state, job=job))
    if job is not None:
        ledger = Ledger.at(snapshot)
        ledger.add_pending(gang)
        snapshot = ledger.snapshot()
    found = msgspec.to_builtins(explain(snapshot, state.id, now))
    found["never"] = find_impossibility(bare(snapshot), state.job if job is None else job)
    kept = _reserved(snapshot, gang, now)
    for node in found["nodes"]:
        if not node["cause"] and not node["held_for"] and node["node"] in kept:
            node["held_for"] = f"reservation {kept[node['node']]}"
    return {"explanation": found, "supposed": job is not None}


def use_listed_start(found: Json, line: Json | None) -> Json:
    """An explanation that names one start, and how sure it is: that of the job's `line`, as every listing tells it.

    Without a line (nothing lists what is only supposed) it is the verdict's. Where neither knows any, what the
    scheduler run ahead of time has found stands alone.
    """
    verdict = found["verdict"]
    if verdict is None:
        return found
    told = line or verdict
    expected = found["expected"] if told["eta"] is None else told["eta"]
    return {**found, "verdict": {**verdict, "eta": told["eta"], "sure": told["sure"]}, "expected": expected}


def _reserved(snapshot: Snapshot, gang: PendingGang, now: int) -> dict[str, str]:
    """Node → the reservation that keeps the gang from it: somebody else's, and begun before the gang would end."""
    ends = None if gang.walltime is None else now + gang.walltime
    others = (kept for kept in snapshot.reservations if kept.keeps_out(gang.queue, gang.user, now, ends))
    return {name: kept.name for kept in others for name in kept.nodes}


def add_alternatives(snapshot: Snapshot, lines: Sequence[Json], now: int) -> list[Json]:
    """The lines of jobs that wait, the first of them with the changes that would let them start now."""
    waiting = {gang.id: gang for each in snapshot.classes for gang in each.gangs}
    tried = [line["id"] for line in lines if line["position"] and line["id"] in waiting][:_TRIED]
    found = {name: [each.change for each in find_alternatives(snapshot, waiting[name], now)] for name in tried}
    return [{**line, "would_start": found.get(line["id"])} for line in lines]
