"""The failed starts of a job by its history: which rank ended each of them, and how."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]

MAX_STARTS = 10
"""Newest failed starts that are compared."""
_END = re.compile(r"killed by \w+|exited with (?:code )?\d+")
_RANK = re.compile(r"\brank (\d{1,7})\b")
_RECOVERY = re.compile(r"last: (?P<end>.+), back after (?P<seconds>\d{1,7}\.\d+) s$")
_MAX_OUTPUT_DELAY_MS = 500
"""Time for which the last lines of a rank may be recorded after its end."""


@dataclass(frozen=True, slots=True)
class FailedStart:
    """One start of the ranks that failed: an attempt of the job, or a start by the agents within an attempt."""

    attempt: int
    rank: int
    end: str
    """End of the rank: `killed by SIGKILL` or `exited with code 3`."""
    until: int | None = None
    """Time, in ms, after which the lines of the rank may belong to the next start; None: its log has no other start."""
    streams: Sequence[str] = ()
    """Paths of the streams of the rank."""
    text: str = ""
    """Log of the rank, where no file has it."""


def failed_starts(details: Json, attempt: int) -> list[FailedStart]:
    """Returns the newest failed starts up to the end of an attempt, in the order of their times.

    `details`: all details of the job (`windlass.server.views.job_details`).
    """
    return [*_starts(details, attempt)][-MAX_STARTS:]


def _starts(details: Json, attempt: int) -> Iterator[FailedStart]:
    number, ended = 0, 0
    for change in details["transitions"]:
        number += change["after"] == "Admitted" and change["before"] != "Admitted"
        if number > attempt:
            return
        recovery = _RECOVERY.search(change["message"]) if change["event"] == "Recovered" else None
        if recovery:
            yield from _start(details, number, recovery["end"], _failed_at(change["at"], float(recovery["seconds"])))
        elif change["event"] == "MemberExited" and ended != number:
            ended = number  # the ends that follow are those of a gang that is being stopped
            yield from _start(details, number, change["message"], None)


def _failed_at(recovered_at: int, seconds: float) -> int:
    """Time after which the next start may print."""
    took = round(seconds * 1000)
    return recovered_at - took + min(took // 2, _MAX_OUTPUT_DELAY_MS)


def _start(details: Json, attempt: int, message: str, until: int | None) -> Iterator[FailedStart]:
    end, named = _END.search(message), _RANK.search(message)
    rank = int(named[1]) if named else _rank_with_end(details["tasks"], attempt, message)
    if end and rank is not None:
        yield FailedStart(attempt, rank, end[0], until)


def _rank_with_end(tasks: Sequence[Json], attempt: int, message: str) -> int | None:
    """Returns the rank of the pod whose end the message tells."""
    own = (task for task in tasks if task["generation"] == attempt and task["detail"])
    return next((int(task["rank"]) for task in own if task["detail"] in message), None)
