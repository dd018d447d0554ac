"""Recovers the external gangs that an earlier controller has bound, or was binding, as jobs of the new controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.cluster.job_resolution import NamespaceLookups, requests_of
from windlass.backends.kubernetes.external.cluster_fit import fitted_job
from windlass.backends.kubernetes.external.dialects import job_id
from windlass.backends.kubernetes.external.external_gang import Allocation, ExternalGang, has_begun, placement_of
from windlass.backends.kubernetes.external.groups import Group, Groups
from windlass.backends.kubernetes.external.takeover import BoundGang, find_bound_gangs
from windlass.core.model.job import Job
from windlass.core.model.status import Phase, Status
from windlass.jobs.kubernetes.external.gang_assembly import gang_of
from windlass.jobs.kubernetes.external.pod_demands import GroupDemands, demands_of_group
from windlass.jobs.kubernetes.gang_dialects import Dialect
from windlass.jobs.kubernetes.manifest_reader import ManifestError
from windlass.jobs.kubernetes.status.status_times import milliseconds


class GangRecovery:
    """External gangs of an earlier controller, read from the pods of their groups.

    `usable` tells whether a pod may still be bound to a node; `key` is the one by which decisions are signed.
    `to_unwind` holds, once `placed` is exhausted for every group, the bound pods of gangs that can no longer become
    whole and are created again.
    """

    def __init__(
        self,
        groups: Groups,
        around: Callable[[str], NamespaceLookups],
        usable: Callable[[str], bool],
        key: bytes,
        now: int,
    ) -> None:
        self._groups, self._around, self._usable, self._key, self._now = groups, around, usable, key, now
        self.to_unwind: list[Pod] = []
        self._taken: set[str] = set()
        """Ids of the gangs so far."""

    def placed(self, group: Group) -> Iterator[ExternalGang]:
        """Yields gangs of a group that run, or of which some pods are bound and all others can be.

        Where the others cannot, bound pods that nothing would create again are a gang, and the others wait for nodes.
        """
        for each in find_bound_gangs(group.pods, self._usable, self._key):
            if not each.possible and each.is_created_again:
                group.unwinding.update(pod.metadata.uid for pod in each.bound)
                self.to_unwind += each.bound
                continue
            gang = self._gang(group, each if each.possible else each.without_unbound(), self._taken)
            self._taken.add(gang.id)
            yield gang

    def queued(self, gang: ExternalGang) -> Status:
        """Returns the status of a gang that waits: it keeps its age."""
        since = self._since(gang.pods)
        return Status(Phase.QUEUED, "Queued", created_at=since, queued_at=since)

    def _gang(self, group: Group, found: BoundGang, taken: set[str]) -> ExternalGang:
        member, pods = group.member, tuple(found.pods.values())
        gathered = gang_of(member.name, pods, self._needs(group), requests_of, lambda _pod: ())
        name = found.name
        if not name or job_id(member, name) in taken:
            alone = member.dialect is Dialect.ALONE
            name = member.name if alone else f"{member.name}/{gathered.pods[0].metadata.name}"
        job = fitted_job(gathered, self._around(member.namespace))
        gang = ExternalGang(job_id(member, name), name, 0, member, job, list(gathered.pods))
        nodes = [found.nodes[pod.metadata.uid] for pod in gang.pods]
        begun = found.whole and all(map(has_begun, gang.pods))
        bound = {number for number, pod in enumerate(gang.pods) if pod.spec.node_name}
        gang.allocation = Allocation(1, nodes, bound, whole=found.whole, started=begun)
        gang.status = self._status(gang.job, gang.pods, nodes, begun=begun)
        return gang

    def _needs(self, group: Group) -> GroupDemands:
        """Returns what the group's object requests at present; a gang runs on without its object."""
        try:
            needed = demands_of_group(group.member, self._groups.object_of(group.member), list(group.pods.values()))
        except ManifestError:
            return GroupDemands(1)
        return GroupDemands(1) if isinstance(needed, str) else needed

    def _status(self, job: Job, pods: Sequence[Pod], nodes: Sequence[str], *, begun: bool) -> Status:
        since = self._since(pods)
        return Status(
            Phase.RUNNING if begun else Phase.ADMITTED,
            "Running" if begun else "Admitted",
            generation=1,
            created_at=since,
            queued_at=since,
            admitted_at=since,
            started_at=since if begun else None,
            running_since=since if begun else None,
            placement=placement_of(job, nodes),
            is_gone=False,
        )

    def _since(self, pods: Sequence[Pod]) -> int:
        """Returns when the first of these pods was created, in ms, at most now: the clocks of controllers differ."""
        made = [milliseconds(pod.metadata.creation_timestamp) or self._now for pod in pods]
        return min(*made, self._now)
