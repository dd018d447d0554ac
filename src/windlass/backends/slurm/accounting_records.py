"""Jobs as `sacct` prints them, one line for each attempt: checked, as records of squeue with the same fields."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from windlass.backends.slurm.job_records import SlurmJob, job_of, join_components

DELIMITER = "\x1f"
"""A character that names and folders do not have."""
FIELDS = (
    *("JobID", "JobIDRaw", "User", "Partition", "State", "ExitCode", "Submit", "Start", "End", "NNodes", "NodeList"),
    *("ReqTRES", "TimelimitRaw", "WorkDir", "JobName"),
)
_ID = re.compile(r"([0-9]{1,10})(?:_([0-9]{1,10})|\+[0-9]{1,5})?")
_CODES = re.compile(r"([0-9]{1,3}):([0-9]{1,3})")
_GPUS = re.compile(r"(?:^|,)gres/(gpu=[0-9]{1,6})(?:,|$)")
_STARTS_AGAIN = frozenset({"REQUEUED", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL"})
"""States of an attempt after which Slurm queues a job again."""


def parse_accounting(text: str) -> list[SlurmJob]:
    """The jobs in the output of sacct, each as of its last attempt, with the number of its restarts."""
    attempts: dict[int, list[SlurmJob]] = {}
    for line in text.split("\n"):
        if (job := _attempt(line)) is not None:
            attempts.setdefault(job.number, []).append(job)
    return join_components([_last_attempt(each) for each in attempts.values()])


def _last_attempt(attempts: Sequence[SlurmJob]) -> SlurmJob:
    """The last attempt of a number; an earlier job that had this number, before a reset of Slurm, does not count."""
    ordered = sorted(attempts, key=lambda job: job.submitted)
    restarts = 0
    for earlier, later in pairwise(ordered):
        same = (earlier.name, earlier.user) == (later.name, later.user)
        restarts = restarts + 1 if same and earlier.states & _STARTS_AGAIN else 0
    return replace(ordered[-1], restarts=restarts)


def _attempt(line: str) -> SlurmJob | None:
    """The attempt of a line; None of a line of something else, as of members of an array that have never started."""
    cells = line.split(DELIMITER, len(FIELDS) - 1)
    found = _ID.fullmatch(cells[0])
    if len(cells) != len(FIELDS) or found is None:
        return None
    fields = dict(zip(FIELDS, cells, strict=True))
    number = _count(fields["JobIDRaw"])
    return None if number is None else replace(job_of(_record(fields, number, found)), is_accounted=True)


def _record(fields: Mapping[str, str], number: int, found: re.Match[str]) -> Mapping[str, Any]:
    """The line as a job of `squeue --json`."""
    codes, gpus = _CODES.fullmatch(fields["ExitCode"]), _GPUS.search(fields["ReqTRES"])
    first = int(found[1])
    return {
        "job_id": number,
        "name": fields["JobName"],
        "job_state": fields["State"].partition(" ")[0],
        "array_job_id": first if found[2] else None,
        "array_task_id": int(found[2]) if found[2] else None,
        "het_job_id": first if "+" in found[0] else None,
        "user_name": fields["User"],
        "partition": fields["Partition"],
        "nodes": "" if fields["NodeList"] == "None assigned" else fields["NodeList"],
        "node_count": _count(fields["NNodes"]),
        "tres_req_str": fields["ReqTRES"],
        "tres_per_job": gpus[1] if gpus else "",
        "time_limit": _count(fields["TimelimitRaw"]),
        "submit_time": _count(fields["Submit"]),
        "start_time": _count(fields["Start"]),
        "end_time": _count(fields["End"]),
        "exit_code": {"return_code": int(codes[1]), "signal": {"id": int(codes[2])}} if codes else None,
        "current_working_directory": fields["WorkDir"],
    }


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 16 else None
