"""Why a job waits in Slurm: its reason as a sentence, nodes with room, jobs ahead and jobs that hold nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from windlass.backends.slurm.cluster_nodes import SlurmNode
from windlass.backends.slurm.job_records import SlurmJob
from windlass.backends.slurm.job_states import node_names, phase_of
from windlass.core.model.resources import CPU, GPU, MEMORY, format_readable
from windlass.core.model.status import HOLDING, Phase

Json = dict[str, Any]
_TEXTS = {
    "": "Slurm has not considered it yet",
    "None": "Slurm has not considered it yet",
    "Resources": "it is the next job, and too few nodes are free",
    "Priority": "jobs with a higher priority are ahead of it",
    "Dependency": "it waits for the end of another job",
    "DependencyNeverSatisfied": "a job that it depends on has failed, so that it never starts; cancel it",
    "JobHeldUser": "it is held; start it with windlass resume",
    "JobHeldAdmin": "an administrator holds it",
    "BeginTime": "its earliest start is not reached; a requeued job waits for two minutes",
    "JobArrayTaskLimit": "as many members of its array run as its limit allows",
    "PartitionNodeLimit": "it requests more nodes than its partition has or allows; it never starts",
    "PartitionTimeLimit": "its time limit is above that of its partition; it never starts",
    "PartitionConfig": "it requests more than its partition allows or a node of it has; it never starts",
    "PartitionDown": "its partition starts no jobs",
    "PartitionInactive": "its partition is inactive",
    "ReqNodeNotAvail": "a node that it needs is down, drained or reserved",
    "Reservation": "its reservation has not begun",
    "Licenses": "a license that it needs is in use",
    "Cleaning": "its previous attempt is still ending",
    "BadConstraints": "no node has the features that it requests",
    "InvalidAccount": "its account does not exist",
    "InvalidQOS": "its QOS does not exist",
}
_LIMITS = {"QOS": "its QOS", "Assoc": "its account or user", "MaxJobs": "its user"}


def reason_message(job: SlurmJob) -> str:
    """The reason of a waiting job as a sentence."""
    limit = next((whose for prefix, whose in _LIMITS.items() if job.reason.startswith(prefix)), "")
    text = f"a limit of {limit} is reached" if limit else _TEXTS.get(job.reason, f"Slurm's reason is {job.reason}")
    return f"{text} ({job.dependency})" if job.reason == "Dependency" and job.dependency else text


def queue_position(job: SlurmJob, jobs: Sequence[SlurmJob]) -> int:
    """Position among the waiting jobs of its partition, by priority, from 1; 0 for a job that does not wait."""
    return len(_ahead(job, jobs)) + 1 if phase_of(job) is Phase.QUEUED else 0


def expected_start(job: SlurmJob) -> int | None:
    """The start that Slurm's backfill expects, in ms; None: it has planned none."""
    return job.started * 1000 if phase_of(job) is Phase.QUEUED and job.started else None


def explain_wait(job: SlurmJob, jobs: Sequence[SlurmJob], nodes: Sequence[SlurmNode]) -> Json:
    """The explanation of a waiting job, in the form of the scheduler's own explanations."""
    needs = _needs(job)
    resource = GPU if job.gpus_per_node else CPU
    rows = [_node_row(node, needs, resource) for node in nodes]
    free = sum(row["fits"] > 0 for row in rows)
    counts = f"{free} of {len(rows)} nodes of partition {job.partition} have room now, and it needs {job.node_count}"
    return {
        "verdict": {
            "reason": job.reason,
            "message": f"{reason_message(job)}; {counts}",
            "certainty": "expected",
        },
        "resource": resource,
        "ahead": [each.id for each in _ahead(job, jobs)],
        "not_before": None,
        "expected": expected_start(job),
        "nodes": rows,
        "frees": [*_holders(job, jobs, resource)],
        "would_start": [],
    }


def _ahead(job: SlurmJob, jobs: Sequence[SlurmJob]) -> list[SlurmJob]:
    waiting = [each for each in jobs if phase_of(each) is Phase.QUEUED and each.partition == job.partition]
    ahead = [each for each in waiting if (-each.priority, each.number) < (-job.priority, job.number)]
    return sorted(ahead, key=lambda each: (-each.priority, each.number))


def _needs(job: SlurmJob) -> dict[str, int]:
    amounts = {CPU: 1000 * job.cpus // job.node_count, MEMORY: job.memory // job.node_count, GPU: job.gpus_per_node}
    return {name: amount for name, amount in amounts.items() if amount}


def _node_row(node: SlurmNode, needs: dict[str, int], resource: str) -> Json:
    lacking = next((name for name, amount in needs.items() if node.free[name] < amount), "")
    cause = ""
    if not node.is_usable:
        cause = f"{node.state}{f': {node.reason}' if node.reason else ''}"
    elif lacking:
        free, needed = (format_readable(lacking, amounts[lacking]) for amounts in (node.free, needs))
        cause = f"{free} {lacking} free, {needed} needed"
    return {
        "node": node.name,
        "free": node.free[resource],
        "capacity": node.capacity[resource],
        "fits": 0 if cause else min((node.free[name] // amount for name, amount in needs.items()), default=1),
        "cause": cause,
        "held_for": "",
    }


def _holders(job: SlurmJob, jobs: Sequence[SlurmJob], resource: str) -> Iterator[Json]:
    """Jobs that hold the resource in the partition, with the end of their time limit."""
    for each in jobs:
        held = each.gpus_per_node if resource == GPU else 1000 * each.cpus // each.node_count
        if held and each.partition == job.partition and phase_of(each) in HOLDING:
            names = node_names(each.nodes)
            ends = each.ended if each.time_limit is not None else None
            yield {
                "job_id": each.id,
                "amount": held * len(names),
                "nodes": [(name, held) for name in names],
                "ends_by": ends * 1000 if ends else None,
            }
