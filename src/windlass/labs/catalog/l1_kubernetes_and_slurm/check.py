"""Check of L1: the completion records of Slurm, and the objects of the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass.labs.evidence.findings import EvidenceError, Finding
from windlass.labs.evidence.lab import Lab

RECORDS = "slurm/jobs.txt"
"""File of the plugin jobcomp/filetxt: a line for each ended job."""


@dataclass(frozen=True, slots=True)
class CompletionRecord:
    """A completion record of Slurm. Times have the form of ISO 8601, and compare as texts."""

    number: int
    name: str
    state: str
    started: str
    nodes: int


def check(lab: Lab) -> Iterator[Finding]:
    """Looks at what Slurm has recorded, then at the cluster."""
    jobs = _ended_jobs(lab)
    # 1. the job under Slurm
    gangs = [job for job in jobs if job.state == "COMPLETED"]
    most = max((job.nodes for job in gangs), default=0)
    fix = "sbatch train.sbatch" if not gangs else f"the largest job has {'one node' if most == 1 else f'{most} nodes'}"
    yield Finding(most == 2, "Slurm: a job completed on two nodes", f"{fix}: request --nodes=2")
    # 2. walltime
    yield Finding(
        any(job.state == "TIMEOUT" for job in jobs),
        "Slurm: a job was ended at its limit",
        "no job was ended by Slurm at its limit: submit one that sleeps longer than its --time=1, and wait",
    )
    # 3. backfill
    yield Finding(
        any(_overtook(job, other) for job in jobs for other in jobs),
        "Slurm: a short job overtook one that needs both nodes",
        "no job overtook an earlier one: hold n1 for five minutes by --time, submit a job of two nodes, then one "
        "with --time=1, and wait until squeue is empty",
    )
    # 4. Kubernetes
    yield from _on_kubernetes(lab)


def _overtook(job: CompletionRecord, other: CompletionRecord) -> bool:
    """Whether a job was submitted after another one of two nodes, and started before it."""
    return job.number > other.number and other.nodes > job.nodes and job.started < other.started


def _ended_jobs(lab: Lab) -> Sequence[CompletionRecord]:
    jobs = []
    for line in (lab.file(RECORDS) or "").splitlines():
        fields = dict(word.partition("=")[::2] for word in line.split())
        try:
            jobs.append(
                CompletionRecord(
                    int(fields["JobId"]),
                    fields["Name"],
                    fields["JobState"],
                    fields["StartTime"],
                    int(fields["NodeCnt"]),
                )
            )
        except (KeyError, ValueError):
            raise EvidenceError(f"{RECORDS} is no file of Slurm", "windlass lab start l1 --fresh") from None
    return jobs


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    reason: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []


class _Object(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


class _List(msgspec.Struct):
    items: list[_Object]


def _on_kubernetes(lab: Lab) -> Iterator[Finding]:
    trained = any(
        each.type == "Succeeded" and each.status == "True"
        for each in _conditions(lab, "windlass.dev/v1alpha1/trainingjobs")
    )
    yield Finding(
        trained, "Kubernetes: the same job has succeeded as a gang", "windlass submit --on kubernetes, as in step 5"
    )
    ended = any(each.reason == "DeadlineExceeded" for each in _conditions(lab, "batch/v1/jobs"))
    yield Finding(
        ended,
        "Kubernetes: a Job was ended at its deadline",
        "write activeDeadlineSeconds: 5 below spec of limited.yaml, delete the Job and apply it again",
    )


def _conditions(lab: Lab, path: str) -> list[_Condition]:
    answer: Any = lab.kube(path) or {"items": []}
    try:
        return [each for item in msgspec.convert(answer, _List).items for each in item.status.conditions]
    except msgspec.ValidationError:
        raise EvidenceError(f"{path} of the cluster cannot be read", "windlass lab cluster status") from None
