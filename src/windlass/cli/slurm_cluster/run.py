"""The verbs `run`, `submit` and `logs` on Slurm."""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from windlass.backends.local.logs import LogLine
from windlass.backends.slurm.job_records import SlurmJob
from windlass.backends.slurm.submission import losses_of
from windlass.cli.exit_codes import ExitCode
from windlass.cli.job_follower import JobFollower
from windlass.cli.job_submission import check_program, read_submissions, refuse_schedules, submission_context
from windlass.cli.rank_placement import check_ranks
from windlass.cli.slurm_cluster.client import SlurmClient
from windlass.cli.slurm_cluster.job_events import SlurmEvents
from windlass.cli.slurm_cluster.output_file import OutputFile
from windlass.cli.terminal.interrupts import Interrupts
from windlass.cli.terminal.screen import Screen
from windlass.jobs.description.options import RunOptions
from windlass.jobs.description.submission import Submission
from windlass.server.discovery import LOST
from windlass.server.errors import ApiError

_OPTION = " --on slurm"
_POLL_S = 0.5


class SlurmTarget:
    """Slurm as the target of `JobFollower`."""

    lost = "the controller of Slurm does not answer; {} keeps its state there"
    option = _OPTION

    def __init__(self) -> None:
        self._client = SlurmClient()

    def connect(self, on_error: Callable[[str], None], *, succeeded: bool = False) -> SlurmClient:  # noqa: ARG002
        """Returns the client. Raises ApiError if the controller does not answer."""
        self._client.check()
        return self._client

    def find(self) -> SlurmClient | None:
        """Returns the client if the controller answers."""
        try:
            self._client.check()
        except ApiError:
            return None
        return self._client

    def warnings(self, ids: Sequence[str]) -> Sequence[str]:  # noqa: ARG002 - the protocol's signature
        """Returns none: sbatch refuses impossible jobs."""
        return ()

    def log_source(self, job_id: str) -> OutputFile:
        """Returns the output of a job."""
        job = self._client.find(job_id)[0]
        return OutputFile(job_id, job.output, since=job.submitted)

    def log_location(self, job_id: str) -> str:
        """Returns the path of a job's output."""
        return self._client.find(job_id)[0].output


def read_for_slurm(options: RunOptions, words: Sequence[str], file: str | None) -> list[Submission]:
    """Returns the jobs of a command line; prints on stderr what Slurm does not do."""
    check_program(options, words, file)
    submissions = read_submissions(options, words, file)
    refuse_schedules(submissions, "a job of Slurm", "repeat its batch script with scrontab")
    for each in submissions:
        for loss in losses_of(each):
            print(f"windlass: {each.job.name}: {loss}", file=sys.stderr)
    return submissions


def submit_to_slurm(submissions: Sequence[Submission]) -> list[str]:
    """Submits jobs, all or none, and returns their ids. Raises ApiError."""
    return SlurmClient().submit(submissions, **submission_context())


def run_on_slurm(submissions: Sequence[Submission], *, no_color: bool) -> int:
    """Submits jobs and follows them to their end. Returns the exit code."""
    screen = Screen(no_color=no_color)
    with Interrupts() as interrupts, contextlib.closing(screen):
        follower = JobFollower(SlurmTarget(), screen)
        with contextlib.closing(follower):
            follower.submit(submissions)
            return follower.follow(interrupts)


@dataclass(frozen=True, slots=True)
class LineSelection:
    """The selected lines. `tail` None: all."""

    matches: Callable[[LogLine], bool]
    ranks: tuple[int, ...] | None = None
    tail: int | None = None
    follow: bool = False
    bare: bool = False


def show_output(name: str, selection: LineSelection, screen: Screen) -> int:
    """Prints the selected output of a job, and new output until its end if it is followed. Raises ApiError."""
    client = SlurmClient()
    jobs = client.find(name)
    if not any(job.is_accounted for job in jobs):
        check_ranks(name, selection.ranks or (), max(job.tasks for job in jobs))
    files = [OutputFile(job.id, job.output, selection.ranks, since=job.submitted) for job in jobs if job.output]
    several = len(files) > 1

    def print_lines(lines: Iterable[LogLine]) -> bool:
        printed = False
        for line in filter(selection.matches, lines):
            printed = True
            if selection.bare:
                screen.bare(line)
            else:
                screen.rank(line, {}, line.file.job_id if several else "")
        screen.flush()
        screen.check_reader()
        return printed

    past = [line for file in files for line in (file.poll() if selection.follow else file.finish())]
    kept = past if selection.tail is None else deque(filter(selection.matches, past), selection.tail)
    printed = print_lines(kept)
    if selection.follow:
        _follow(client.follow(name), files, print_lines, screen.say)
    elif not printed and selection.tail != 0:
        screen.say(_silence(name, jobs, files))
    screen.close()
    return ExitCode.OK


def _follow(
    stream: SlurmEvents,
    files: Sequence[OutputFile],
    print_lines: Callable[[Iterable[LogLine]], bool],
    say: Callable[[str], None],
) -> None:
    """Prints new lines until every job has ended. The files grow while the controller of Slurm does not answer."""
    is_lost, has_ended = False, False
    while not has_ended:
        try:
            has_ended = any(event["type"] == "all ended" for event in stream.poll(_POLL_S))
            if is_lost:
                say("reconnected")
            is_lost = False
        except ApiError as error:
            if error.code not in LOST:
                raise
            if not is_lost:
                say(f"{error.message}; its jobs go on")
            is_lost = True
        for file in files:
            print_lines(file.poll())
    for file in files:
        print_lines(file.finish())


def _silence(name: str, jobs: Sequence[SlurmJob], files: Sequence[OutputFile]) -> str:
    """Returns why no line was printed."""
    unread = next((file.unread for file in files if file.unread), "")
    if unread:
        return f"cannot read the output of {name}: {unread}"
    if jobs[0].is_accounted:
        return f"the accounting of Slurm does not record where {name} printed, and {jobs[0].output} has no output of it"
    return f"{name} has no output in {jobs[0].output}"
