"""`windlass logs`: prints the output of the ranks of a job."""

from __future__ import annotations

import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.backends.local.logs import STREAMS, LogLine, generations
from windlass.backends.local.paths import StatePaths
from windlass.cli.completion import complete_job_names
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.job_end import JobEndWatch
from windlass.cli.log_tail import LogTail
from windlass.cli.named_job import read_job
from windlass.cli.option_values import parse_duration_option
from windlass.cli.rank_placement import check_ranks, count_ranks, nodes_of_ranks
from windlass.cli.target import is_slurm, resolve_context, state_folder
from windlass.cli.target_options import NamespaceOption, NoColorOption, OnOption, StateOption
from windlass.cli.terminal.screen import Screen
from windlass.core.model.status import TERMINAL
from windlass.jobs.syntax.array_indexes import parse_array
from windlass.server.discovery import open_state

_MIN_POLL_S, _MAX_POLL_S = 0.02, 0.2


def logs(
    job: Annotated[str, typer.Argument(help="A name or an id.", autocompletion=complete_job_names)],
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Wait for further output until the job has ended.")
    ] = False,
    rank: Annotated[str, typer.Option("--rank", metavar="R", help="Only these ranks: 3, or 0,4-7.")] = "",
    attempt: Annotated[
        str, typer.Option("--attempt", metavar="N|all", help="Which attempt; default: the latest.")
    ] = "",
    since: Annotated[str, typer.Option("--since", metavar="DURATION", help="Only lines newer than 5m, 2h, …")] = "",
    grep: Annotated[
        str, typer.Option("--grep", metavar="RE", help="Only lines that match this regular expression.")
    ] = "",
    tail: Annotated[int | None, typer.Option("--tail", metavar="N", min=0, help="Only the last N lines.")] = None,
    stdout: Annotated[bool, typer.Option("--stdout", help="Only lines of stdout.")] = False,
    stderr: Annotated[bool, typer.Option("--stderr", help="Only lines of stderr.")] = False,
    bare: Annotated[
        bool,
        typer.Option("--bare", help="Lines as they were written: no prefix of rank and node, controls not escaped."),
    ] = False,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Print the output of the ranks of a job, of any attempt. -f waits for the first line."""
    if is_slurm(on, namespace):
        if stdout or stderr or since or attempt:
            raise UsageError(
                "the output of a job of Slurm is one file without times\n"
                "remove --stdout, --stderr, --since and --attempt"
            )
        from windlass.cli.slurm_cluster.run import LineSelection, show_output  # noqa: PLC0415 - rarely needed

        selected = LineSelection(_filter(grep), _ranks(rank), tail, follow, bare)
        return show_output(job, selected, Screen(no_color=no_color))
    context = resolve_context(on, namespace)
    if context is not None:
        if stdout or stderr:
            raise UsageError("the log of a pod does not separate stdout from stderr\nremove --stdout and --stderr")
        from windlass.cli.kubernetes.job_logs import LogSelection, show_logs  # noqa: PLC0415 - loads a cluster's libraries

        on_cluster = LogSelection(
            _filter(grep), _ranks(rank), _attempt(attempt), _parse_since(since), tail, follow, bare
        )
        return show_logs(context, namespace, job, on_cluster, Screen(no_color=no_color))
    folder = state_folder(state)
    selection = _Selection(folder, rank, attempt, since, stdout=stdout, stderr=stderr, follow=follow)
    matches = _filter(grep)
    records = open_state(folder)
    details = read_job(records, job)
    jobs = details.get("members") or [details]
    if selection.ranks is not None:
        check_ranks(job, selection.ranks, count_ranks(records.job(jobs[0]["id"])))
    records.close()
    screen = Screen(no_color=no_color)
    printer = _LinePrinter(screen, folder, several=len(jobs) > 1, bare=bare)
    tails = [selection.tail(each["id"]) for each in jobs]
    past = (line for each in tails for line in (each.poll() if follow else each.finish()) if matches(line))
    printed = printer.print_lines(past if tail is None else deque(past, tail))
    if follow:
        _follow(
            JobEndWatch(folder, [each["id"] for each in jobs]),
            tails,
            lambda lines: printer.print_lines(filter(matches, lines)),
        )
    elif not printed and tail != 0:
        screen.say(f"{job} {_describe_silence(jobs, is_filtered=selection.is_filtered or bool(grep))}")
    screen.close()
    return ExitCode.OK


def _describe_silence(jobs: Iterable[Mapping[str, Any]], *, is_filtered: bool) -> str:
    """Returns why no line was printed: the predicate of a sentence about the jobs."""
    has_ended = all(each["phase"] in TERMINAL for each in jobs)
    printed = "printed nothing" if has_ended else "has printed nothing"
    if is_filtered:
        return f"{printed} that matches"
    return printed if has_ended else f"{printed} yet"


class _Selection:
    """The selected ranks, attempts and streams, and the earliest time."""

    def __init__(
        self, folder: Path, rank: str, attempt: str, since: str, *, stdout: bool, stderr: bool, follow: bool
    ) -> None:
        self._paths = StatePaths(folder)
        self.ranks = _ranks(rank)
        self._attempt = _attempt(attempt)
        self._parse_since = _parse_since(since)
        self._streams = [s for s, selected in zip(STREAMS, (stdout, stderr), strict=True) if selected] or list(STREAMS)
        self._follow = follow
        self.is_filtered = bool(rank or since or stdout or stderr)

    def tail(self, job_id: str) -> LogTail:
        """Returns the output of a job: the given attempt, all, or the latest (and, when following, later ones)."""
        return LogTail(
            self._paths,
            job_id,
            ranks=self.ranks,
            streams=self._streams,
            since=self._parse_since,
            attempts=self._attempts(job_id),
        )

    def _attempts(self, job_id: str) -> range | None:
        if self._attempt == 0:
            return None
        attempts = generations(self._paths, job_id)
        first = self._attempt or max(attempts, default=1)
        if self._attempt and attempts and self._attempt not in attempts and not self._follow:
            raise UsageError(
                f"{job_id} has no output of attempt {self._attempt}\nthere are: {', '.join(map(str, attempts))}"
            )
        return range(first, sys.maxsize if self._follow and not self._attempt else first + 1)


class _LinePrinter:
    """Prints lines with the node of their rank."""

    def __init__(self, screen: Screen, folder: Path, *, several: bool, bare: bool) -> None:
        self._screen = screen
        self._folder = folder
        self._several = several
        self._bare = bare
        self._nodes: dict[tuple[str, int], dict[tuple[int, int], str]] = {}

    def print_lines(self, lines: Iterable[LogLine]) -> bool:
        """Prints lines; returns whether there were any. Raises BrokenPipeError if the reader has closed its pipe."""
        printed = False
        for line in lines:
            printed = True
            if self._bare:
                self._screen.bare(line)
            else:
                job_id = line.file.job_id
                self._screen.rank(line, self._nodes_of(job_id, line.file.generation), job_id if self._several else "")
            if self._screen.reader_left:
                break
        self._screen.flush()
        self._screen.check_reader()
        return printed

    def _nodes_of(self, job_id: str, generation: int) -> dict[tuple[int, int], str]:
        key = (job_id, generation)
        if key not in self._nodes:
            records = open_state(self._folder)
            self._nodes[key] = nodes_of_ranks(records.job(job_id))
            records.close()
        return self._nodes[key]


def _follow(watch: JobEndWatch, tails: list[LogTail], print_lines: Callable[[Iterator[LogLine]], bool]) -> None:
    pause = _MIN_POLL_S
    while not watch.poll(pause):
        printed = [print_lines(iter(tail.poll())) for tail in tails]
        pause = _MIN_POLL_S if any(printed) else min(pause * 1.5, _MAX_POLL_S)
    for tail in tails:
        print_lines(iter(tail.finish()))


def _filter(pattern: str) -> Callable[[LogLine], bool]:
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--grep {pattern!r} is not a regular expression: {error}") from None
    return lambda line: found.search(line.text) is not None


def _parse_since(text: str) -> int | None:
    """Returns the time that lies the given duration before now, in ms."""
    return int(time.time() * 1000) - parse_duration_option("--since", text) if text else None


def _ranks(text: str) -> tuple[int, ...] | None:
    if not text:
        return None
    try:
        return parse_array(text)[0]
    except ValueError:
        raise UsageError(f"--rank expects ranks such as 3 or 0,4-7, not {text[:40]!r}") from None


def _attempt(text: str) -> int | None:
    """Returns the number of an attempt, None for the latest, 0 for all. Raises UsageError."""
    if text == "all":
        return 0
    if text and not (text.isdecimal() and int(text)):
        raise UsageError(f"--attempt expects a number of at least 1, or all, not {text[:40]!r}")
    return int(text) if text else None
