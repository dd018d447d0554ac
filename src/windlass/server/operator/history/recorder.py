"""What of a turn goes into history: transitions, jobs that ended, their pods, and the last lines of the pods' logs.

A pod's log goes with the pod: it is read as soon as a commit tells that the pod has ended, or that its gang is being
stopped; never by the controller itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.port import Changes, Recovery
from windlass.core.model.status import TERMINAL, JobState
from windlass.server.operator.history.entries import HistoryEntry, LogEntry, MemberEntry, TransitionEntry
from windlass.server.operator.history.store import JobHistory
from windlass.server.operator.members import list_members
from windlass.server.operator.pod_logs import last_lines
from windlass.server.operator.pod_tasks import PodTask

_AT_ONCE = 8
"""Logs that are read at a time."""
_WAITING = 10_000
"""Logs that wait to be read; beyond that they are not."""
_EACH, _GANG = 64 << 10, 4 << 20
"""Bytes of a log, and of all the logs of a gang."""
_LEAST = 2 << 10


@dataclass(slots=True)
class GangPods:
    """The pods of a gang of which something is to be told, and the job as it is being committed."""

    state: JobState
    pods: list[tuple[PodTask, Pod]] = field(default_factory=list)


class HistoryRecorder:
    """`look` before a commit, while everything is still known; `note` after it."""

    def __init__(self, world: KubernetesBackend, history: JobHistory) -> None:
        self._world, self._history = world, history
        self._read: dict[str, set[tuple[str, bool]]] = {}
        """By job: the uids of pods whose log was read, and whether they had ended."""
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._reading: set[asyncio.Task[None]] = set()

    def begin(self, recovery: Recovery) -> None:
        """A controller takes over: what ended and is still there belongs to history, too."""
        self._history.living(recovery.states)
        ended = (gang.state for gang in self._world.jobs if gang.stored is not None)
        self._history.note(HistoryEntry(ended=tuple(state for state in ended if state.status.phase in TERMINAL)))

    def look(self, changes: Changes) -> list[GangPods]:
        """What there is to be seen of the jobs that are about to change."""
        return [GangPods(state, self._pods(state)) for state in changes.states]

    def note(self, changes: Changes, looks: Iterable[GangPods]) -> None:
        """It was committed."""
        created = {state.id: state.status.created_at for state in changes.states}
        told = (TransitionEntry(created[each.job_id], each) for each in changes.transitions if each.job_id in created)
        ended = tuple(state for state in changes.states if state.status.phase in TERMINAL)
        looks = list(looks)
        pods = (MemberEntry(created[look.state.id], task) for look in looks for task, _ in look.pods)
        entry = HistoryEntry(tuple(told), ended, tuple(pods))
        if entry != HistoryEntry():
            self._history.note(entry)
        for look in looks:
            if look.pods:
                self._read_logs(look)
        for state in ended:
            self._read.pop(state.id, None)

    @property
    def reading(self) -> int:
        """Logs that are being read, or wait for it."""
        return len(self._reading)

    async def close(self) -> None:
        """Read no more."""
        for task in self._reading:
            task.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)

    def _pods(self, state: JobState) -> list[tuple[PodTask, Pod]]:
        """Those that have ended, or are to; all of them if the job has ended."""
        if not state.status.generation:
            return []
        going = state.status.target is not None or state.status.phase in TERMINAL
        return list_members(self._world, state, ended=not going)

    def _read_logs(self, look: GangPods) -> None:
        done = self._read.setdefault(look.state.id, set())
        most = max(_LEAST, min(_EACH, _GANG // max(1, len(look.pods))))
        for task, pod in look.pods:
            mark = (pod.metadata.uid, task.ended)
            if mark not in done and len(self._reading) < _WAITING:
                done.add(mark)
                work = asyncio.get_running_loop().create_task(self._keep(look.state, task, pod, most))
                self._reading.add(work)
                work.add_done_callback(self._reading.discard)

    async def _keep(self, state: JobState, task: PodTask, pod: Pod, most: int) -> None:
        async with self._room:
            text, missing = await last_lines(self._world.connection, pod, most)
        lines = LogEntry(state.status.created_at, state.id, task.generation, task.rank, text, missing)
        self._history.note(HistoryEntry(lines=(lines,)))
