"""External pods by the group that they belong to, and the objects that describe what a group needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from windlass.backends.kubernetes.client.object_reference import ObjectReference
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.resources import PODS, Resource
from windlass.backends.kubernetes.cluster.admission_guard import namespace_user
from windlass.backends.kubernetes.cluster.job_resolution import requests_of
from windlass.backends.kubernetes.external.dialects import RESOURCES, job_id
from windlass.backends.kubernetes.external.external_gang import waits
from windlass.backends.kubernetes.gangs.gang import WAITING
from windlass.core.model.job import DEFAULT_QUEUE, Job, Role
from windlass.core.model.status import JobState, Status
from windlass.jobs.kubernetes.external.membership import GangKey, membership
from windlass.jobs.kubernetes.gang_dialects import Dialect
from windlass.jobs.kubernetes.labels import QUEUE
from windlass.jobs.kubernetes.pods.pod_assembly import SCHEDULER
from windlass.jobs.kubernetes.status.status_times import milliseconds


@dataclass(slots=True)
class Group:
    """Pods that belong together, in any phase."""

    member: GangKey
    pods: dict[str, Pod] = field(default_factory=dict)
    """Pods by uid."""
    loose: dict[str, Pod] = field(default_factory=dict)
    """Pods by uid that wait and belong to no gang."""
    manifest: dict[str, Any] | None = None
    """The object that describes the group, as it was when the group was last gathered."""
    minimum: int = 0
    missing: str = ""
    """The reason why its waiting pods form no gang yet."""
    refused: tuple[str, frozenset[str]] = ("", frozenset())
    """The reason why the controller refused the gang of these pods, and their uids."""
    unwinding: set[str] = field(default_factory=set)
    """Uids of pods that an earlier controller has bound and that are to be deleted."""
    failures: int = 0
    """Number of times in a row that a gang of it could not be bound."""
    not_before: int = 0
    """Time in ms before which its pods are not gathered again after such a failure."""
    _described: tuple[tuple[object, ...], JobState] | None = None
    """Its state, and what that was read from: each request that names a job looks through all states."""

    @property
    def reference(self) -> ObjectReference:
        """The object that describes it, or one of its pods: its faults are reported there."""
        resource = RESOURCES.get(self.member.dialect)
        if resource is not None:
            return ObjectReference(resource, self.member.namespace, self.member.name, "")
        about = next(iter(self.pods.values())).metadata
        return ObjectReference(PODS, about.namespace, about.name, about.uid)

    @property
    def is_unwound(self) -> bool:
        """Whether pods of it that are to be deleted still look placed; they no longer count."""
        left = (self.pods[uid] for uid in self.unwinding if uid in self.pods)
        return any(pod.metadata.deletion_timestamp is None and not pod.status.has_ended for pod in left)

    @property
    def state(self) -> JobState:
        """Its waiting pods as a job that the controller does not know yet, with the reason why not."""
        of = self.missing, *self.loose.values()
        if self._described is None or self._described[0] != of:
            self._described = of, self._describe()
        return self._described[1]

    def _describe(self) -> JobState:
        pods = list(self.loose.values())
        role = Role("pods", replicas=len(pods), resources=requests_of(pods[0]))
        queue = pods[0].metadata.labels.get(QUEUE, DEFAULT_QUEUE)
        job = Job(self.member.name, (role,), queue=queue, user=namespace_user(self.member.namespace))
        made = min(milliseconds(pod.metadata.creation_timestamp) or 0 for pod in pods)
        status = Status(reason=WAITING, message=self.missing, created_at=made)
        return JobState(job_id(self.member, self.member.name), 0, job, status)

    @property
    def ready(self) -> Sequence[Pod]:
        """Pods without scheduling gates, or on a node: a pod with a gate does not count as existing."""
        return [pod for pod in self.pods.values() if pod.spec.node_name or not pod.spec.scheduling_gates]


class Groups:
    """All groups of external pods, updated pod by pod.

    Only the groups that `changed` returns need to be gathered again.
    """

    def __init__(self) -> None:
        self._groups: dict[GangKey, Group] = {}
        self._of: dict[str, GangKey] = {}
        """Group by uid of a pod."""
        self._objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        """Objects by kind, namespace and name."""
        self._changed: dict[GangKey, None] = {}
        self._assigned: set[str] = set()
        """Uids of pods that belong to a gang."""

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    def get(self, member: GangKey) -> Group | None:
        """Returns the group while it has pods."""
        return self._groups.get(member)

    def of(self, uid: str) -> Group | None:
        """Returns the group of a pod."""
        member = self._of.get(uid)
        return self._groups.get(member) if member is not None else None

    def see_pod(self, pod: Pod, *, there: bool) -> None:
        """Records a pod as it is now, or as it was when it was deleted."""
        uid = pod.metadata.uid
        ours = there and pod.spec.scheduler_name == SCHEDULER
        member = membership(pod) if ours else None
        before = self._of.get(uid)
        if before is not None and before != member:
            self._leave(uid, before)
        if member is not None:
            self._of[uid] = member
            group = self._groups.setdefault(member, Group(member))
            group.pods[uid] = pod
            self._sort(group, uid, pod)
            self._changed[member] = None

    def assign(self, uid: str) -> None:
        """Records that a pod belongs to a gang."""
        self._assigned.add(uid)
        if (group := self.of(uid)) is not None:
            group.loose.pop(uid, None)

    def release(self, uid: str) -> None:
        """Records that a pod belongs to no gang."""
        self._assigned.discard(uid)
        if (group := self.of(uid)) is not None:
            self._sort(group, uid, group.pods[uid])

    def see_object(self, resource: Resource, manifest: dict[str, Any], *, there: bool) -> None:
        """Records an object that describes a group, as it is now or as it was when it was deleted."""
        about = manifest["metadata"]
        key = (resource.full_name, about["namespace"], about["name"])
        if there:
            self._objects[key] = manifest
        else:
            self._objects.pop(key, None)
        for dialect in (each for each, found in RESOURCES.items() if found == resource):
            for part in ("", about["uid"]):
                self.touch(GangKey(about["namespace"], about["name"], dialect, part))
        if RESOURCES[Dialect.JOB_SET] == resource:  # its groups are distinguished by its restarts
            self.touch_all(m for m in self._groups if m[:3] == (*key[1:], Dialect.JOB_SET))

    def object_of(self, member: GangKey) -> dict[str, Any] | None:
        """Returns the object that describes a group, if it exists."""
        resource = RESOURCES.get(member.dialect)
        if resource is None:
            return None
        found = self._objects.get((resource.full_name, member.namespace, member.name))
        if member.dialect is Dialect.JOB and found is not None and found["metadata"]["uid"] != member.part:
            return None
        return found

    def touch(self, member: GangKey) -> None:
        """Marks a group as changed, if it exists."""
        if member in self._groups:
            self._changed[member] = None

    def touch_all(self, members: Iterable[GangKey]) -> None:
        """Marks these groups as changed."""
        for member in list(members):
            self.touch(member)

    def changed(self) -> Sequence[Group]:
        """Returns the changed groups, each once, in the order in which they were marked."""
        changed, self._changed = self._changed, {}
        return [self._groups[member] for member in changed if member in self._groups]

    def _sort(self, group: Group, uid: str, pod: Pod) -> None:
        if waits(pod) and uid not in self._assigned:
            group.loose[uid] = pod
        else:
            group.loose.pop(uid, None)

    def _leave(self, uid: str, member: GangKey) -> None:
        del self._of[uid]
        group = self._groups[member]
        del group.pods[uid]
        group.loose.pop(uid, None)
        if group.pods:
            self._changed[member] = None
        else:
            del self._groups[member]
