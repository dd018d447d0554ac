"""Texts of the evidence that the record of a job has: how an attempt ended, and what its ranks reported."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from signal import SIGKILL, SIGTERM
from typing import Any

from windlass.core.model.diagnosed_cause import BY_VERDICT
from windlass.core.model.status import FailureClass
from windlass.server.diagnosis.evidence_request import LoggedText

Json = Mapping[str, Any]

_MAX_ENDS = 256
"""Ends of ranks that are evidence; those of a stopped gang say the same."""
_NO_EVIDENCE = ("Diagnosed", "Arrived", "Submitted", "Started", "Saved")
"""Events that say nothing about a failure. A verdict is no evidence for another."""
_RANK = re.compile(r"rank (\d{1,7})\b")


def record_texts(details: Json, attempt: int) -> list[LoggedText]:
    """Returns the lines of one attempt's history, its failure, and the ends of its ranks.

    `details`: all details of the job (`windlass.server.views.job_details`).
    """
    ends = list(_rank_ends(details, attempt))
    known = [end.text.rstrip() for end in ends]
    told = [*_history_lines(details["transitions"], attempt), *_failure_lines(details, attempt)]
    lines: dict[str, str] = {}
    for at, message in told:
        if not any(end in message for end in known):  # the end of a rank is evidence about that rank
            lines.setdefault(message, f"{_moment(at)} {message}")
    record = [LoggedText(f"record of {details['id']}", "\n".join(lines.values()) + "\n")] if lines else []
    return record + ends


def _history_lines(transitions: Sequence[Json], attempt: int) -> Iterator[tuple[int, str]]:
    """Yields the history of an attempt; before the first one, that of the waiting job."""
    number = 0
    for step in transitions:
        number += step["after"] == "Admitted" and step["before"] != "Admitted"
        if max(number, 1) == attempt and step["event"] not in _NO_EVIDENCE and step["message"]:
            yield step["at"], step["message"].partition(BY_VERDICT)[0]


def _failure_lines(details: Json, attempt: int) -> Iterator[tuple[int, str]]:
    """Yields the failure that ended the attempt; a preemption is told as such, not as the word of the reason alone."""
    failure = details["status"].get("last_failure")
    if not failure or attempt != details["status"].get("failed_generation"):
        return
    what = f"the gang {details['id']} was preempted" if _is_preemption(failure) else failure["reason"]
    yield failure["at"], f"{what}: {failure['message']}"


def _is_preemption(failure: Json) -> bool:
    return failure.get("kind") == FailureClass.PREEMPTION and failure.get("member") is None


def _rank_ends(details: Json, attempt: int) -> Iterator[LoggedText]:
    """Yields the end of each rank that failed, without those that were stopped after the first failure."""
    failed = [task for task in details["tasks"] if task["generation"] == attempt and task["detail"]]
    failed = [task for task in failed if task["code"] or task["signal"]]
    failure = details["status"].get("last_failure") or {}
    own = [task for task in failed if task["detail"] == failure.get("message") or not _may_be_stopped(task)]
    was_stopped = _is_preemption(failure) and attempt == details["status"].get("failed_generation")
    yield from islice(_distinct_ends(own if own or was_stopped else failed), _MAX_ENDS)


def _distinct_ends(tasks: Sequence[Json]) -> Iterator[LoggedText]:
    """Yields the end of each task; one that names a rank once, because all agents of a gang report the same rank.

    Such an end has the node that it names, else that of the first task.
    """
    told = set()
    for task in sorted(tasks, key=lambda each: f" on {each['node']} " not in each["detail"]):
        named = _RANK.match(task["detail"])
        rank = int(named[1]) if named else task["rank"]
        if named and task["detail"] in told:
            continue
        told.add(task["detail"])
        yield LoggedText(f"end of rank {rank}", task["detail"] + "\n", rank, task["node"])


def _may_be_stopped(task: Json) -> bool:
    """Tells whether an end looks like that of a process of a stopped gang."""
    return task["signal"] in (SIGTERM, SIGKILL) or task["code"] in (128 + SIGTERM, 128 + SIGKILL)


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
