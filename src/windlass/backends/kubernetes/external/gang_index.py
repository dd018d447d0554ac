"""Index of the external gangs that the controller holds: by id, by pod, and by group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.cluster.pods import Holding, pod_usage
from windlass.backends.kubernetes.external.external_gang import ExternalGang
from windlass.backends.kubernetes.external.groups import Groups
from windlass.jobs.kubernetes.external.membership import GangKey


class GangIndex:
    """External gangs by id, by uid of a pod, and by group.

    Each assignment of a pod to a gang is passed on to `groups`.
    """

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._gangs: dict[str, ExternalGang] = {}
        self._by_uid: dict[str, ExternalGang] = {}
        self._by_group: dict[GangKey, dict[str, ExternalGang]] = {}

    def __iter__(self) -> Iterator[ExternalGang]:
        return iter(self._gangs.values())

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._gangs

    def get(self, job_id: str) -> ExternalGang | None:
        """Returns the gang of this id."""
        return self._gangs.get(job_id)

    def of_pod(self, uid: str) -> ExternalGang | None:
        """Returns the gang of a pod."""
        return self._by_uid.get(uid)

    def of_group(self, group: GangKey) -> Sequence[ExternalGang]:
        """Returns the gangs of a group."""
        return list(self._by_group.get(group, {}).values())

    def add(self, gang: ExternalGang) -> None:
        """Adds a gang with its pods."""
        self._gangs[gang.id] = gang
        self._by_group.setdefault(gang.member, {})[gang.id] = gang
        for pod in gang.pods:
            self.assign(gang, pod)

    def assign(self, gang: ExternalGang, pod: Pod) -> None:
        """Assigns a pod to a gang."""
        self._by_uid[pod.metadata.uid] = gang
        self._groups.assign(pod.metadata.uid)

    def release(self, uid: str) -> None:
        """Ends the assignment of a pod to its gang."""
        if self._by_uid.pop(uid, None) is not None:
            self._groups.release(uid)

    def remove(self, gang: ExternalGang) -> None:
        """Removes a gang."""
        del self._gangs[gang.id]
        gangs = self._by_group[gang.member]
        del gangs[gang.id]
        if not gangs:
            del self._by_group[gang.member]
        for pod in gang.pods:
            if self._by_uid.get(pod.metadata.uid) is gang:
                self.release(pod.metadata.uid)

    def held_of(self, pod: Pod) -> Holding | None:
        """Returns what the controller holds for a pod on its node: its requests as it was gathered. None: nothing."""
        gang = self._by_uid.get(pod.metadata.uid)
        allocation = gang.allocation if gang is not None else None
        if gang is None or allocation is None or not allocation.is_held:
            return None
        number = gang.number_of(pod.metadata.uid)
        is_elsewhere = pod.spec.node_name not in ("", allocation.nodes[number])
        return None if is_elsewhere else Holding(pod_usage(gang.pods[number]), gang.job.queue, gang.job.user)
