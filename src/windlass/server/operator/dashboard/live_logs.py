"""The newest lines of running pods, read through the API server for all open pages together."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.pod_log import read_log_end
from windlass.backends.port import BackendError
from windlass.core.model.status import JobState
from windlass.server.operator.members import list_members
from windlass.server.operator.pod_tasks import PodTask, choose_container
from windlass.server.operator.queries.expiring_cache import ExpiringCache

_LINES, _MAX_BYTES = 500, 128 << 10
"""Last lines that are read of one pod, and their bytes."""
_MAX_TEXT = 4_000
"""Characters of a line that are sent."""
_LIFE_S = 2.0
"""Seconds for which lines are used again."""
_TIMEOUT_S = 5.0
_CONCURRENT = 4
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
    _turns: asyncio.Semaphore = field(default_factory=partial(asyncio.Semaphore, _CONCURRENT))

    def members(self, state: JobState) -> list[tuple[PodTask, Pod]]:
        """Pods of the job that exist and have started a container."""
        return [each for each in list_members(self.backend, state) if each[1].status.container_statuses]

    async def lines(self, pod: Pod) -> Sequence[TimedLine]:
        """The last lines of a pod; none if they cannot be read, for example because the pod has not started."""
        uid = pod.metadata.uid
        if uid not in self._kept:
            async with self._turns:
                if uid not in self._kept:  # another page has waited for its turn with the same pod
                    self._kept[uid] = parse_lines(await self._read(pod))
        return self._kept[uid]

    async def _read(self, pod: Pod) -> bytes:
        about = pod.metadata
        options = {"container": choose_container(pod), "tailLines": str(_LINES), "timestamps": "true"}
        try:
            return await read_log_end(
                self.backend.connection, about.namespace, about.name, options, _MAX_BYTES, _TIMEOUT_S
            )
        except BackendError:
            return b""


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
