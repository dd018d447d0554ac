"""Executes commands of the controller in the background: creates and binds pods with their dependents, or deletes them.

`run.busy` is set while requests for a run are under way: the run is not reported as gone before they have ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from windlass.backends.kubernetes.client.background_tasks import BackgroundTasks
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.priority_limiter import PriorityLimiter
from windlass.backends.kubernetes.cluster.cluster_monitor import ClusterMonitor
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.run import Run, Slot
from windlass.backends.kubernetes.pods.dependent_objects import DependentObjects
from windlass.backends.kubernetes.pods.dependent_upkeep import DependentUpkeep
from windlass.backends.kubernetes.pods.gang_binder import GangBinder, MemberStep, PlacedGang
from windlass.backends.kubernetes.pods.pod_binding import PodBinding, end_of_refused
from windlass.backends.kubernetes.pods.pod_deletion import PodDeletion
from windlass.backends.kubernetes.pods.pod_store import PodStore
from windlass.backends.kubernetes.pods.volume_binding import choose_volumes
from windlass.core.nodes.node_health import UNREACHABLE_GRACE_MS
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.parsed_job import Member
from windlass.jobs.kubernetes.pods.node_tolerations import with_node_tolerations


class PodExecutor:
    """Background executor of pod operations: creates, binds and deletes the pods and dependent objects of gangs.

    `concern` is called with each gang that was worked on, `on_trouble` with unexpected errors. `hear_job` is called
    with each launcher's Job that was created, before the watch reports it.
    """

    def __init__(
        self,
        connection: Connection,
        pods: PodStore,
        at_once: int,
        monitor: ClusterMonitor,
        concern: Callable[[Gang], None],
        hear_job: Callable[[dict[str, Any]], None],
        on_trouble: Callable[[str], None],
    ) -> None:
        self.binding = PodBinding(connection, PriorityLimiter(at_once), pods, monitor.is_dead)
        self.deletion = PodDeletion(self.binding, on_trouble)
        self.dependents = DependentObjects(
            connection, asyncio.Semaphore(max(1, at_once // 4)), hear_job, monitor.faults.note
        )
        self.upkeep = DependentUpkeep(self.dependents, self.binding, monitor.state.node_grace, concern, on_trouble)
        self.binder = GangBinder(self.binding, monitor.placements)
        """Used for external gangs as well, as is `deletion`. Standby pods use `binding` and `dependents` too."""
        self._node_grace = monitor.state.node_grace
        self._mark = concern
        self._tasks = BackgroundTasks(on_trouble)

    def members(self, gang: Gang, generation: int, sizes: Mapping[str, int]) -> Mapping[str, Member]:
        """Returns the pods to create for a generation: they stay on unreachable nodes for the grace of their gang."""
        members, grace = gang.members(generation, sizes), self._node_grace(gang.job)
        if grace <= UNREACHABLE_GRACE_MS:
            return members
        return {name: replace(each, pod=_tolerant(each.pod, grace)) for name, each in members.items()}

    def launch(self, gang: Gang, run: Run) -> None:
        """Creates the missing pods of a run and binds all of them."""
        run.busy = True
        self._tasks.start(self._launch(gang, run))

    def make_anew(self, gang: Gang, run: Run, names: Collection[str]) -> None:
        """Creates some pods of a run again, on the same nodes; ignored while the run is busy."""
        if names and not run.busy:
            run.busy = True
            self._tasks.start(self._launch(gang, run, names))

    def bind(self, gang: Gang, run: Run, places: Iterable[tuple[Pod, Slot]]) -> None:
        """Binds pods that a launcher's Job has created; repeated calls have no effect."""
        for pod, slot in places:
            if pod.metadata.uid not in run.bound:
                run.bound.add(pod.metadata.uid)
                self._tasks.start(self._bind(gang, run, pod, slot))

    async def close(self) -> None:
        """Stops all work in the background; the cluster stays as it is."""
        await self._tasks.close()
        await self.upkeep.close()
        await self.deletion.close()

    async def _launch(self, gang: Gang, run: Run, names: Collection[str] | None = None) -> None:
        try:
            members, numbers = self.members(gang, run.generation, run.sizes), gang.pod_names(run)
            wanted = members.keys() if names is None else members.keys() & names
            places = [(run.slots[numbers[name]], each) for name, each in members.items() if name in wanted]
            # a pod that restarts alone leaves the list of running pods to `upkeep`, which knows them
            required = replace(self.upkeep.wanted_by(gang, run), updates=names is None)
            make = partial(self.dependents.make_required, gang, required)
            await self.binder.bind(run, [MemberStep(0, "its dependent objects cannot be written", make)])
            if run.failed or self._is_stale(gang, run, [slot for slot, _ in places]):
                return
            await self.binder.bind(run, [self._volume_step(gang, places)])
            nodes = {slot: "" if gang.job.placed_by else slot.node for slot, _ in places}
            await self.binder.bind(run, [self._member_step(run, slot, member, nodes[slot]) for slot, member in places])
            run.launched = not run.failed
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this gang's
            run.failed[0] = end_of_refused("its pods cannot be made", error)
        finally:
            run.busy = False
            self._mark(gang)

    def _is_stale(self, gang: Gang, run: Run, slots: Sequence[Slot]) -> bool:
        """Tells whether the nodes of these members can no longer take them; then the run has failed.

        Nodes that another scheduler chooses are its own concern.
        """
        if gang.job.placed_by:
            return False
        pods = {slot: run.pods.get(slot.number) for slot in slots}
        unbound = {slot.number: slot.node for slot, pod in pods.items() if pod is None or not pod.spec.node_name}
        return self.binder.is_stale(PlacedGang(gang.id, gang.job, run.placement), run, unbound)

    def _volume_step(self, gang: Gang, places: Sequence[tuple[Slot, Member]]) -> MemberStep:
        """Chooses the nodes of the gang's late volumes."""
        claims = tuple(_nodes_of_claims(gang, places))
        choose = partial(choose_volumes, self.binding.connection, gang.reference.namespace, claims)
        return MemberStep(0, "its volumes cannot be written", choose)

    def _member_step(self, run: Run, slot: Slot, member: Member, node: str) -> MemberStep:
        """Creates the pod of a member if it is missing, and binds it. `node`: "" if another scheduler binds it."""

        def is_wanted() -> bool:
            return not (run.failed or run.stopping)

        async def create_and_bind() -> None:
            pod = await self.binding.make(member, run.generation, node, is_wanted)
            if node and is_wanted():
                await self.binding.bind(pod, node)

        return MemberStep(slot.number, f"{member.name} could not be created", create_and_bind)

    async def _bind(self, gang: Gang, run: Run, pod: Pod, slot: Slot) -> None:
        if not self._is_stale(gang, run, [slot]):
            bind = partial(self.binding.bind, pod, slot.node)
            await self.binder.bind(run, [MemberStep(slot.number, f"{pod.metadata.name} could not be bound", bind)])
        self._mark(gang)


def _tolerant(pod: Manifest, grace: int) -> Manifest:
    return {**pod, "spec": with_node_tolerations(pod["spec"], grace)}


def _nodes_of_claims(gang: Gang, places: Sequence[tuple[Slot, Member]]) -> Iterator[tuple[str, str]]:
    """Yields each claim of the gang that waits for a node, with the node of the first member that mounts it."""
    for claim in gang.fit.to_choose:
        node = next((slot.node for slot, member in places if _mounts(member, claim)), None)
        if node is not None:
            yield claim, node


def _mounts(member: Member, claim: str) -> bool:
    volumes = member.pod["spec"].get("volumes") or ()
    return any((volume.get("persistentVolumeClaim") or {}).get("claimName") == claim for volume in volumes)
