"""Commits the controller's states into the objects of jobs, and does what follows from a state that is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.cluster.cluster_monitor import ClusterMonitor
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.jobs.changed_gangs import ChangedGangs
from windlass.backends.kubernetes.jobs.gang_controller import GangController
from windlass.backends.kubernetes.jobs.job_store import JobStore
from windlass.backends.kubernetes.pods.standby_pods import StandbyPods
from windlass.backends.kubernetes.status import state_writes
from windlass.backends.kubernetes.status.events import RECOVERED, EventRecorder, News
from windlass.backends.port import Transition
from windlass.core.model.status import TERMINAL, JobState, Phase


class JobCommits:
    """`recount`: counts a pod anew that the controller has let go of."""

    def __init__(
        self,
        connection: Connection,
        store: JobStore,
        gangs: GangController,
        changed: ChangedGangs,
        standby: StandbyPods,
        monitor: ClusterMonitor,
        recount: Callable[[Pod], None],
        on_trouble: Callable[[str], None],
    ) -> None:
        self._connection, self._store, self._gangs, self._changed = connection, store, gangs, changed
        self._standby, self._monitor, self._recount, self._on_trouble = standby, monitor, recount, on_trouble

    async def write(self, gang: Gang, state: JobState) -> None:
        """Write a state and the rest of the status. Raises DeposedError, ApiError, Unreachable."""
        phase = state.status.phase
        if phase in (Phase.QUEUED, Phase.SUSPENDED):
            gang.notes.judged = {}  # of pods that do not belong to the next run
        await state_writes.write(self._connection, gang, state, self._gangs.status_of(gang, state.status))
        self.require(gang)
        self._store.catch_up(gang)
        if gang.run is not None and gang.run.gone and state.status.gone and phase not in TERMINAL:
            gang.run = None
        if phase in (*TERMINAL, Phase.SUSPENDED):
            self._standby.discard(gang)
        if phase in TERMINAL:
            for pod in self._gangs.clean_up(gang):
                self._recount(pod)
            if gang.version.gone:
                self._store.close(gang)
        self._changed.mark(gang)

    async def remove(self, job_id: str) -> None:
        """Delete the object of a job whose time to live is over, and its dependents. Raises ApiError, Unreachable."""
        gang = self._store.get(job_id)
        if gang is None or gang.status.phase not in TERMINAL:  # another job of that name by now
            return
        if await state_writes.remove(self._connection, gang, self._on_trouble):
            self._store.close(gang)

    def require(self, gang: Gang) -> None:
        """Have nodes show the single resources that a gang requests, until it has ended."""
        wants = gang.stored is not None and gang.status.phase not in TERMINAL
        self._monitor.require(gang.id, gang.fit.singles if wants else frozenset())

    def record(self, transitions: Iterable[Transition], events: EventRecorder) -> None:
        """Record an Event for the last transition of each job."""
        for last in {each.job_id: each for each in transitions}.values():
            if (gang := self._store.get(last.job_id)) is not None:
                reason = last.event if last.event == RECOVERED else last.after
                events.tell(News(gang.home, reason, last.event, last.message or reason, last.at))
