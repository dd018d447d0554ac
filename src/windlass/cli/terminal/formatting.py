"""Formats durations, times, amounts, states and lists for people."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.core.model.resources import PODS, format_readable

_LEVELS = ((86_400_000, "d", 3_600_000, "h"), (3_600_000, "h", 60_000, "m"), (60_000, "m", 1_000, "s"))


def format_duration(milliseconds: int | None) -> str:
    """Returns a duration in its two largest units: "40 ms", "1.2 s", "3m04s", "2h10m", "5d03h"."""
    if milliseconds is None:
        return "-"
    if milliseconds < 1_000:
        return f"{max(0, milliseconds)} ms"
    if milliseconds < 60_000:
        return f"{milliseconds // 100 / 10:.1f} s"
    for size, name, small, small_name in _LEVELS:
        if milliseconds >= size:
            return f"{milliseconds // size}{name}{milliseconds % size // small:02}{small_name}"
    return ""


def format_time(at: int | None, now: int | None = None) -> str:
    """Returns a local time: "14:20:05" today, "11-21 14:20" on another day, "2028-02-29 00:00" of another year."""
    if at is None:
        return "-"
    then, today = time.localtime(at / 1000), time.localtime((now if now is not None else time.time() * 1000) / 1000)
    of_year = "%H:%M:%S" if then[:3] == today[:3] else "%m-%d %H:%M"
    return time.strftime(of_year if then[0] == today[0] else "%Y-%m-%d %H:%M", then)


_CERTAINTIES = {"bound": "by", "earliest": "from"}


def format_start(at: int | None, sure: str, now: int | None = None) -> str:
    """Returns an expected start: "by 14:20:05" is a guaranteed bound, "from 14:20:05" a begin time, "~" an estimate."""
    if at is None:
        return "-"
    return f"{_CERTAINTIES.get(sure, '~')} {format_time(at, now)}"


def format_resources(resources: Mapping[str, int]) -> str:
    """Returns "4 cpu, 16Gi memory, 2 gpu". The number of pods is left out: jobs do not request it."""
    shown = {name: value for name, value in resources.items() if value and name != PODS}
    return ", ".join(f"{format_readable(name, value)} {name}" for name, value in shown.items())


def state_name(job: Mapping[str, Any]) -> str:
    """Returns the state for people: a job that failed because it was cancelled is "Cancelled"."""
    return "Cancelled" if _was_cancelled(job) else str(job["phase"])


def _was_cancelled(job: Mapping[str, Any]) -> bool:
    return bool(job["phase"] == "Failed" and job["reason"] == "Cancelled")


def reason_text(job: Mapping[str, Any], *, token: bool = True) -> str:
    """Returns why a job is in its state. For a queued job: a sentence, with `token` followed by the reason code."""
    reason, message = str(job["reason"]), join_lines(str(job["message"]))
    if not message:
        return reason
    if _was_cancelled(job):
        return message
    if job["phase"] != "Queued":
        return message if reason == job["phase"] else f"{reason}: {message}"
    return f"{message} ({reason})" if token else message


def join_lines(text: str) -> str:
    """Returns text of others on one line: a message cannot look like several."""
    return " ".join(text.splitlines()) if "\n" in text else text


def pluralize(count: int, one: str, many: str = "") -> str:
    """Returns "1 job", "3 jobs"."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def shorten(names: Sequence[str], most: int = 4) -> str:
    """Returns "n1,n2,n3,n4 and 12 more"."""
    head = ",".join(names[:most])
    return f"{head} and {len(names) - most} more" if len(names) > most else head
