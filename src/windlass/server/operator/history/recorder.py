"""Recorder of history: transitions, ended jobs, their pods, and the last lines of the pods' logs.

A pod's log is deleted with the pod. The recorder therefore reads it as soon as a commit shows that the pod has ended or
that its gang is being stopped. It reads beside the controller, which never waits for a log.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from windlass.backends.errors import BackendError
from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.pod_log import LogStart, read_log_end, read_log_start
from windlass.backends.port import Changes
from windlass.controller.observer import Observer
from windlass.core.lifecycle.failure import needs_diagnosis
from windlass.core.model.status import TERMINAL, JobState, Phase, Status
from windlass.server.operator.history.entries import HistoryEntry, LogEntry, MemberEntry, TransitionEntry
from windlass.server.operator.history.writer import HistoryWriter
from windlass.server.operator.members import list_members
from windlass.server.operator.pod_tasks import PodTask, choose_container

_LONGEST_WAIT_S = 30.0
"""Seconds for which a diagnosis waits for the logs of a job."""
_CONCURRENT_READS = 32
"""Logs read at once: kubelets delete the logs of a failed gang within a second or two."""
_MAX_PENDING_READS = 10_000
"""Logs read or waiting to be read at once; further logs are not read."""
_MAX_LOG_BYTES, _MAX_GANG_BYTES = 64 << 10, 4 << 20
"""Maximum bytes of one log, and of all logs of a gang."""
_MIN_LOG_BYTES = 2 << 10
_LOG_LINES = 500
_MAX_START_BYTES, _MIN_START_BYTES, _MAX_GANG_START_BYTES = 1 << 20, 16 << 10, 8 << 20
"""Maximum bytes of the start of one log, its minimum in a large gang, and about those of all logs of a gang."""
_MAX_KEPT_START_BYTES = 32 << 20
"""Bytes of the starts of logs that are kept for diagnoses, of all jobs together."""
_LOG_TIMEOUT_S = 10.0
"""A kubelet that does not answer within this time may be gone."""
_RETRY_PAUSES_S = (0.5, 2.0, 5.0)
"""Seconds between requests for a log that were answered with an error."""


@dataclass(frozen=True, slots=True)
class RecordedGang:
    """The job as it is being committed, and the pods of its gang to record."""

    state: JobState
    pods: list[tuple[PodTask, Pod]]


class HistoryRecorder(Observer):
    """Observer that looks at the pods before a commit, while they are still known, and records them after it.

    `keeps_starts`: the starts of long logs of failed pods are read for a diagnosis.
    """

    def __init__(self, backend: KubernetesBackend, history: HistoryWriter, *, keeps_starts: bool = False) -> None:
        self._backend, self._history, self._keeps_starts = backend, history, keeps_starts
        self._gangs: list[RecordedGang] = []
        """Gangs of the commit that is under way."""
        self._read: dict[str, set[tuple[str, bool]]] = {}
        """By job: uid of each pod whose log was read, and whether the pod had ended."""
        self._room = asyncio.Semaphore(_CONCURRENT_READS)
        self._starts: dict[str, dict[tuple[int, int], LogStart]] = {}
        """By job: starts of the logs of failed pods whose recorded lines are not all, by generation and rank."""
        self._reading: set[asyncio.Task[None]] = set()
        self._reads_of: dict[str, set[asyncio.Task[None]]] = {}

    @property
    def pending_reads(self) -> int:
        """Number of logs that are being read or wait for it."""
        return len(self._reading)

    def record_recovery(self, states: Sequence[JobState]) -> None:
        """Records jobs that ended under an earlier leader and whose objects still exist. `states`: recovered jobs."""
        self._history.set_living(states)
        ended = (gang.state for gang in self._backend.jobs if gang.stored is not None)
        self._history.note(HistoryEntry(ended=tuple(state for state in ended if state.status.phase in TERMINAL)))

    def on_commit_start(self, changes: Changes) -> None:
        """Collects the pods of the jobs that are about to change."""
        self._gangs = [RecordedGang(state, self._pods_to_record(state)) for state in changes.states]

    def on_commit_end(self, changes: Changes) -> None:
        """Records the committed changes and starts to read logs; jobs whose state was not written are left out."""
        created = {state.id: state.status.created_at for state in changes.states}
        self._gangs = [gang for gang in self._gangs if gang.state.id in created]
        transitions = (TransitionEntry(created[t.job_id], t) for t in changes.transitions if t.job_id in created)
        ended = tuple(state for state in changes.states if state.status.phase in TERMINAL)
        pods = (MemberEntry(created[gang.state.id], task) for gang in self._gangs for task, _ in gang.pods)
        entry = HistoryEntry(tuple(transitions), ended, tuple(pods))
        if entry != HistoryEntry():
            self._history.note(entry)
        for gang in self._gangs:
            if gang.pods:
                self._read_logs(gang)
        for state in ended:
            self._read.pop(state.id, None)

    async def wait_for_logs(self, job_id: str) -> None:
        """Waits for the logs of a job that are being read, for a bounded time."""
        if reads := self._reads_of.get(job_id):
            await asyncio.wait(set(reads), timeout=_LONGEST_WAIT_S)

    def take_log_starts(self, job_id: str, generation: int) -> Mapping[int, LogStart]:
        """Returns by rank the starts of logs of which the history has the end alone, and forgets those of the job."""
        found = self._starts.pop(job_id, {})
        return {rank: start for (attempt, rank), start in found.items() if attempt == generation}

    async def close(self) -> None:
        """Cancels all reads."""
        for task in self._reading:
            task.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)

    def _pods_to_record(self, state: JobState) -> list[tuple[PodTask, Pod]]:
        """Pods that have ended; all pods of a gang that is being stopped or of a job that has ended.

        None when the commit adds the verdict to an ended job: its pods were recorded with its end.
        """
        status = state.status
        if not status.generation or _adds_verdict(status):
            return []
        stopping = status.target is not None or status.phase in TERMINAL
        return list_members(self._backend, state, ended=not stopping)

    def _read_logs(self, gang: RecordedGang) -> None:
        done = self._read.setdefault(gang.state.id, set())
        max_bytes = _max_log_bytes(len(gang.pods))
        for task, pod in gang.pods:
            mark = (pod.metadata.uid, task.ended)
            if mark not in done and len(self._reading) < _MAX_PENDING_READS:
                done.add(mark)
                work = asyncio.get_running_loop().create_task(self._record_log(gang.state, task, pod, max_bytes))
                self._reading.add(work)
                self._reads_of.setdefault(gang.state.id, set()).add(work)
                work.add_done_callback(partial(self._end_read, gang.state.id))

    def _end_read(self, job_id: str, work: asyncio.Task[None]) -> None:
        self._reading.discard(work)
        reads = self._reads_of[job_id]
        reads.discard(work)
        if not reads:
            del self._reads_of[job_id]

    async def _record_log(self, state: JobState, task: PodTask, pod: Pod, max_bytes: int) -> None:
        async with self._room:
            text, missing = await _read_last_lines(self._backend, pod, max_bytes)
            is_cut = not missing and not _is_whole(text, max_bytes)
            if is_cut and self._keeps_starts and _is_to_be_diagnosed(state.status):
                await self._keep_start(state.id, task, pod, _max_start_bytes(state.job.members))
        lines = LogEntry(state.status.created_at, state.id, task.generation, task.rank, text, missing)
        self._history.note(HistoryEntry(lines=(lines,)))

    async def _keep_start(self, job_id: str, task: PodTask, pod: Pod, max_bytes: int) -> None:
        """Reads the start of a log for the diagnosis, once; the first error may be far before the last lines."""
        place = task.generation, task.rank
        if place in self._starts.get(job_id, ()):
            return
        about, options = pod.metadata, {"container": choose_container(pod)}
        with contextlib.suppress(ApiError, BackendError):  # the verdict says that lines are missing
            start = await read_log_start(
                self._backend.connection, about.namespace, about.name, options, max_bytes, _LOG_TIMEOUT_S
            )
            self._starts.setdefault(job_id, {})[place] = start
        while sum(len(start.text) for each in self._starts.values() for start in each.values()) > _MAX_KEPT_START_BYTES:
            del self._starts[next(iter(self._starts))]


def is_whole_log(text: str, logs: int) -> bool:
    """Tells whether a recorded log has all lines of its pod. `logs`: number of recorded logs of the gang."""
    return _is_whole(text, _max_log_bytes(logs))


def _is_whole(text: str, max_bytes: int) -> bool:
    return text.count("\n") < _LOG_LINES and len(text.encode()) < max_bytes


def _is_to_be_diagnosed(status: Status) -> bool:
    return needs_diagnosis(status) or (status.last_failure is not None and status.phase is not Phase.SUCCEEDED)


def _max_start_bytes(pods: int) -> int:
    return max(_MIN_START_BYTES, min(_MAX_START_BYTES, _MAX_GANG_START_BYTES // max(1, pods)))


def _max_log_bytes(pods: int) -> int:
    return max(_MIN_LOG_BYTES, min(_MAX_LOG_BYTES, _MAX_GANG_BYTES // max(1, pods)))


def _adds_verdict(status: Status) -> bool:
    """Whether an ended job has the verdict on its last attempt."""
    return (
        status.phase in TERMINAL and status.diagnosis is not None and status.diagnosis.generation == status.generation
    )


async def _read_last_lines(backend: KubernetesBackend, pod: Pod, max_bytes: int) -> tuple[str, str]:
    """The last lines of a pod's log from the API server, and the reason why there are none, empty if there are.

    An answer with an error is asked again while the pod exists: a kubelet that has just started does not know its pods.
    """
    about = pod.metadata
    options = {"container": choose_container(pod), "tailLines": str(_LOG_LINES)}
    missing = ""
    for pause in (*_RETRY_PAUSES_S, 0.0):
        try:
            body = await read_log_end(
                backend.connection, about.namespace, about.name, options, max_bytes, _LOG_TIMEOUT_S
            )
        except ApiError as error:
            known = backend.pods.get(about.namespace, about.name)
            if error.is_missing and (known is None or known.metadata.uid != about.uid):
                return "", "the pod was gone before its log could be read"
            missing = f"its log could not be read: {error}"
        except BackendError as error:
            return "", f"its log could not be read: {error}"
        else:
            return body.decode("utf-8", "replace"), ""
        await asyncio.sleep(pause)
    return "", missing
