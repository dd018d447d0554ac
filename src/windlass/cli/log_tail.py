"""Reads the log files of a job's ranks on this machine while they grow, over all attempts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from windlass.backends.local.logs import STREAMS, LogCursor, LogLine, generations, log_files
from windlass.backends.local.paths import StatePaths


class LogTail:
    """Reads new lines of selected ranks, streams and attempts (None: all). `since` in ms since the epoch."""

    unread = ""
    """Files are read to their ends, as `PodLogs` may not be."""

    def __init__(
        self,
        paths: StatePaths,
        job_id: str,
        *,
        ranks: Collection[int] | None = None,
        streams: Sequence[str] = STREAMS,
        attempts: Collection[int] | None = None,
        since: int | None = None,
    ) -> None:
        self._paths = paths
        self._job_id = job_id
        self._ranks = ranks
        self._streams = streams
        self._attempts = attempts
        self._since = since
        self._cursors: dict[tuple[int, int, str], LogCursor] = {}

    def poll(self) -> list[LogLine]:
        """Returns new whole lines, attempt by attempt, each attempt in order of time."""
        self._open_new_files()
        lines: list[LogLine] = []
        newest = max((key[0] for key in self._cursors), default=0)
        for generation in sorted({key[0] for key in self._cursors}):
            cursors = [cursor for key, cursor in self._cursors.items() if key[0] == generation]
            new = [line for cursor in cursors for line in _drain(cursor)]
            if generation < newest:  # the files of an attempt that has a successor are final
                new += [line for cursor in cursors for line in cursor.rest()]
                self._close(generation)
            lines += sorted(new, key=lambda line: line.at)
        return lines

    def finish(self) -> list[LogLine]:
        """Returns everything that is left, of a job that has ended."""
        lines = self.poll()
        for cursor in self._cursors.values():
            lines += cursor.rest()
        self.close()
        return lines

    def close(self) -> None:
        """Closes the files; what they still hold is not read."""
        for cursor in self._cursors.values():
            cursor.close()
        self._cursors.clear()

    def _open_new_files(self) -> None:
        newest = max((key[0] for key in self._cursors), default=0)
        for generation in generations(self._paths, self._job_id):
            if generation < newest or (self._attempts is not None and generation not in self._attempts):
                continue
            files = log_files(self._paths, self._job_id, generation, ranks=self._ranks, streams=self._streams)
            for file in files:
                key = (generation, file.rank, file.stream)
                if key not in self._cursors:
                    self._cursors[key] = LogCursor(file, since=self._since)

    def _close(self, generation: int) -> None:
        for key in [key for key in self._cursors if key[0] == generation]:
            self._cursors.pop(key).close()


def _drain(cursor: LogCursor) -> Iterator[LogLine]:
    while lines := cursor.poll():
        yield from lines
