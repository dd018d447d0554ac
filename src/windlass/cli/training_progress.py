"""How far a job's training is, as lines for people. Pure."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from windlass.cli.terminal.formatting import format_amount, format_duration, pluralize

Json = dict[str, Any]
_ENDED = ("Succeeded", "Failed")
_SHORTEST = 0.5
"""Milliseconds of a phase that are worth a word."""


def progress_lines(job: Json, now: int | None = None) -> Iterator[str]:
    """Lines for `windlass status`: the step and what it costs, how long ago that was heard, what was overcome."""
    recoveries = job["status"].get("recoveries", 0)
    if recoveries and job["phase"] in _ENDED:  # while it runs, its message says more
        yield f"recovered in place {recoveries}×"
    seen = job.get("progress")
    if not seen:
        return
    now = int(time.time() * 1000) if now is None else now
    if line := _step(seen):
        yield line
    if job["phase"] not in _ENDED and (line := _heard(seen, now)):
        yield line
    if seen["slow"]:
        yield f"waits for rank {', '.join(map(str, seen['slow']))}: more work a step there than elsewhere"


def _step(seen: Json) -> str:
    parts = [
        format_steps(seen) and f"step {format_steps(seen)}",
        format_loss(seen) and f"loss {format_loss(seen)}",
        format_pace(seen) and f"{format_pace(seen)} a step{_split(seen)}",
        format_rate(seen) and f"{format_rate(seen)} samples/s",
        f"MFU {seen['utilisation']:.1%}" if seen["utilisation"] is not None else "",
        f"{format_amount('memory', int(seen['memory']))} at most" if seen["memory"] else "",
        f"{format_duration(seen['eta'])} to go" if seen["eta"] else "",
    ]
    return ", ".join(filter(None, parts))


def _split(seen: Json) -> str:
    told = ", ".join(f"{phase} {spent:.0f}" for phase, spent in seen["phases"].items() if spent >= _SHORTEST)
    return f" ({told})" if told else ""


def _heard(seen: Json, now: int) -> str:
    """Heartbeats where there are any, else what was printed last."""
    if seen["heartbeat_at"] is not None:
        last = next(rank for rank in seen["ranks"] if rank["rank"] == seen["behind"])
        where = f"{last['phase']} of step {last['step']} for {format_duration(now - last['at'])}"
        ago = format_duration(now - seen["heartbeat_at"])
        return f"last heartbeat {ago} ago; furthest behind is rank {last['rank']}: {where}"
    if seen["printed_at"] is not None:
        ago = format_duration(now - seen["printed_at"])
        return f"no heartbeats ({pluralize(len(seen['ranks']), 'rank')}); last output {ago} ago"
    return ""


def format_steps(seen: Json) -> str:
    """ "40/1000", "40", or "" if nothing is known."""
    if seen["step"] is None:
        return ""
    return f"{seen['step']}/{seen['steps']}" if seen["steps"] else str(seen["step"])


def format_loss(seen: Json) -> str:
    """Four digits of it."""
    return "" if seen["loss"] is None else f"{seen['loss']:.4g}"


def format_pace(seen: Json) -> str:
    """How long a step takes."""
    return "" if seen["step_ms"] is None else f"{seen['step_ms']:.0f} ms"


def format_rate(seen: Json) -> str:
    """Samples in a second."""
    found = seen["samples_per_second"]
    return "" if found is None else f"{found:.1f}" if found < 100 else f"{found:,.0f}"
