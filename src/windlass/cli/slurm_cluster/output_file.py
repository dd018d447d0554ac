"""The output of a job of Slurm: one file for all ranks and attempts, read while it grows."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection
from pathlib import Path

from windlass.backends.local.logs import LogFile, LogLine
from windlass.backends.local.regular_files import open_regular

_LABEL = re.compile(r" *([0-9]{1,6}): ?(.*)", re.DOTALL)
_CHUNK = 1 << 18
_LONGEST_LINE = 1 << 20
"""Bytes after which a line without an end is returned in pieces."""
_CLOCK_SKEW_S = 60
"""Seconds by which the clock of a file system may be behind that of Slurm."""
NO_RANK = -1
"""Rank of lines without the number of a task: of the batch script, of srun and of Slurm itself."""


class OutputFile:
    """Reads new lines of a job's output. A line that begins with "3: " is one of rank 3.

    `since`: the submission of the job, in seconds. A file that was last written before is of another job of its number.
    """

    unread = ""
    """The reason why the file cannot be read."""

    def __init__(self, job_id: str, path: str, ranks: Collection[int] | None = None, *, since: int = 0) -> None:
        self._since = since
        self._job_id, self._path, self._ranks = job_id, Path(path), ranks
        self._descriptor = -1
        self._rest = b""

    def poll(self) -> list[LogLine]:
        """Returns the new whole lines; none as long as the file does not exist."""
        if not self._open():
            return []
        lines: list[bytes] = []
        while chunk := os.read(self._descriptor, _CHUNK):
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            lines += whole
            if len(self._rest) > _LONGEST_LINE:
                lines.append(self._rest)
                self._rest = b""
        return self._selected(lines)

    def finish(self) -> list[LogLine]:
        """Returns the remaining lines of a job that has ended."""
        lines = self.poll()
        if self._rest:
            lines += self._selected([self._rest])
        self.close()
        return lines

    def close(self) -> None:
        """Closes the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> bool:
        if self._descriptor < 0:
            try:
                if self._path.stat().st_mtime < self._since - _CLOCK_SKEW_S:
                    return False
                self._descriptor = open_regular(self._path)
            except FileNotFoundError:
                return False
            except OSError as error:
                self.unread = f"{self._path}: {error.strerror}"
                return False
        return True

    def _selected(self, lines: list[bytes]) -> list[LogLine]:
        found = (self._line(line.decode(errors="replace")) for line in lines)
        return [line for line in found if self._ranks is None or line.file.rank in self._ranks]

    def _line(self, text: str) -> LogLine:
        labelled = _LABEL.fullmatch(text)
        rank, text = (int(labelled[1]), labelled[2]) if labelled else (NO_RANK, text)
        return LogLine(LogFile(self._job_id, 1, rank, "out", self._path), int(time.time() * 1000), text)
