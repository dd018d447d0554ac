"""Output of the ranks of a job, read step by step: log files of this machine, or logs of pods."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from windlass.backends.local.logs import LogLine, generations
from windlass.backends.local.paths import StatePaths
from windlass.cli.log_tail import LogTail
from windlass.cli.rank_placement import check_ranks, count_ranks
from windlass.client.connection import TargetConnection
from windlass.client.errors import InvalidRequestError, TargetUnreachableError
from windlass.client.job_queries import read_job
from windlass.client.records import JobInfo, OutputLine

if TYPE_CHECKING:
    from windlass.cli.kubernetes.client import ClusterClient
    from windlass.cli.kubernetes.pod_logs import PodLogs
    from windlass.cli.slurm_cluster.client import SlurmClient

_LOOK_INTERVAL_S = 0.2
"""Time between two queries for the end of a followed job."""
_CLUSTER_STEP_S = 0.05


@dataclass(frozen=True, slots=True)
class OutputSelection:
    """The selected output. `ranks` None: all; `attempt` None: the latest, 0: all. `follow`: until the job has ended."""

    follow: bool = False
    ranks: Sequence[int] | None = None
    attempt: int | None = None


class _Source(Protocol):
    """Output of one job: `poll` returns new lines, `finish` all remaining ones of a job that has ended.

    `close` ends reading before. `unread`: the reason why lines are missing, "" if none is.
    """

    @property
    def unread(self) -> str: ...

    def poll(self) -> list[LogLine]: ...

    def finish(self) -> list[LogLine]: ...

    def close(self) -> None: ...


class JobOutput:
    """A position in the output of a job or of the members of an array."""

    def __init__(self, job: str, sources: Sequence[_Source], stored: Sequence[LogLine] = (), *, follow: bool) -> None:
        self.job = job
        self._sources, self._stored, self._follow = sources, list(stored), follow
        self._looked_at = 0.0
        self.has_ended = False
        """Whether everything has been returned."""
        self.unread = ""
        """The reason why the rest could not be read, once all else has been returned."""

    def is_last_step(self, connection: TargetConnection) -> bool:
        """Whether the job has ended, asked at most every 0.2 s, or its output is not followed."""
        if not self._follow:
            return True
        now = time.monotonic()
        if now < self._looked_at + _LOOK_INTERVAL_S:
            return False
        self._looked_at = now
        return read_job(connection, self.job).has_ended

    def take(self, *, is_last: bool) -> list[OutputLine]:
        """Returns the new lines; with `is_last` all remaining ones."""
        new = [line for each in self._sources for line in (each.finish() if is_last else each.poll())]
        stored, self._stored = self._stored, []
        self.unread = next((each.unread for each in self._sources if each.unread), "")
        self.has_ended = is_last and not self.unread
        return [*map(_output_line, (*stored, *new))]

    def close(self) -> None:
        """Closes the files and streams."""
        for each in self._sources:
            each.close()


def open_output(connection: TargetConnection, job: str, selection: OutputSelection) -> JobOutput:
    """Opens the output of a job. Raises ApiError if there is no such job, and InvalidRequestError."""
    if not isinstance(selection.ranks, (Sequence, type(None))):
        raise InvalidRequestError(f"ranks {selection.ranks!r} is no list", f"write ranks=[{selection.ranks!r}]")
    if connection.is_cluster:
        return _of_cluster(connection.cluster(), job, selection)
    if connection.is_slurm:
        return _of_slurm(connection.slurm(), job, selection)
    found = read_job(connection, job)
    if not found.members:
        check_ranks(found.id, selection.ranks or (), count_ranks(found.details))
    sources = [_log_tail(connection, each, selection) for each in found.members or (found,)]
    return JobOutput(found.id, sources, follow=selection.follow)


def read_output(connection: TargetConnection, output: JobOutput) -> list[OutputLine]:
    """Returns the next lines; `has_ended` of the output is then set at the end.

    Raises TargetUnreachableError after the last lines if the rest could not be read.
    """
    if output.unread:
        raise TargetUnreachableError(
            f"the output of {output.job} was not read to its end: {output.unread}", "read it again"
        )
    is_last = output.is_last_step(connection)
    if connection.is_cluster:
        connection.cluster().session.wait(_CLUSTER_STEP_S)  # the streams of pods advance only meanwhile
    return output.take(is_last=is_last)


def close_output(_connection: TargetConnection, output: JobOutput) -> None:
    """Closes the files and streams of output, also of output that is not read to its end."""
    output.close()


def _log_tail(connection: TargetConnection, job: JobInfo, selection: OutputSelection) -> LogTail:
    paths = StatePaths(connection.state)
    first = selection.attempt or max(generations(paths, job.id), default=1)
    last = sys.maxsize if selection.follow and not selection.attempt else first + 1
    attempts = None if selection.attempt == 0 else range(first, last)
    return LogTail(paths, job.id, ranks=selection.ranks, attempts=attempts)


def _of_slurm(slurm: SlurmClient, job: str, selection: OutputSelection) -> JobOutput:
    from windlass.cli.slurm_cluster.output_file import OutputFile  # noqa: PLC0415 - rarely needed

    if selection.attempt is not None:
        raise InvalidRequestError("one file has the output of all attempts on Slurm", "omit attempt")
    ranks = None if selection.ranks is None else set(selection.ranks)
    sources = [OutputFile(each.id, each.output, ranks, since=each.submitted) for each in slurm.find(job) if each.output]
    return JobOutput(job, sources, follow=selection.follow)


def _of_cluster(cluster: ClusterClient, job: str, selection: OutputSelection) -> JobOutput:
    from windlass.cli.kubernetes.job_logs import (  # noqa: PLC0415 - as above
        LogSelection,
        open_pod_logs,
        stored_lines,
        stored_log_ends,
    )

    chosen = LogSelection(lambda _: True, selection.ranks, selection.attempt, follow=selection.follow)
    jobs = cluster.finder.find(job)
    stored = [line for job_id, log in stored_log_ends(cluster, job, jobs, chosen) for line in stored_lines(job_id, log)]
    if not jobs and not stored:
        raise cluster.finder.unknown_error(job)
    sources: list[PodLogs] = [open_pod_logs(cluster, each, chosen) for each in jobs]
    return JobOutput(job, sources, stored, follow=selection.follow and bool(jobs))


def _output_line(line: LogLine) -> OutputLine:
    file = line.file
    return OutputLine(file.job_id, file.generation, file.rank, file.stream, line.at, line.text)
