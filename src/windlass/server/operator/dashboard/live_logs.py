"""The newest lines of running pods, read through the API server for all open pages together."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.pod_log import read_log_end
from windlass.backends.port import BackendError
from windlass.core.model.status import JobState
from windlass.server.errors import ApiError
from windlass.server.operator.members import list_members
from windlass.server.operator.pod_tasks import PodTask, choose_container
from windlass.server.operator.queries.expiring_cache import ExpiringCache
from windlass.server.operator.queries.fair_turns import FairTurns

_LINES, _MAX_BYTES = 500, 128 << 10
"""Last lines that are read of one pod, and their bytes."""
_MAX_TEXT = 4_000
"""Characters of a line that are sent."""
_LIFE_S = 2.0
"""Seconds for which lines are used again."""
_TIMEOUT_S = 5.0
"""Seconds for one log, and for the wait for its turn: the kubelet of a dead node does not answer."""
_ANSWER_S = 2.0
"""Seconds after which an answer leaves out logs that are still being read."""
_CONCURRENT, _CONCURRENT_EACH = 32, 16
"""Maximum number of logs that are read at once: for all readers, and for one."""
_MAX_KEPT = 64
_TIME = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z (.*)")
"""The start of a line that the kubelet has put there, and the line itself."""


@dataclass(frozen=True, slots=True)
class TimedLine:
    """A line, and the time (µs) at which its pod has printed it."""

    at: int
    text: str


@dataclass(frozen=True, slots=True)
class LiveLogs:
    """Logs of pods that exist, kept for a short time: pages ask twice a second."""

    backend: KubernetesBackend
    _kept: ExpiringCache[str, Sequence[TimedLine]] = field(default_factory=lambda: ExpiringCache(_MAX_KEPT, _LIFE_S))
    _waiting: ExpiringCache[tuple[str, str], Sequence[TimedLine]] = field(default_factory=lambda: ExpiringCache(1, 0.0))
    """Readers of a log, by its uid and their limit, each with a turn of its own; nothing is kept."""
    _turns: FairTurns = field(default_factory=partial(FairTurns, _CONCURRENT, _CONCURRENT_EACH))

    def members(self, state: JobState) -> list[tuple[PodTask, Pod]]:
        """Pods of the job that exist and have started a container."""
        return [each for each in list_members(self.backend, state) if each[1].status.container_statuses]

    async def lines(self, pods: Sequence[Pod], reader: str) -> Mapping[str, Sequence[TimedLine]]:
        """The last lines of pods by uid, read side by side. `reader`: key of its limit.

        A log that cannot be read is empty. One that takes too long is left out; reading goes on for the next answer.
        """
        reading = {asyncio.create_task(self._fetch(pod, reader)): pod for pod in pods}
        if not reading:
            return {}
        done, late = await asyncio.wait(reading, timeout=_ANSWER_S)
        for task in late:
            task.cancel()
        return {reading[task].metadata.uid: task.result() for task in done}

    async def _fetch(self, pod: Pod, reader: str) -> Sequence[TimedLine]:
        """The kept lines, those of a reading under way, or those that are read in a turn of this reader."""
        uid = pod.metadata.uid
        if uid in self._kept or self._kept.is_pending(uid):
            return await self._kept.fetch(uid, partial(self._read, pod))
        return await self._waiting.fetch((uid, reader), partial(self._read_in_turn, pod, reader))

    async def _read_in_turn(self, pod: Pod, reader: str) -> Sequence[TimedLine]:
        fetch = partial(self._kept.fetch, pod.metadata.uid, partial(self._read, pod))
        try:
            async with self._turns.take(reader, _TIMEOUT_S):
                if not self._kept.is_pending(pod.metadata.uid):
                    return await fetch()
        except ApiError:
            return ()  # no turn in time
        return await fetch()  # another reader has begun meanwhile, in its own turn

    async def _read(self, pod: Pod) -> Sequence[TimedLine]:
        about = pod.metadata
        options = {"container": choose_container(pod), "tailLines": str(_LINES), "timestamps": "true"}
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                raw = await read_log_end(
                    self.backend.connection, about.namespace, about.name, options, _MAX_BYTES, _TIMEOUT_S
                )
        except (BackendError, TimeoutError):
            return ()
        return parse_lines(raw)


def parse_lines(raw: bytes) -> list[TimedLine]:
    """The lines that begin with a time: the first one may be cut."""
    return [
        TimedLine(at, match[3].decode(errors="replace")[:_MAX_TEXT])
        for line in raw.split(b"\n")
        if (match := _TIME.fullmatch(line)) and (at := _microseconds(match)) is not None
    ]


def _microseconds(match: re.Match[bytes]) -> int | None:
    try:
        second = datetime.fromisoformat(match[1].decode()).replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(second.timestamp()) * 1_000_000 + int((match[2] or b"0").ljust(9, b"0")) // 1_000


def new_lines(lines: Sequence[TimedLine], rank: int, after: int) -> tuple[list[list[Any]], int]:
    """Lines after a time (µs) as pages take them, and the time of the last line."""
    found = [[line.at // 1_000, rank, "out", line.text] for line in lines if line.at > after]
    return found, max(after, lines[-1].at if lines else 0)
