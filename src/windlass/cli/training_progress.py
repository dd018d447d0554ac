"""Formats the training progress of a job as lines for people. Pure."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from windlass.cli.terminal.formatting import format_duration, join_lines, pluralize
from windlass.core.model.resources import format_readable
from windlass.core.model.status import TERMINAL

Json = dict[str, Any]
_SHORTEST_PHASE_MS = 0.5
"""Shorter phases of a step are left out."""


def progress_lines(job: Json, now: int | None = None) -> Iterator[str]:
    """Yields the lines of `windlass status`: recoveries, restarts, step and its time, last heartbeat, slow ranks."""
    recoveries = job["status"].get("recoveries", 0)
    if recoveries and job["phase"] in TERMINAL:  # while it runs, its message is more precise
        yield f"recovered in place {recoveries}×"
    if restarts := job["status"].get("container_restarts", 0):
        yield restart_line(restarts)
    if wait := job.get("member_wait"):
        yield member_wait_line(wait)
    progress = job.get("progress")
    if not progress:
        return
    now = int(time.time() * 1000) if now is None else now
    if line := _step(progress):
        yield line
    if job["phase"] not in TERMINAL and (line := _last_sign(progress, now)):
        yield line
    if progress["slow"]:
        yield f"slow rank {', '.join(map(str, progress['slow']))}: more work per step than others, which wait for it"


def restart_line(restarts: int) -> str:
    """Returns how often containers of a job's pods were restarted in place."""
    return f"kubelets have restarted its containers {pluralize(restarts, 'time')}"


def member_wait_line(wait: Json) -> str:
    """Returns why members of a job do not run, or which one its kubelet restarts again and again."""
    about = "restarts in place" if wait["reason"] in _RESTARTS else "not all members run"
    return f"{about}: {join_lines(wait['message'])} ({wait['reason']})"


_RESTARTS = ("CrashLoopBackOff", "RestartedInPlace")
"""Reasons of members that ran, ended, and are restarted in place."""


def _step(progress: Json) -> str:
    parts = [
        format_steps(progress) and f"step {format_steps(progress)}",
        format_loss(progress) and f"loss {format_loss(progress)}",
        format_pace(progress) and f"{format_pace(progress)} per step{_split(progress)}",
        format_rate(progress) and f"{format_rate(progress)} samples/s",
        f"MFU {progress['utilisation']:.1%}" if progress["utilisation"] is not None else "",
        f"{format_readable('memory', int(progress['memory']))} peak memory" if progress["memory"] else "",
        f"{format_duration(progress['eta'])} left" if progress["eta"] else "",
    ]
    return ", ".join(filter(None, parts))


def _split(progress: Json) -> str:
    shown = ", ".join(
        f"{phase} {spent:.0f}" for phase, spent in progress["phases"].items() if spent >= _SHORTEST_PHASE_MS
    )
    return f" ({shown})" if shown else ""


def _last_sign(progress: Json, now: int) -> str:
    """Returns the age of the last heartbeat and the slowest rank; without heartbeats, the age of the last output."""
    if progress["heartbeat_at"] is not None:
        last = next(rank for rank in progress["ranks"] if rank["rank"] == progress["behind"])
        where = f"{last['phase']} of step {last['step']} for {format_duration(now - last['at'])}"
        ago = format_duration(now - progress["heartbeat_at"])
        return f"last heartbeat {ago} ago; furthest behind is rank {last['rank']}: {where}"
    if progress["printed_at"] is not None:
        ago = format_duration(now - progress["printed_at"])
        return f"no heartbeats ({pluralize(len(progress['ranks']), 'rank')}); last output {ago} ago"
    return ""


def format_steps(progress: Json) -> str:
    """Returns "40/1000", "40" without a known total, or ""."""
    if progress["step"] is None:
        return ""
    return f"{progress['step']}/{progress['steps']}" if progress["steps"] else str(progress["step"])


def format_loss(progress: Json) -> str:
    """Returns the loss with four digits, or ""."""
    return "" if progress["loss"] is None else f"{progress['loss']:.4g}"


def format_pace(progress: Json) -> str:
    """Returns the time of a step in ms, or ""."""
    return "" if progress["step_ms"] is None else f"{progress['step_ms']:.0f} ms"


def format_rate(progress: Json) -> str:
    """Returns samples per second, or ""."""
    found = progress["samples_per_second"]
    return "" if found is None else f"{found:.1f}" if found < 100 else f"{found:,.0f}"
