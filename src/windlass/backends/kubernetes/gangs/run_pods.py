"""The pods of one run by member, and counts of them. A change of one pod costs the same in a gang of any size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.gangs.image_waits import wait_of
from windlass.jobs.kubernetes.bounded_integers import MAX_COUNT, parse_integer
from windlass.jobs.kubernetes.pods.pod_assembly import GENERATION

_DEFAULT_GRACE_S = 30
"""Seconds of grace of a pod that sets none: the default of the Kubernetes API."""


class RunPods:
    """The pods of one run by member number.

    `roles`: the role of each member. Pods that belong to no member have numbers from the gang's size on.
    """

    def __init__(self, roles: Sequence[str]) -> None:
        self._roles = roles
        self._pods: dict[int, Pod] = {}
        self._numbers: dict[str, int] = {}
        self._extra: set[int] = set()
        self._next_extra = len(roles)
        self._phases: dict[str, Counter[str]] = {}
        self.running: set[str] = set()
        """Names of pods that run."""
        self.revision = 0
        """Counts changes of `running`."""
        self.failing: set[int] = set()
        """Members whose pods have failed, or are being deleted while they run."""
        self.last_failing: dict[int, Pod] = {}
        """The last pod of each member that fails, and of each whose pod failed and is gone without a successor."""
        self.without_image: set[int] = set()
        """Members whose pods wait for an image that cannot be pulled."""
        self.container_restarts = 0
        """Restarts of containers in place, in the members that run."""
        self.changed: set[int] = set()
        """Numbers of pods that have changed since the backend last acted on them."""

    def get(self, number: int) -> Pod | None:
        """Returns the pod of a member, or of an extra number."""
        return self._pods.get(number)

    def has_just_ended(self, pod: Pod) -> bool:
        """Tells whether a member's pod has ended by itself, and had not when it was recorded last."""
        number = self.number(pod.metadata.uid)
        known = self.get(number) if number is not None else None
        ended = pod.status.has_ended and not pod.metadata.deletion_timestamp
        return known is not None and ended and not known.status.has_ended

    def number(self, uid: str) -> int | None:
        """Returns the number of a pod."""
        return self._numbers.get(uid)

    def all(self) -> Iterable[Pod]:
        """Returns every pod of the run."""
        return self._pods.values()

    @property
    def extra(self) -> Collection[Pod]:
        """Pods that belong to no member."""
        return [self._pods[number] for number in self._extra]

    @property
    def by_number(self) -> Mapping[int, Pod]:
        """Every pod of the run by number."""
        return self._pods

    def phases(self, role: str) -> Mapping[str, int]:
        """The number of members of a role by the phase of their pods."""
        return self._phases.get(role, {})

    def put(self, pod: Pod, member: int | None) -> int:
        """Records a pod as it is now, and returns its number. `member`: its member number; None: an extra pod."""
        uid = pod.metadata.uid
        before = self._numbers.get(uid)
        if member is not None and (held := self._pods.get(member)) is not None and held.metadata.uid != uid:
            member = None
        if member is None:
            member = before if before is not None and before in self._extra else self._new_extra()
        if before is not None and before != member:
            self.remove(uid)
        self._count(member, self._pods.get(member), pod)
        self._pods[member], self._numbers[uid] = pod, member
        self.changed.add(member)
        return member

    def remove(self, uid: str) -> int | None:
        """Forgets a pod; returns the number that it had."""
        number = self._numbers.pop(uid, None)
        if number is not None:
            self._count(number, self._pods.pop(number), None)
            self._extra.discard(number)
            self.changed.add(number)
        return number

    def forget_failures(self) -> None:
        """Forgets the failing pods that are gone."""
        self.last_failing = {number: self._pods[number] for number in self.failing}

    def mark_all(self) -> None:
        """Marks every pod as changed."""
        self.changed.update(self._pods)

    def take_changed(self) -> Mapping[int, Pod]:
        """Returns the pods that have changed since the last call and still exist."""
        changed, self.changed = self.changed, set()
        return {number: pod for number in changed if (pod := self._pods.get(number)) is not None}

    def _new_extra(self) -> int:
        number, self._next_extra = self._next_extra, self._next_extra + 1
        self._extra.add(number)
        return number

    def _count(self, number: int, before: Pod | None, after: Pod | None) -> None:
        if number < len(self._roles):
            phases = self._phases.setdefault(self._roles[number], Counter())
            phases.subtract([before.status.phase] if before is not None else ())
            phases.update([after.status.phase] if after is not None else ())
            self.container_restarts += _restarts(after) - _restarts(before)
            (self.without_image.add if after is not None and wait_of(after) else self.without_image.discard)(number)
            (self.failing.add if after is not None and _is_failing(after) else self.failing.discard)(number)
            if number in self.failing and after is not None:
                self.last_failing[number] = after
            elif after is not None:
                self.last_failing.pop(number, None)
        if before is not None and before.metadata.name in self.running and (after is None or not _runs(after)):
            self.running.discard(before.metadata.name)
            self.revision += 1
        if after is not None and _runs(after) and after.metadata.name not in self.running:
            self.running.add(after.metadata.name)
            self.revision += 1


def _runs(pod: Pod) -> bool:
    return pod.status.phase == "Running"


def _is_failing(pod: Pod) -> bool:
    return pod.status.phase == "Failed" or is_leaving(pod)


def is_leaving(pod: Pod) -> bool:
    """Tells whether a pod is being deleted while it runs."""
    return pod.status.phase == "Running" and bool(pod.metadata.deletion_timestamp)


def is_being_deleted(pod: Pod) -> bool:
    """Tells whether a deletion of a pod is under way that needs no other request.

    The API server deletes a pod without grace by two writes, a mark and the removal. If it or its client ends between
    them, the mark stays, and only a repeated request removes the pod (BeforeDelete in k8s.io/apiserver
    pkg/registry/rest/delete.go).
    """
    return bool(pod.metadata.deletion_timestamp) and bool(pod.metadata.deletion_grace_period_seconds)


def _restarts(pod: Pod | None) -> int:
    """Returns the number of container restarts of a pod that runs."""
    if pod is None or pod.status.phase != "Running":
        return 0
    return sum(each.restart_count for each in (*pod.status.init_container_statuses, *pod.status.container_statuses))


def generation_of(pod: Pod) -> int:
    """Returns the generation of a pod; 0 if it has none: another operator has created it."""
    return parse_integer(pod.metadata.labels.get(GENERATION), 0, MAX_COUNT) or 0


def grace_of(pod: Pod) -> int:
    """Returns the seconds that a pod has to end by its own spec. 0: none."""
    seconds = pod.spec.termination_grace_period_seconds
    return _DEFAULT_GRACE_S if seconds is None else seconds
