"""What the pods of a job print, line by line: past and present generations, as far as the pods are still there."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from windlass.backends.kubernetes.client.api_errors import ApiError, Unreachable
from windlass.backends.kubernetes.client.object_cache import Change
from windlass.backends.kubernetes.client.reflector import reflect
from windlass.backends.kubernetes.client.resources import PODS, path
from windlass.backends.kubernetes.client.retries import pause
from windlass.backends.local.logs import Line, LogFile
from windlass.cli.kubernetes.api_session import ApiSession
from windlass.cli.kubernetes.job_finder import belongs_to_job, pod_selector
from windlass.cli.kubernetes.job_objects import JobObject
from windlass.cli.kubernetes.pod_ranks import PodRank, ranks_of_pods

_SILENCE = 4 * 3600.0
"""Seconds after which a kubelet ends a stream that says nothing."""
_LAST_WORDS = 5.0
"""Seconds that the lines of pods which have ended may still take."""


class PodLogs:
    """`poll` gives the lines that have come, `finish` all that are left once the job has ended."""

    def __init__(
        self,
        reach: ApiSession,
        job: JobObject,
        *,
        ranks: Collection[int] | None = None,
        attempts: Collection[int] | None = None,
        since: int | None = None,
        follow: bool = True,
    ) -> None:
        self.trouble = ""
        """Why the lines of a pod could not be read, the latest one."""
        self._reach, self._job = reach, job
        self._ranks, self._attempts, self._since = ranks, attempts, since
        self._follow = follow
        self._lines: list[Line] = []
        self._nodes: dict[tuple[int, int], str] = {}
        self._pods: dict[str, PodRank] = {}
        self._streams: dict[str, asyncio.Task[None]] = {}
        self._listed = asyncio.Event()
        self._watching = reach.begin(self._watch())

    @property
    def nodes(self) -> dict[tuple[int, int], str]:
        """Where each rank is, by generation and rank."""
        return self._nodes

    def poll(self) -> list[Line]:
        """What has come, in the order of time."""
        lines, self._lines = self._lines, []
        return sorted(lines, key=lambda line: line.at)

    def finish(self) -> list[Line]:
        """Everything that is left. For a job that has ended, or whose lines are not waited for."""
        self._reach.do(self._rest())
        return self.poll()

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(_LAST_WORDS):
                await self._listed.wait()
                await asyncio.gather(*self._streams.values())
        except TimeoutError:
            pass
        for task in (self._watching, *self._streams.values()):
            task.cancel()

    async def _watch(self) -> None:
        def apply(changes: Sequence[Change[dict[str, Any]]]) -> None:
            there = [change.object for change in changes if belongs_to_job(change.object, self._job)]
            for pod in ranks_of_pods(self._job, there):
                self._see(pod)

        await reflect(
            self._reach.connection,
            PODS,
            decode=json.loads,
            apply=apply,
            synced=self._listed.set,
            namespace=self._job.namespace,
            selector=pod_selector(self._job),
        )

    def _see(self, pod: PodRank) -> None:
        self._pods[pod.uid] = pod
        self._nodes[pod.generation, pod.rank] = pod.node
        wanted = (self._ranks is None or pod.rank in self._ranks) and (
            self._attempts is None or pod.generation in self._attempts
        )
        if wanted and pod.began and pod.uid not in self._streams:
            self._streams[pod.uid] = self._reach.begin(self._read(pod))

    async def _read(self, pod: PodRank) -> None:
        """One pod's lines to their end; again from the last one on when the stream breaks."""
        file = LogFile(self._job.id, pod.generation, pod.rank, "out", Path(pod.name))
        last = ""
        for attempt in itertools.count():
            over = self._pods[pod.uid].code is not None or not self._follow
            try:
                last = await self._stream(pod, file, last)
                if over or self._pods[pod.uid].code is not None:
                    return
            except (ApiError, Unreachable) as error:
                self.trouble = f"{pod.name}: {error}"
                if isinstance(error, ApiError) and error.is_missing:
                    return
            await asyncio.sleep(pause(attempt, None, 0.5))

    async def _stream(self, pod: PodRank, file: LogFile, told: str) -> str:
        """The lines after those `told`, by the time of the last one. Returns that of the last one now."""
        params = {"container": pod.container, "timestamps": "true"}
        if self._follow:
            params["follow"] = "true"
        if told or self._since:
            params["sinceTime"] = told or _written(self._since or 0)
        last, rest = told, b""
        where = path(PODS, pod.namespace, pod.name, "log")
        async with self._reach.connection.stream(where, params, _SILENCE) as pieces:
            async for piece in pieces:
                *whole, rest = (rest + piece).split(b"\n")
                for line in whole:
                    last = self._take(file, line, told)
        return self._take(file, rest, told) if rest else last

    def _take(self, file: LogFile, line: bytes, told: str) -> str:
        """One line, with its time first. What is of the same second as `told` comes once more, and is passed over."""
        at, _, text = line.decode(errors="replace").partition(" ")
        if at > told:
            self._lines.append(Line(file, _moment(at), text.rstrip("\r")))
        return at


def _moment(written: str) -> int:
    """Milliseconds of an RFC 3339 time with nanoseconds."""
    try:
        return int(datetime.fromisoformat(written).timestamp() * 1000)
    except ValueError:
        return 0


def _written(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
