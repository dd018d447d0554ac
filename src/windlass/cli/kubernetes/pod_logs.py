"""Streams the logs of a job's pods line by line, of all generations whose pods still exist."""

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
from windlass.backends.kubernetes.client.retries import retry_delay
from windlass.backends.local.logs import LogFile, LogLine
from windlass.cli.kubernetes.api_session import ApiSession
from windlass.cli.kubernetes.job_finder import belongs_to_job, pod_selector
from windlass.cli.kubernetes.job_objects import JobObject
from windlass.cli.kubernetes.pod_ranks import PodRank, ranks_of_pods

_IDLE_TIMEOUT_S = 4 * 3600.0
"""Time after which a kubelet ends a stream without output."""
_FINAL_TIMEOUT_S = 15.0
"""Time without a new line after which the remaining lines of pods that have ended are not read.

It is longer than that for one answer of the API server.
"""


class PodLogs:
    """Log lines of one job: `poll` returns new lines, `finish` all remaining ones after the end of the job."""

    def __init__(
        self,
        session: ApiSession,
        job: JobObject,
        *,
        ranks: Collection[int] | None = None,
        attempts: Collection[int] | None = None,
        since: int | None = None,
        follow: bool = True,
    ) -> None:
        self.error = ""
        """The latest error of reading a pod's log, "" if there was none."""
        self.unread = ""
        """The reason why `finish` has not read all remaining lines, "" if it has."""
        self._session, self._job = session, job
        self._ranks, self._attempts, self._since = ranks, attempts, since
        self._follow = follow
        self._lines: list[LogLine] = []
        self._nodes: dict[tuple[int, int], str] = {}
        self._pods: dict[str, PodRank] = {}
        self._streams: dict[str, asyncio.Task[None]] = {}
        self._listed = asyncio.Event()
        self._watching = session.start(self._watch())

    @property
    def nodes(self) -> dict[tuple[int, int], str]:
        """Returns the node of each rank, by generation and rank."""
        return self._nodes

    def poll(self) -> list[LogLine]:
        """Returns new lines in order of time."""
        lines, self._lines = self._lines, []
        return sorted(lines, key=lambda line: line.at)

    def finish(self) -> list[LogLine]:
        """Returns all remaining lines of a job that has ended or is not followed."""
        self._session.run(self._read_rest())
        return self.poll()

    def close(self) -> None:
        """Ends the streams; what they still hold is not read."""
        for task in (self._watching, *self._streams.values()):
            task.cancel()

    async def _read_rest(self) -> None:
        """Reads on until all streams have ended, or no line has come for a time."""
        rest = asyncio.create_task(self._end_of_streams())
        before = -1
        while not rest.done() and before < len(self._lines):
            before = len(self._lines)
            await asyncio.wait([rest], timeout=_FINAL_TIMEOUT_S)
        self.close()
        if rest.done():
            rest.result()
        else:
            rest.cancel()
            self.unread = self.error or f"no new line within {_FINAL_TIMEOUT_S:g} s"

    async def _end_of_streams(self) -> None:
        await self._listed.wait()
        await asyncio.gather(*self._streams.values())

    async def _watch(self) -> None:
        def apply(changes: Sequence[Change[dict[str, Any]]]) -> None:
            pods = [change.object for change in changes if belongs_to_job(change.object, self._job)]
            for pod in ranks_of_pods(self._job, pods):
                self._update(pod)

        await reflect(
            self._session.connection,
            PODS,
            decode=json.loads,
            apply=apply,
            synced=self._listed.set,
            namespace=self._job.namespace,
            selector=pod_selector(self._job),
        )

    def _update(self, pod: PodRank) -> None:
        """Records a pod and starts to read its log if it is selected and has started."""
        self._pods[pod.uid] = pod
        self._nodes[pod.generation, pod.rank] = pod.node
        selected = (self._ranks is None or pod.rank in self._ranks) and (
            self._attempts is None or pod.generation in self._attempts
        )
        if selected and pod.has_started and pod.uid not in self._streams:
            self._streams[pod.uid] = self._session.start(self._read(pod))

    async def _read(self, pod: PodRank) -> None:
        """Reads one pod's log to its end; resumes after the last line if the stream breaks."""
        file = LogFile(self._job.id, pod.generation, pod.rank, "out", Path(pod.name))
        last = ""
        for attempt in itertools.count():
            ended = self._pods[pod.uid].code is not None or not self._follow
            try:
                last = await self._stream(pod, file, last)
                if ended or self._pods[pod.uid].code is not None:
                    return
            except (ApiError, Unreachable) as error:
                self.error = f"{pod.name}: {error}"
                if isinstance(error, ApiError) and error.is_missing:
                    return
            await asyncio.sleep(retry_delay(attempt, None, 0.5))

    async def _stream(self, pod: PodRank, file: LogFile, after: str) -> str:
        """Reads the lines after the timestamp `after`; returns the timestamp of the last line."""
        params = {"container": pod.container, "timestamps": "true"}
        if self._follow:
            params["follow"] = "true"
        if after or self._since:
            params["sinceTime"] = after or _format_timestamp(self._since or 0)
        last, rest = after, b""
        where = path(PODS, pod.namespace, pod.name, "log")
        async with self._session.connection.stream(where, params, _IDLE_TIMEOUT_S) as pieces:
            async for piece in pieces:
                *whole, rest = (rest + piece).split(b"\n")
                for line in whole:
                    last = self._append(file, line, after)
        return self._append(file, rest, after) if rest else last

    def _append(self, file: LogFile, line: bytes, after: str) -> str:
        """Appends one line, which begins with its timestamp; skips lines up to `after`, which are sent again."""
        at, _, text = line.decode(errors="replace").partition(" ")
        if at > after:
            self._lines.append(LogLine(file, _parse_timestamp(at), text.rstrip("\r")))
        return at


def _parse_timestamp(text: str) -> int:
    """Returns the milliseconds of an RFC 3339 time with nanoseconds, 0 if it is none."""
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return 0


def _format_timestamp(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
