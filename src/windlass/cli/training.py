"""How far a job's training is, as lines for people. Pure."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from windlass.cli.words import amount, several, span

Json = dict[str, Any]
_ENDED = ("Succeeded", "Failed")
_SHORTEST = 0.5
"""Milliseconds of a phase that are worth a word."""


def how_far(job: Json, now: int | None = None) -> Iterator[str]:
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
        steps(seen) and f"step {steps(seen)}",
        loss(seen) and f"loss {loss(seen)}",
        pace(seen) and f"{pace(seen)} a step{_split(seen)}",
        rate(seen) and f"{rate(seen)} samples/s",
        f"MFU {seen['utilisation']:.1%}" if seen["utilisation"] is not None else "",
        f"{amount('memory', int(seen['memory']))} at most" if seen["memory"] else "",
        f"{span(seen['eta'])} to go" if seen["eta"] else "",
    ]
    return ", ".join(filter(None, parts))


def _split(seen: Json) -> str:
    told = ", ".join(f"{phase} {spent:.0f}" for phase, spent in seen["phases"].items() if spent >= _SHORTEST)
    return f" ({told})" if told else ""


def _heard(seen: Json, now: int) -> str:
    """Heartbeats where there are any, else what was printed last."""
    if seen["heartbeat_at"] is not None:
        last = next(rank for rank in seen["ranks"] if rank["rank"] == seen["behind"])
        where = f"{last['phase']} of step {last['step']} for {span(now - last['at'])}"
        return f"last heartbeat {span(now - seen['heartbeat_at'])} ago; furthest behind is rank {last['rank']}: {where}"
    if seen["printed_at"] is not None:
        return (
            f"no heartbeats ({several(len(seen['ranks']), 'rank')}); last output {span(now - seen['printed_at'])} ago"
        )
    return ""


def steps(seen: Json) -> str:
    """ "40/1000", "40", or "" if nothing is known."""
    if seen["step"] is None:
        return ""
    return f"{seen['step']}/{seen['steps']}" if seen["steps"] else str(seen["step"])


def loss(seen: Json) -> str:
    """Four digits of it."""
    return "" if seen["loss"] is None else f"{seen['loss']:.4g}"


def pace(seen: Json) -> str:
    """How long a step takes."""
    return "" if seen["step_ms"] is None else f"{seen['step_ms']:.0f} ms"


def rate(seen: Json) -> str:
    """Samples in a second."""
    found = seen["samples_per_second"]
    return "" if found is None else f"{found:.1f}" if found < 100 else f"{found:,.0f}"
