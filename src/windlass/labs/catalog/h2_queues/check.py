"""Check of H2: Workloads of Kueue, and the transitions of jobs in two queues of Windlass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from windlass.labs.evidence.findings import EvidenceError, Finding
from windlass.labs.evidence.job_records import LabJob
from windlass.labs.evidence.lab import Lab

QUOTA_GPUS = 4
WORKLOADS = "kueue.x-k8s.io/v1beta2/workloads"


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    lastTransitionTime: datetime | None = None  # noqa: N815 - the API's name


class _Status(msgspec.Struct):
    conditions: list[_Condition] = []


class _Metadata(msgspec.Struct):
    creationTimestamp: datetime  # noqa: N815


class _Workload(msgspec.Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)

    def since(self, kind: str) -> datetime | None:
        """Returns the time of a condition that holds; None if it does not."""
        return next(
            (c.lastTransitionTime for c in self.status.conditions if c.type == kind and c.status == "True"), None
        )


class _Workloads(msgspec.Struct):
    items: list[_Workload]


def check(lab: Lab) -> Iterator[Finding]:
    """Looks at the Workloads of Kueue, then at the jobs of Windlass."""
    # 1. Kueue
    yield from _admitted_by_kueue(_workloads(lab))
    # 2. borrowing, reclaim and backfill
    jobs = [job for job in lab.jobs() if job.queue in ("vision", "speech")]
    large = [job for job in jobs if job.ranks > QUOTA_GPUS and job.started_at]
    yield Finding(
        bool(large),
        f"Windlass: a job ran on more than the {QUOTA_GPUS} GPUs of its queue",
        "windlass up -d --cluster cluster.yaml, then submit a job of six GPUs to vision",
    )
    reclaimed = [job for job in large if _preempted_at(job) is not None]
    yield Finding(
        bool(reclaimed),
        "Windlass: what it had borrowed was reclaimed for the other queue",
        "submit a job of four GPUs to the other queue, while the large one runs",
    )
    yield Finding(
        any(_overtook(small, job) for job in reclaimed for small in jobs),
        "Windlass: a small job ran while the large one waited",
        "while the large job waits, submit a small one with --time 10s to its queue",
    )
    yield Finding(
        any(job.generation > 1 for job in reclaimed),
        "Windlass: the large job started again",
        "cancel the job that took the GPUs back, and wait until the large one runs",
    )


def _workloads(lab: Lab) -> Sequence[_Workload]:
    answer = lab.kube(WORKLOADS)
    if answer is None:
        raise EvidenceError(
            "the cluster has no Kueue", "windlass lab cluster down, then windlass lab cluster up --kueue"
        )
    try:
        return msgspec.convert(answer, _Workloads).items
    except msgspec.ValidationError:
        raise EvidenceError("the Workloads of Kueue cannot be read", "windlass lab cluster status") from None


def _admitted_by_kueue(workloads: Sequence[_Workload]) -> Iterator[Finding]:
    admitted = [each for each in workloads if each.since("Admitted")]
    yield Finding(
        bool(admitted),
        "Kueue has admitted a job",
        "Kueue has not admitted any: look at kubectl describe workloads.kueue.x-k8s.io"
        if workloads
        else "Kueue does not know the job: apply kueue.yaml, and create the job with the label of its queue",
    )
    yield Finding(
        any(_waited_for(each, other) for each in admitted for other in admitted),
        "Kueue: a second job waited for quota, and was admitted when the first had finished",
        "submit a second job while the first one runs, and wait until both are complete",
    )


def _waited_for(second: _Workload, first: _Workload) -> bool:
    """Whether a job was created while another one ran, and admitted when that had finished."""
    began, ended, start = first.since("Admitted"), first.since("Finished"), second.since("Admitted")
    if began is None or ended is None or start is None or second is first:
        return False
    return began <= second.metadata.creationTimestamp < ended <= start


def _preempted_at(job: LabJob) -> int | None:
    """Returns the time of the first preemption because of borrowed quota, in ms."""
    return next((each.at for each in job.transitions if each.event == "Preempt" and "borrowed" in each.message), None)


def _overtook(small: LabJob, large: LabJob) -> bool:
    """Whether a job was created and started while another one waited after its preemption."""
    since = _preempted_at(large)
    if since is None or small.id == large.id or small.queue != large.queue or small.started_at is None:
        return False
    again = [each.at for each in large.transitions if each.event == "Admit" and each.at > since]
    return since < (small.created_at or 0) and small.started_at < min(again, default=small.started_at + 1)
