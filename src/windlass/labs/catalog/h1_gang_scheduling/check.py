"""Check of H1: the events of a deadlock under the plain scheduler, and the pods of two gangs that ran in turn."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from windlass.labs.evidence.findings import EvidenceError, Finding
from windlass.labs.evidence.lab import Lab
from windlass.labs.evidence.pod_records import PodRecord, read_pods

PLAIN, WINDLASS = "default-scheduler", "windlass"
GANG = "windlass.dev/gang"
TOGETHER = timedelta(seconds=5)
"""Time between the bindings of a gang; conditions have whole seconds."""
ONE_START = timedelta(seconds=60)
"""Time between the first and the last pod of a job that a launcher starts."""
_POD = re.compile(r"(.+)-\d+(-[a-z0-9]{5})?")
"""Name of a pod: job, rank, and for pods of a Job a suffix."""


class _Involved(msgspec.Struct):
    name: str = ""
    uid: str = ""
    kind: str = ""


class _Event(msgspec.Struct):
    involvedObject: _Involved  # noqa: N815 - the API's name
    eventTime: datetime | None = None  # noqa: N815
    reason: str = ""
    reportingComponent: str = ""  # noqa: N815

    @property
    def job(self) -> str:
        """The part of a pod's name before the number of its rank; "" without one."""
        return named[1] if (named := _POD.fullmatch(self.involvedObject.name)) else ""

    def is_near(self, other: _Event) -> bool:
        """Whether two events belong to one start of a job."""
        if self.eventTime is None or other.eventTime is None or self.job != other.job:
            return False
        return abs(self.eventTime - other.eventTime) < ONE_START


class _Events(msgspec.Struct):
    items: list[_Event]


def check(lab: Lab) -> Iterator[Finding]:
    """Looks at the deadlock, at what is left of it, and at the two gangs, in this order."""
    pods = read_pods(lab)
    # 1. the deadlock, in the events of Jobs and of the plain scheduler
    yield Finding(
        len(half_placed(lab)) > 1,
        f"{PLAIN} has placed a part of each of two jobs",
        "no events of two half-placed jobs: run `sh launch.sh` with pod.yaml as it is at the start, and look at the "
        "pods with `kubectl get pods`. Events are kept for an hour",
    )
    # 2. nothing of it holds GPUs
    holding = sorted(pod.name for pod in pods if pod.scheduler == PLAIN and pod.phase in ("Pending", "Running"))
    yield Finding(
        not holding,
        f"no pod of {PLAIN} holds GPUs",
        f"{', '.join(holding)} still hold GPUs or wait for some: delete the pods, or the Jobs that own them",
    )
    # 3. the gangs
    yield from gangs_in_turn([pod for pod in pods if pod.scheduler == WINDLASS])


def gangs_in_turn(pods: Sequence[PodRecord]) -> Iterator[Finding]:
    """Yields whether pods belong to two gangs, which were placed whole and one after the other."""
    alone = sorted({pod.owner or pod.name for pod in pods if not is_in_gang(pod)})
    yield Finding(
        bool(pods) and not alone,
        "all pods that Windlass places belong to gangs",
        f"Windlass places {', '.join(alone)} one by one, because nothing makes a gang of them: add the label "
        f"{GANG}: NAME and the annotation {GANG}-size, delete the pods and start them again"
        if pods
        else "no pod has the scheduler windlass: add `schedulerName: windlass` to pod.yaml and start both jobs again",
    )
    gangs = defaultdict(list)
    for pod in pods:
        gangs[pod.owner_uid or pod.labels.get(GANG, pod.name)].append(pod)
    ended = [gang for gang in gangs.values() if all(pod.succeeded for pod in gang)]
    yield Finding(
        len(ended) > 1,
        "two gangs have run to their ends",
        f"{len(ended)} of {len(gangs)} gangs have ended with success: `kubectl get pods` shows their states, and "
        f"`windlass queue --on kubernetes` why one waits. Pods without an owner need the annotation {GANG}-size: "
        "without it they are in no queue, and only their condition PodScheduled says so: kubectl get pod -o yaml",
    )
    if len(ended) < 2:
        return
    first, second = sorted(ended, key=lambda gang: min(pod.scheduled_at for pod in gang))[-2:]
    yield from compare(first, second)


def compare(first: Sequence[PodRecord], second: Sequence[PodRecord]) -> Iterator[Finding]:
    """Yields whether the gangs competed, each was placed whole, and its ranks met."""
    gpus = sum(pod.gpus for pod in (*first, *second))
    yield Finding(
        gpus > 4,
        "the two gangs do not fit side by side",
        f"together they request {gpus} GPUs and the cluster has 4, so that they never compete: keep four ranks "
        "with one GPU each in both jobs",
    )
    for gang in (first, second):
        times = [pod.scheduled_at for pod in gang]
        yield Finding(
            max(times) - min(times) <= TOGETHER,
            f"{name_of(gang)} was placed whole",
            f"the pods of {name_of(gang)} got their nodes {max(times) - min(times)} apart: they are not one gang",
        )
        world = len(gang)
        total = f"of {world}: sum {sum(range(world))}"
        yield Finding(
            all(pod.message.endswith(total) for pod in gang),
            f"the {world} ranks of {name_of(gang)} have added up their numbers",
            f"not every rank of {name_of(gang)} left the sum over {world} ranks: run rank.py on each of them",
        )
    yield Finding(
        min(pod.scheduled_at for pod in second) >= max(pod.finished_at for pod in first),
        "the second gang held nothing while the first one ran",
        f"pods of {name_of(second)} got nodes before {name_of(first)} had ended: submit both under Windlass again",
    )


def name_of(gang: Sequence[PodRecord]) -> str:
    """Returns the name of a gang for messages."""
    return gang[0].owner or gang[0].labels.get(GANG, gang[0].name)


def is_in_gang(pod: PodRecord) -> bool:
    """Whether the pod names a gang, or belongs to a kind whose pods always are one."""
    return GANG in pod.labels or pod.owner_kind not in ("", "Job", "ReplicaSet", "StatefulSet")


def half_placed(lab: Lab) -> set[str]:
    """Returns the jobs of which the plain scheduler placed some pods and never the others, by the names of the pods."""
    try:
        events = msgspec.convert(lab.kube("events") or {"items": []}, _Events).items
    except msgspec.ValidationError as error:
        raise EvidenceError(f"the events of the lab cannot be read: {error}", "kubectl get events -o yaml") from None
    placed, refused = (
        {each.involvedObject.uid: each for each in events if (each.reason, each.reportingComponent) == (reason, PLAIN)}
        for reason in ("Scheduled", "FailedScheduling")
    )
    never = [event for uid, event in refused.items() if uid not in placed]
    return {one.job for one in never if one.job and any(one.is_near(other) for other in placed.values())}
