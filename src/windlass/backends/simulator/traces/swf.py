"""The Standard Workload Format, version 2.2: 18 numbers per job, -1 for unknown, comments after a semicolon.

Each processor becomes a replica of one core, with the memory that the job used or requested per processor.
Source: Chapin et al., "Benchmarks and Standards for the Evaluation of Parallel Job Schedulers", JSSPP'99.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.backends.simulator.errors import RowError
from windlass.backends.simulator.traces import cells as c
from windlass.backends.simulator.traces.job import TraceJob
from windlass.backends.simulator.traces.sacct import NEVER_STARTED

FIELDS = 18
NAME = "swf"
TITLE = "Standard Workload Format"
_STATUS = {"0": "failed", "1": "completed", "2": "partial", "3": "partial", "4": "partial", "5": "cancelled"}
_UNKNOWN = "-1"


def job_of(cells: Sequence[str], row: int) -> TraceJob:
    """Parses one line. Raises RowError."""
    if len(cells) != FIELDS:
        raise RowError("short row", f"the row has {len(cells)} of {FIELDS} fields")
    number, submit, _wait, run, used, _cpu, memory, asked, limit, asked_memory, status, user = cells[:12]
    if run == _UNKNOWN:
        raise RowError(NEVER_STARTED, "the run time (4th field) is -1: the job never ran")
    processors = c.parse_integer(asked if _known(asked) else used, "processors (8th or 5th field)", c.MAX_GPUS)
    if processors == 0:
        raise RowError("value out of range", "the job ran on 0 processors (5th and 8th field)")
    each = asked_memory if _known(asked_memory) else memory
    return TraceJob(
        id=number,
        submit=c.parse_seconds(submit, "submit time (2nd field)"),
        duration=c.parse_duration(run, "run time (4th field)"),
        replicas=processors,
        cpu=1000,
        memory=c.parse_integer(each, "memory (7th or 10th field)", 2**40) << 10 if _known(each) else 0,
        user=user if _known(user) else "",
        queue=f"q{cells[14]}" if _known(cells[14]) else "default",
        walltime=c.parse_duration(limit, "requested time (9th field)") if _known(limit) else None,
        status=_STATUS.get(status, ""),
        row=row,
    )


def _known(text: str) -> bool:
    return text not in (_UNKNOWN, "0", "-1.0")
