"""A gang of others, as the controller knows it: its pods as they were gathered, and what became of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from windlass.backends.kubernetes.client.objects import Pod
from windlass.core.lifecycle.events import Cancel, Event, Exit, GangGone, MemberExited, Started
from windlass.core.lifecycle.failure import REJECTED
from windlass.core.model.job import Job
from windlass.core.model.status import JobState, Placement, Status
from windlass.jobs.kubernetes.external.membership import Membership

MembersNow: TypeAlias = Sequence[Pod | None]
"""The gang's very pods as they are now, in the order of its members; None: it is gone."""
_ENDED = ("Succeeded", "Failed")


@dataclass(slots=True)
class Allocation:
    """From the decision where a gang goes until nothing of it is left there."""

    generation: int
    nodes: Sequence[str]
    """Of each pod."""
    bound: set[int] = field(default_factory=set)
    """Whoever is known to be on its node; a watch may not have told it yet."""
    whole: bool = False
    """All of them were."""
    failed: dict[int, str] = field(default_factory=dict)
    """Who could not be bound, and why."""
    started: bool = False
    """`Started` was told."""
    ended: bool = False
    """So was the end of its members."""
    stopping: bool = False
    left_alone: bool = False
    """It is to end for the controller only: whoever lives goes on living."""
    handed_over: bool = False
    """What they take is counted as somebody else's from now on."""
    busy: int = 0
    """Tasks that are binding pods of it."""
    closed: set[int] = field(default_factory=set)
    """Members whose places nobody takes after them."""
    gone: bool = False
    """`GangGone` was told."""


@dataclass(slots=True)
class ExternalGang:
    """`status` is as committed last."""

    id: str
    name: str
    """Within its namespace."""
    number: int
    member: Membership
    job: Job
    pods: list[Pod]
    status: Status = field(default_factory=Status)
    stay: Allocation | None = None
    cancelled: bool = False
    """It was told that it is to end before it begins."""

    def number_of(self, pod: Pod) -> int:
        """Which member one of its pods is."""
        return next(number for number, own in enumerate(self.pods) if own.metadata.uid == pod.metadata.uid)

    @property
    def state(self) -> JobState:
        """For the controller."""
        return JobState(self.id, self.number, self.job, self.status)


def nodes_of(job: Job, placement: Placement) -> Sequence[str]:
    """The node of each member, in their order."""
    return [node for role in job.roles for node in placement.nodes.get(role.name, ())]


def placement_of(job: Job, nodes: Sequence[str]) -> Placement:
    """The inverse."""
    rest = iter(nodes)
    return Placement({role.name: tuple(next(rest) for _ in range(role.replicas)) for role in job.roles})


def hear(guest: ExternalGang, pods: MembersNow) -> Iterator[Event]:
    """What the gang's pods tell that was not told before."""
    stay = guest.stay
    if stay is None:
        if not guest.cancelled and not all(map(waits, pods)):
            guest.cancelled = True
            yield Cancel("its pods have changed")
    elif not stay.gone:
        yield from _hear_stay(stay, pods)


def _hear_stay(stay: Allocation, pods: MembersNow) -> Iterator[Event]:
    living = any(living_members(stay, pods))
    # 1. All of it has begun, or could not be bound, or has ended: however it ended, the rest is its owner's.
    if not stay.stopping and not stay.busy:
        if stay.whole and not stay.started and all(map(has_begun, pods)):
            stay.started = True
            yield Started(stay.generation)
        if stay.failed and not stay.ended:
            stay.ended = True
            number, why = next(iter(stay.failed.items()))
            yield MemberExited(stay.generation, number, Exit(lost=True, end_class=REJECTED, detail=why))
        elif stay.whole and not living and not stay.ended:
            stay.ended = True
            yield from (MemberExited(stay.generation, number, Exit(code=0)) for number in range(len(pods)))
    # 2. Nothing is left: whatever its owner makes next is another gang, this one is not to be queued again.
    if stay.stopping and not stay.busy and (stay.left_alone or not living):
        stay.gone = True
        yield GangGone(stay.generation)
        yield Cancel("its pods are gone")


def living_members(stay: Allocation, pods: MembersNow) -> Iterator[Pod]:
    """Pods on the nodes that were chosen for them, and not ended."""
    for number, pod in enumerate(pods):
        on = pod.spec.node_name if pod is not None else ""
        here = on == stay.nodes[number] if on else number in stay.bound
        if pod is not None and here and pod.status.phase not in _ENDED:
            yield pod


def is_leaving(guest: ExternalGang, pods: MembersNow) -> bool:
    """Whether it is about to end for the controller, with pods that may yet be there."""
    stay = guest.stay
    if stay is None:
        return guest.cancelled or not all(map(waits, pods))
    return stay.stopping or bool(stay.failed)


def waits(pod: Pod | None) -> bool:
    """Whether it is still to be placed."""
    if pod is None or pod.metadata.deletion_timestamp is not None:
        return False
    return not pod.spec.node_name and pod.status.phase not in _ENDED


def has_ended(pod: Pod | None) -> bool:
    """It does nothing any more."""
    return pod is None or pod.status.phase in _ENDED


def has_begun(pod: Pod | None) -> bool:
    """It runs, or did."""
    return pod is None or pod.status.phase in ("Running", *_ENDED)
