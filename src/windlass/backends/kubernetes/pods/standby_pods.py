"""Creates the pods of a gang while it waits for nodes, so that users and autoscalers see what is missing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from functools import partial

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.background_tasks import BackgroundTasks
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.persistent_request import request_until_answered
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.pod_template_hash import is_current
from windlass.backends.kubernetes.pods.pod_binding import NotWantedError
from windlass.backends.kubernetes.pods.pod_executor import PodExecutor
from windlass.backends.kubernetes.pods.pod_store import PodStore
from windlass.core.model.status import Phase
from windlass.jobs.kubernetes.parsed_job import Member

_RETRY_S = 30.0
"""Seconds before the creation of pods that the API server has refused is repeated."""


class StandbyPods:
    """Pods without a node. They are bound when the gang starts, and discarded when it is changed or suspended.

    `mark` is called with each gang whose pods were created, or could not be.
    """

    def __init__(
        self,
        pods: PodStore,
        executor: PodExecutor,
        mark: Callable[[Gang], None],
        on_trouble: Callable[[str], None],
    ) -> None:
        self._pods, self._executor, self._mark = pods, executor, mark
        self._binding, self._deletion, self._dependents = executor.binding, executor.deletion, executor.dependents
        self._tasks = BackgroundTasks(on_trouble)

    def prepare(self, gang: Gang) -> None:
        """Creates the pods of a queued gang that are missing. The size of an elastic gang is not known yet.

        Another scheduler that places the gang would bind them before it is admitted.
        """
        status, standby = gang.status, gang.standby
        waits = gang.stored is not None and status.phase is Phase.QUEUED and not status.waits_for
        waits &= not gang.job.placed_by
        if not waits or gang.job.hold or gang.elastic or standby.creating == standby.discards:
            return
        generation = status.generation + 1
        members = gang.members(generation, gang.sizes)
        there = [self._pods.get(gang.reference.namespace, name) for name in members]
        if standby.generation != generation or None in there:
            standby.generation, standby.creating = generation, standby.discards
            self.delete_strays(gang, members)
            self._tasks.start(self._create(gang, generation, standby.discards))

    def discard(self, gang: Gang) -> None:
        """Deletes the pods of a gang that are on no node."""
        gang.standby.generation = 0
        gang.standby.discards += 1
        self._deletion.delete((pod for pod in self._pods.owned(gang.reference.owner_key) if not pod.spec.node_name), 0)

    def delete_strays(self, gang: Gang, members: Collection[str]) -> None:
        """Deletes the pods of a gang that are on no node and have another name: its spec has fewer pods by now."""
        owned = self._pods.owned(gang.reference.owner_key)
        self._deletion.delete((pod for pod in owned if not pod.spec.node_name and pod.metadata.name not in members), 0)

    async def close(self) -> None:
        """Stops all work in the background; the pods stay as they are."""
        await self._tasks.close()

    async def _create(self, gang: Gang, generation: int, discards: int) -> None:
        troubles = await self._create_pods(gang, generation, discards)
        before = gang.notes.creation_error
        gang.notes.creation_error = f"its pods cannot be created: {troubles[0]}" if troubles else ""
        gang.notes.needs_write |= before != gang.notes.creation_error
        self._mark(gang)
        if troubles:
            await asyncio.sleep(_RETRY_S)
        if gang.standby.creating == discards:
            gang.standby.creating = None
            gang.standby.generation = 0 if troubles else gang.standby.generation  # the next look retries
            self._mark(gang)

    async def _create_pods(self, gang: Gang, generation: int, discards: int) -> Sequence[BaseException]:
        """Creates the objects that pods refer to, then the pods. Returns the errors."""
        wanted = self._executor.upkeep.wanted(gang, generation, gang.sizes, lambda: gang.standby.discards == discards)
        try:
            await request_until_answered(partial(self._dependents.make_required, gang, wanted))
        except ApiError as error:
            return [error]
        members = self._executor.members(gang, generation, gang.sizes)
        made = [
            request_until_answered(partial(self._create_pod, gang, member, generation, discards))
            for member in members.values()
        ]
        return [each for each in await asyncio.gather(*made, return_exceptions=True) if isinstance(each, Exception)]

    async def _create_pod(self, gang: Gang, member: Member, generation: int, discards: int) -> None:
        """Creates one standby pod; deletes it again if standby pods were discarded in the meantime.

        It is kept if the gang, as it is now, has the same pod.
        """
        try:
            pod = await self._binding.make(member, generation, wanted=lambda: gang.standby.discards == discards)
        except NotWantedError:
            return
        if gang.standby.discards != discards and not self._is_wanted(gang, pod, generation):
            self._deletion.delete([pod], 0)

    def _is_wanted(self, gang: Gang, pod: Pod, generation: int) -> bool:
        """Tells whether the run of a gang, or a later creation of standby pods, takes this pod."""
        launched = gang.run is not None and gang.run.generation == generation
        if not launched and gang.standby.creating != gang.standby.discards:
            return False
        sizes = gang.run.sizes if launched and gang.run is not None else gang.sizes
        member = gang.members(generation, sizes).get(pod.metadata.name)
        return member is not None and is_current(pod, member)
