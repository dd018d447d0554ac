"""The lines of a job's ranks as they are printed, over all its attempts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from windlass.backends.local.logs import STREAMS, Cursor, Line, generations, log_files
from windlass.backends.local.paths import StatePaths


class LogTail:
    """Reads whatever has been printed since the last `poll`. Attempts before `first` are left out; `since` in ms."""

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
        self._cursors: dict[tuple[int, int, str], Cursor] = {}

    def poll(self) -> list[Line]:
        """The lines that have come, attempt by attempt, in the order of time. Whole lines only."""
        self._look()
        lines: list[Line] = []
        newest = max((key[0] for key in self._cursors), default=0)
        for generation in sorted({key[0] for key in self._cursors}):
            cursors = [cursor for key, cursor in self._cursors.items() if key[0] == generation]
            came = [line for cursor in cursors for line in _drained(cursor)]
            if generation < newest:  # nothing is added to an attempt that has a successor
                came += [line for cursor in cursors for line in cursor.rest()]
                self._close(generation)
            lines += sorted(came, key=lambda line: line.at)
        return lines

    def finish(self) -> list[Line]:
        """Everything that is left. For a job that has ended."""
        lines = self.poll()
        for cursor in self._cursors.values():
            lines += cursor.rest()
            cursor.close()
        self._cursors.clear()
        return lines

    def _look(self) -> None:
        newest = max((key[0] for key in self._cursors), default=0)
        for generation in generations(self._paths, self._job_id):
            if generation < newest or (self._attempts is not None and generation not in self._attempts):
                continue
            files = log_files(self._paths, self._job_id, generation, ranks=self._ranks, streams=self._streams)
            for file in files:
                key = (generation, file.rank, file.stream)
                if key not in self._cursors:
                    self._cursors[key] = Cursor(file, since=self._since)

    def _close(self, generation: int) -> None:
        for key in [key for key in self._cursors if key[0] == generation]:
            self._cursors.pop(key).close()


def _drained(cursor: Cursor) -> Iterator[Line]:
    while lines := cursor.poll():
        yield from lines
