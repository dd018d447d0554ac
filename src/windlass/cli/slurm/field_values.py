"""Values as Slurm's commands write them: states, times, lists of nodes, amounts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.cli.terminal.formatting import state_name
from windlass.jobs.slurm.hostlist import compress_hosts
from windlass.jobs.syntax.durations import clock_parts

NONE = "N/A"
NULL = "(null)"
STATE = ("phase", "reason")
"""Fields of a row that `job_state` needs."""
RUN_TIME = ("run_time", "running_since", "finished_at")
"""Fields of a row that `run_time` needs."""
LETTERS = {
    "PENDING": "PD", "CONFIGURING": "CF", "RUNNING": "R", "REQUEUED": "RQ", "SUSPENDED": "S", "COMPLETED": "CD",
    "FAILED": "F", "CANCELLED": "CA", "TIMEOUT": "TO", "NODE_FAIL": "NF", "DEADLINE": "DL",
}  # fmt: skip
"""State of a job → its letters."""
ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "DEADLINE"})
_STATES = {
    "Created": "PENDING", "Queued": "PENDING", "Admitted": "CONFIGURING", "Running": "RUNNING",
    "Restarting": "REQUEUED", "Suspended": "SUSPENDED", "Succeeded": "COMPLETED", "Failed": "FAILED",
    "Cancelled": "CANCELLED",
}  # fmt: skip
_REASONS = {"WalltimeExceeded": "TIMEOUT", "DeadlineExceeded": "DEADLINE", "NodeLost": "NODE_FAIL"}


def job_state(row: Mapping[str, Any]) -> str:
    """The state of a job by Slurm's name."""
    state = _STATES[state_name(row)]
    return _REASONS.get(str(row["reason"]), state) if state == "FAILED" else state


def slurm_duration(ms: int | None, absent: str = NONE) -> str:
    """A duration: "1-02:03:04", "2:03:04" or "3:04"."""
    if ms is None:
        return absent
    days, hours, minutes, seconds = clock_parts(max(0, ms) // 1000)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{seconds:02}"
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def slurm_time(at: int | None, absent: str = NONE) -> str:
    """A local time: "2026-11-27T08:37:47"."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at / 1000)) if at else absent


def slurm_memory(amount: int) -> str:
    """Memory in the largest unit that keeps it whole, from MiB on."""
    mebibytes = -(-amount // 2**20)
    return f"{mebibytes >> 10}G" if mebibytes and mebibytes % 1024 == 0 else f"{mebibytes}M"


def node_list(names: Sequence[str]) -> str:
    """Names of nodes, consecutive ones as ranges."""
    return compress_hosts(sorted(names, key=lambda name: (len(name), name)))


def run_time(row: Mapping[str, Any]) -> int:
    """Time for which a job has run until now or its end, in milliseconds."""
    since = row["running_since"]
    return int(row["run_time"] or 0) + (int(time.time() * 1000) - since if since and not row["finished_at"] else 0)
