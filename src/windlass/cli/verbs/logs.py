"""`windlass logs`: what ranks printed."""

from __future__ import annotations

import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from windlass.backends.local.logs import STREAMS, Line, generations
from windlass.backends.local.paths import StatePaths
from windlass.cli.completion import complete_job_names
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.job_end import JobEndWatch
from windlass.cli.log_tail import LogTail
from windlass.cli.option_values import parse_duration_option
from windlass.cli.rank_placement import nodes_of_ranks
from windlass.cli.target import NamespaceOption, NoColorOption, OnOption, StateOption, resolve_context, state_folder
from windlass.cli.terminal.screen import Screen
from windlass.jobs.syntax.array_indexes import parse_array
from windlass.server.discovery import open_state

_QUICK, _SLOW = 0.02, 0.2


def logs(
    job: Annotated[str, typer.Argument(help="A name or an id.", autocompletion=complete_job_names)],
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Wait for more, until the job has ended.")] = False,
    rank: Annotated[str, typer.Option("--rank", metavar="R", help="Only these ranks: 3, or 0,4-7.")] = "",
    attempt: Annotated[str, typer.Option("--attempt", metavar="N|all", help="Which attempt; else the latest.")] = "",
    since: Annotated[str, typer.Option("--since", metavar="DURATION", help="Only what is newer than 5m, 2h, …")] = "",
    grep: Annotated[str, typer.Option("--grep", metavar="RE", help="Only lines in which this is found.")] = "",
    tail: Annotated[int | None, typer.Option("--tail", metavar="N", min=0, help="Only the last lines.")] = None,
    stdout: Annotated[bool, typer.Option("--stdout", help="Only what went to stdout.")] = False,
    stderr: Annotated[bool, typer.Option("--stderr", help="Only what went to stderr.")] = False,
    bare: Annotated[bool, typer.Option("--bare", help="Lines alone, without who printed them.")] = False,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """What the ranks of a job printed. Earlier attempts stay readable. -f waits for the first line."""
    context = resolve_context(on, namespace)
    if context is not None:
        if stdout or stderr:
            raise UsageError("a pod's log does not tell stdout from stderr\nleave --stdout and --stderr out")
        from windlass.cli.kubernetes.job_logs import LogSelection, show_logs  # noqa: PLC0415 - loads a cluster's libraries

        wanted_there = LogSelection(_filter(grep), _ranks(rank), _attempt(attempt), _since(since), tail, follow, bare)
        return show_logs(context, namespace, job, wanted_there, Screen(no_color=no_color))
    folder = state_folder(state)
    wanted = _Wanted(folder, rank, attempt, since, stdout=stdout, stderr=stderr, follow=follow)
    passes = _filter(grep)
    asked = open_state(folder)
    story = asked.job(job)
    asked.close()
    stories = story.get("members") or [story]
    screen = Screen(no_color=no_color)
    shown = _Shown(screen, folder, several=len(stories) > 1, bare=bare)
    tails = [wanted.tail(each["id"]) for each in stories]
    past = (line for each in tails for line in (each.poll() if follow else each.finish()) if passes(line))
    came = shown.lines(past if tail is None else deque(past, tail))
    if follow:
        _follow(
            JobEndWatch(folder, [each["id"] for each in stories]),
            tails,
            lambda lines: shown.lines(filter(passes, lines)),
        )
    elif not came and tail != 0:
        screen.say(f"{job} has printed nothing{' like that' if wanted.narrow or grep else ' yet'}")
    screen.close()
    return ExitCode.OK


class _Wanted:
    """Which lines: ranks, attempts, streams, and from when on."""

    def __init__(
        self, folder: Path, rank: str, attempt: str, since: str, *, stdout: bool, stderr: bool, follow: bool
    ) -> None:
        self._paths = StatePaths(folder)
        self._ranks = _ranks(rank)
        self._attempt = _attempt(attempt)
        self._since = _since(since)
        self._streams = [s for s, asked in zip(STREAMS, (stdout, stderr), strict=True) if asked] or list(STREAMS)
        self._follow = follow
        self.narrow = bool(rank or since or stdout or stderr)

    def tail(self, job_id: str) -> LogTail:
        """A job's lines: of the attempt asked for, of all, or of the latest (and, followed, of those to come)."""
        return LogTail(
            self._paths,
            job_id,
            ranks=self._ranks,
            streams=self._streams,
            since=self._since,
            attempts=self._attempts(job_id),
        )

    def _attempts(self, job_id: str) -> range | None:
        if self._attempt == 0:
            return None
        there = generations(self._paths, job_id)
        first = self._attempt or max(there, default=1)
        if self._attempt and there and self._attempt not in there and not self._follow:
            raise UsageError(
                f"{job_id} has nothing from attempt {self._attempt}\nthere is: {', '.join(map(str, there))}"
            )
        return range(first, sys.maxsize if self._follow and not self._attempt else first + 1)


class _Shown:
    """Lines on the screen, with the node that each came from."""

    def __init__(self, screen: Screen, folder: Path, *, several: bool, bare: bool) -> None:
        self._screen = screen
        self._folder = folder
        self._several = several
        self._bare = bare
        self._nodes: dict[tuple[str, int], dict[tuple[int, int], str]] = {}

    def lines(self, lines: Iterable[Line]) -> bool:
        """Show them; whether there were any."""
        came = False
        for line in lines:
            came = True
            if self._bare:
                self._screen.bare(line)
            else:
                job_id = line.file.job_id
                self._screen.rank(line, self._nodes_of(job_id, line.file.generation), job_id if self._several else "")
            self._go_on_if_read()
        self._screen.flush()
        self._go_on_if_read()
        return came

    def _go_on_if_read(self) -> None:
        if self._screen.reader_left:
            raise BrokenPipeError

    def _nodes_of(self, job_id: str, generation: int) -> dict[tuple[int, int], str]:
        key = (job_id, generation)
        if key not in self._nodes:
            asked = open_state(self._folder)
            self._nodes[key] = nodes_of_ranks(asked.job(job_id))
            asked.close()
        return self._nodes[key]


def _follow(endings: JobEndWatch, tails: list[LogTail], shown: Callable[[Iterator[Line]], bool]) -> None:
    pause = _QUICK
    while not endings.poll(pause):
        came = [shown(iter(tail.poll())) for tail in tails]
        pause = _QUICK if any(came) else min(pause * 1.5, _SLOW)
    for tail in tails:
        shown(iter(tail.finish()))


def _filter(pattern: str) -> Callable[[Line], bool]:
    try:
        found = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--grep {pattern!r} is no regular expression: {error}") from None
    return lambda line: found.search(line.text) is not None


def _since(text: str) -> int | None:
    """A moment in ms."""
    return int(time.time() * 1000) - parse_duration_option("--since", text) if text else None


def _ranks(text: str) -> tuple[int, ...] | None:
    if not text:
        return None
    try:
        return parse_array(text)[0]
    except ValueError:
        raise UsageError(f"--rank expects ranks such as 3 or 0,4-7, not {text[:40]!r}") from None


def _attempt(text: str) -> int | None:
    """None: the latest; 0: all."""
    if text == "all":
        return 0
    if text and not (text.isdecimal() and int(text)):
        raise UsageError(f"--attempt expects a number from 1 on, or all, not {text[:40]!r}")
    return int(text) if text else None
