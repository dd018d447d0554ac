"""The activity of a job's running ranks: the status files of their agents, and the time of their last output.

Read from files, so it is available with and without a controller.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from windlass import wire
from windlass.backends.local.logs import STREAMS, agent_name
from windlass.backends.local.paths import StatePaths
from windlass.backends.local.state_reader import Task
from windlass.core.model.job import Job, Launcher

Json = dict[str, Any]


def rank_activity(paths: StatePaths, job: Job, tasks: Sequence[Task]) -> list[Json]:
    """Returns, for each rank of the newest generation: rank, node, pid, printed_at (ms, or None), and heartbeats.

    Heartbeats come from an agent's rank status file: step, phase, at (ms), values, reported_step,
    reported_at, code, env.
    """
    newest = max((task.generation for task in tasks), default=0)
    latest = sorted((task for task in tasks if task.generation == newest), key=lambda task: task.rank)
    if not latest:
        return []
    logs = paths.generation_logs(latest[0].job_id, newest)
    heartbeats: dict[int, Json] = {}
    if job.launcher is Launcher.AGENT:
        for task in latest:
            heartbeats |= _read_status_file(logs / agent_name(task.rank) / wire.STATUS_FILE)
    return [
        {**seen, **heartbeats.get(seen["rank"], {}), "printed_at": _last_output_time(logs, seen["rank"])}
        for seen in _ranks(job, latest)
    ]


def _ranks(job: Job, tasks: Sequence[Task]) -> Iterator[Json]:
    """Yields the ranks of the tasks; a task is a rank, or the agent of a replica's ranks."""
    procs = {role.name: role.procs for role in job.roles} if job.launcher is Launcher.AGENT else {}
    number = 0
    for task in tasks:
        for _ in range(procs.get(task.role, 1)):
            yield {"rank": number, "node": task.node, "pid": None if procs else task.pid}
            number += 1


def _read_status_file(path: Path) -> dict[int, Json]:
    try:
        return {int(rank["rank"]): rank for rank in json.loads(path.read_bytes())["ranks"]}
    except (OSError, ValueError, KeyError, TypeError):  # no status file yet
        return {}


def _last_output_time(logs: Path, rank: int) -> int | None:
    times = []
    for stream in STREAMS:
        try:
            times.append((logs / f"{rank}.{stream}").stat().st_mtime_ns // 1_000_000)
        except OSError:
            continue
    return max(times, default=None)
