"""`windlass logs` on a cluster: what the pods there are say, and what was kept of those that are gone."""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windlass.backends.local.logs import Line, LogFile
from windlass.cli.exit_codes import ExitCode
from windlass.cli.kubernetes.client import ClusterClient
from windlass.cli.kubernetes.job_objects import JobObject
from windlass.cli.kubernetes.pod_logs import PodLogs
from windlass.cli.terminal.screen import Screen
from windlass.server.errors import ApiError, Code

Json = dict[str, Any]
_QUICK, _SLOW = 0.05, 0.5
"""Seconds between two looks: while something comes, and when nothing has for a while."""


@dataclass(frozen=True, slots=True)
class LogSelection:
    """Which lines. `attempt` None: of the latest, 0: of all; `since` in ms; `tail` None: all."""

    passes: Callable[[Line], bool]
    ranks: Collection[int] | None = None
    attempt: int | None = None
    since: int | None = None
    tail: int | None = None
    follow: bool = False
    bare: bool = False

    def attempts(self, latest: int) -> range | None:
        """Generations to be shown; `latest` is the one that runs, or ran last."""
        if self.attempt == 0:
            return None
        first = self.attempt or max(latest, 1)
        return range(first, sys.maxsize if self.follow and not self.attempt else first + 1)


def show_logs(context: str, namespace: str, name: str, wanted: LogSelection, screen: Screen) -> int:
    """Show what a job has printed there, and what it prints from now on if that is wanted. Raises ApiError."""
    cluster = ClusterClient.at(context, namespace)
    jobs = cluster.finder.find(name)
    show = _Shown(screen, bare=wanted.bare, several=len(jobs) > 1)
    # 1. What is gone from the cluster was kept by the operator.
    gone = list(_kept(cluster, name, jobs, wanted))
    if not jobs and not gone:
        raise cluster.finder.unknown(name)
    kept = [line for job_id, log in gone for line in _of(job_id, log, screen)]
    # 2. What is there is asked of the pods.
    sources = [_lines(cluster, job, wanted) for job in jobs]
    past = [line for each in sources for line in (each.poll() if wanted.follow else each.finish())]
    show.nodes({(log["generation"], log["rank"]): log["node"] for _, log in gone})
    for each in sources:
        show.nodes(each.nodes)
    lines = [line for line in (*kept, *past) if wanted.passes(line)]
    came = show.lines(lines if wanted.tail is None else deque(lines, wanted.tail))
    # 3. What is to come.
    if wanted.follow and jobs:
        _follow(cluster, jobs, sources, show, wanted)
    elif not came and wanted.tail != 0:
        trouble = next((each.trouble for each in sources if each.trouble), "")
        screen.say(f"the log of {trouble}" if trouble else f"{name} has printed nothing that is still there")
    screen.close()
    return ExitCode.OK


def _lines(cluster: ClusterClient, job: JobObject, wanted: LogSelection) -> PodLogs:
    attempts = wanted.attempts(job.state().status.generation)
    return PodLogs(cluster.reach, job, ranks=wanted.ranks, attempts=attempts, since=wanted.since, follow=wanted.follow)


def _kept(
    cluster: ClusterClient, name: str, jobs: Sequence[JobObject], wanted: LogSelection
) -> Iterator[tuple[str, Json]]:
    """The ends of the logs of members whose pods are gone, by job. Without an operator there are none."""
    for job_id in [job.id for job in jobs] or [cluster.finder.id_of(name)]:
        there = {job.id: job for job in jobs}.get(job_id)
        living = {(pod.generation, pod.rank) for pod in cluster.ranks(there)} if there else set()
        try:
            logs = cluster.kept_logs(job_id)
        except ApiError as error:
            if error.code is Code.INTERNAL:
                raise
            continue
        latest = max((log["generation"] for log in logs), default=0)
        attempts = wanted.attempts(max(latest, there.state().status.generation) if there else latest)
        for log in logs:
            key = log["generation"], log["rank"]
            if key not in living and _is_wanted(key, wanted.ranks, attempts):
                yield job_id, log


def _is_wanted(key: tuple[int, int], ranks: Collection[int] | None, attempts: range | None) -> bool:
    generation, rank = key
    return (ranks is None or rank in ranks) and (attempts is None or generation in attempts)


def _of(job_id: str, log: Mapping[str, Any], screen: Screen) -> Iterator[Line]:
    """The lines of one that was kept: when they were printed is not known any more."""
    if log["missing"]:
        screen.say(f"rank {log['rank']} of attempt {log['generation']}: {log['missing']}")
    file = LogFile(job_id, log["generation"], log["rank"], "out", Path(log["pod"]))
    for text in log["text"].splitlines():
        yield Line(file, 0, text)


def _follow(
    cluster: ClusterClient, jobs: Sequence[JobObject], sources: Sequence[PodLogs], show: _Shown, wanted: LogSelection
) -> None:
    """Until every job has ended."""
    stream = cluster.follow(",".join(job.id for job in jobs))
    pause = _QUICK
    with contextlib.closing(stream):
        while not any(event["type"] == "all ended" for event in stream.poll(pause)):
            came = [show.of(each, each.poll(), wanted) for each in sources]
            pause = _QUICK if any(came) else min(pause * 1.5, _SLOW)
    for each in sources:
        show.of(each, each.finish(), wanted)


class _Shown:
    """Lines on the screen, with the node that each came from."""

    def __init__(self, screen: Screen, *, bare: bool, several: bool) -> None:
        self._screen, self._bare, self._several = screen, bare, several
        self._nodes: dict[tuple[int, int], str] = {}

    def nodes(self, found: Mapping[tuple[int, int], str]) -> None:
        """Learn where ranks are, or were."""
        self._nodes.update(found)

    def of(self, source: PodLogs, lines: Iterable[Line], wanted: LogSelection) -> bool:
        """Show what has come of one job; whether there was any."""
        self._nodes |= source.nodes
        return self.lines(line for line in lines if wanted.passes(line))

    def lines(self, lines: Iterable[Line]) -> bool:
        """Show them; whether there were any."""
        came = False
        for line in lines:
            came = True
            if self._bare:
                self._screen.bare(line)
            else:
                self._screen.rank(line, self._nodes, line.file.job_id if self._several else "")
        self._screen.flush()
        if self._screen.reader_left:
            raise BrokenPipeError
        return came
