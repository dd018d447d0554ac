"""`windlass logs` on a cluster: prints logs of existing pods, and the stored log ends of deleted pods."""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windlass.backends.local.logs import LogFile, LogLine
from windlass.cli.exit_codes import ExitCode
from windlass.cli.kubernetes.client import ClusterClient
from windlass.cli.kubernetes.job_objects import JobObject
from windlass.cli.kubernetes.pod_logs import PodLogs
from windlass.cli.rank_placement import check_ranks
from windlass.cli.terminal.screen import Screen
from windlass.server.errors import ApiError, ErrorCode

Json = dict[str, Any]
_MIN_POLL_S, _MAX_POLL_S = 0.05, 0.5
"""Seconds between two polls: the minimum after new output, the maximum after a while without any."""


@dataclass(frozen=True, slots=True)
class LogSelection:
    """The selected lines. `attempt` None: the latest, 0: all; `since` in ms; `tail` None: all."""

    matches: Callable[[LogLine], bool]
    ranks: Collection[int] | None = None
    attempt: int | None = None
    since: int | None = None
    tail: int | None = None
    follow: bool = False
    bare: bool = False

    def attempts(self, latest: int) -> range | None:
        """Returns the selected generations, None for all; `latest` is the newest generation."""
        if self.attempt == 0:
            return None
        first = self.attempt or max(latest, 1)
        return range(first, sys.maxsize if self.follow and not self.attempt else first + 1)


def show_logs(context: str, namespace: str, name: str, selection: LogSelection, screen: Screen) -> int:
    """Prints the selected output of a job, and new output until its end if it is followed. Raises ApiError."""
    cluster = ClusterClient.at(context, namespace)
    jobs = cluster.finder.find(name)
    if not jobs and (run := cluster.find_run(name)):
        name, jobs = run, cluster.finder.find(run)
    for job in jobs:
        check_ranks(job.id, selection.ranks or (), _count_pods(job))
    printer = _LinePrinter(screen, bare=selection.bare, several=len(jobs) > 1)
    # 1. The operator stores the log ends of deleted pods.
    stored = list(stored_log_ends(cluster, name, jobs, selection))
    if not jobs and not stored:
        raise cluster.finder.unknown_error(name)
    for _, log in stored:
        if log["missing"]:
            screen.say(f"rank {log['rank']} of attempt {log['generation']}: {log['missing']}")
    lines_of_stored = [line for job_id, log in stored for line in stored_lines(job_id, log)]
    # 2. Existing pods have their logs.
    sources = [open_pod_logs(cluster, job, selection) for job in jobs]
    past = [line for each in sources for line in (each.poll() if selection.follow else each.finish())]
    printer.add_nodes({(log["generation"], log["rank"]): log["node"] for _, log in stored})
    for each in sources:
        printer.add_nodes(each.nodes)
    lines = [line for line in (*lines_of_stored, *past) if selection.matches(line)]
    printed = printer.print_lines(lines if selection.tail is None else deque(lines, selection.tail))
    # 3. New output.
    if selection.follow and jobs:
        _follow(cluster, jobs, sources, printer, selection)
    elif not printed and selection.tail != 0:
        error = next((each.error for each in sources if each.error), "")
        screen.say(f"cannot read the log of {error}" if error else f"{name} has no output that still exists")
    screen.close()
    return ExitCode.OK


def _count_pods(job: JobObject) -> int:
    """Returns the number of pods that a job may have; their indexes are the ranks of its logs."""
    return sum(role.max_replicas or role.replicas for role in job.state().job.roles)


def open_pod_logs(cluster: ClusterClient, job: JobObject, selection: LogSelection) -> PodLogs:
    """Returns the selected output of the existing pods of a job."""
    attempts = selection.attempts(job.state().status.generation)
    return PodLogs(
        cluster.session, job, ranks=selection.ranks, attempts=attempts, since=selection.since, follow=selection.follow
    )


def stored_log_ends(
    cluster: ClusterClient, name: str, jobs: Sequence[JobObject], selection: LogSelection
) -> Iterator[tuple[str, Json]]:
    """Yields the stored log ends of members whose pods were deleted, with the job's id; none without an operator."""
    for job_id in [job.id for job in jobs] or [cluster.finder.id_of(name)]:
        found = {job.id: job for job in jobs}.get(job_id)
        existing = {(pod.generation, pod.rank) for pod in cluster.ranks(found)} if found else set()
        try:
            logs = cluster.stored_logs(job_id)
        except ApiError as error:
            if error.code is ErrorCode.INTERNAL:
                raise
            continue
        latest = max((log["generation"] for log in logs), default=0)
        attempts = selection.attempts(max(latest, found.state().status.generation) if found else latest)
        for log in logs:
            key = log["generation"], log["rank"]
            if key not in existing and _is_selected(key, selection.ranks, attempts):
                yield job_id, log


def _is_selected(key: tuple[int, int], ranks: Collection[int] | None, attempts: range | None) -> bool:
    generation, rank = key
    return (ranks is None or rank in ranks) and (attempts is None or generation in attempts)


def stored_lines(job_id: str, log: Mapping[str, Any]) -> Iterator[LogLine]:
    """Yields the lines of a stored log. Their times are not stored."""
    file = LogFile(job_id, log["generation"], log["rank"], "out", Path(log["pod"]))
    for text in log["text"].splitlines():
        yield LogLine(file, 0, text)


def _follow(
    cluster: ClusterClient,
    jobs: Sequence[JobObject],
    sources: Sequence[PodLogs],
    printer: _LinePrinter,
    selection: LogSelection,
) -> None:
    """Prints new lines until every job has ended."""
    stream = cluster.follow(",".join(job.id for job in jobs))
    pause = _MIN_POLL_S
    with contextlib.closing(stream):
        while not any(event["type"] == "all ended" for event in stream.poll(pause)):
            printed = [printer.print_matching(each, each.poll(), selection) for each in sources]
            pause = _MIN_POLL_S if any(printed) else min(pause * 1.5, _MAX_POLL_S)
    for each in sources:
        printer.print_matching(each, each.finish(), selection)


class _LinePrinter:
    """Prints lines with the node of their rank."""

    def __init__(self, screen: Screen, *, bare: bool, several: bool) -> None:
        self._screen, self._bare, self._several = screen, bare, several
        self._nodes: dict[tuple[int, int], str] = {}

    def add_nodes(self, nodes: Mapping[tuple[int, int], str]) -> None:
        """Adds nodes of ranks, by (generation, rank)."""
        self._nodes.update(nodes)

    def print_matching(self, source: PodLogs, lines: Iterable[LogLine], selection: LogSelection) -> bool:
        """Prints the matching new lines of one job; returns whether there were any."""
        self._nodes |= source.nodes
        return self.print_lines(line for line in lines if selection.matches(line))

    def print_lines(self, lines: Iterable[LogLine]) -> bool:
        """Prints lines; returns whether there were any. Raises BrokenPipeError if the reader has closed its pipe."""
        printed = False
        for line in lines:
            printed = True
            if self._bare:
                self._screen.bare(line)
            else:
                self._screen.rank(line, self._nodes, line.file.job_id if self._several else "")
        self._screen.flush()
        self._screen.check_reader()
        return printed
