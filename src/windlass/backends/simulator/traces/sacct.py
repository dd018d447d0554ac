"""The output of `sacct --parsable2` (-P), for example of this command.

    sacct -aXP -S 2026-01-01 -o JobID,User,Partition,State,Submit,Start,Elapsed,Timelimit,AllocTRES,ReqTRES

Steps (123.batch) are parts of their job, and jobs that never started or have not ended have no run time: both are left
out and counted. The first non-empty value of AllocTRES and ReqTRES is used; billing is not a resource.
Source: the manual pages of sacct and of TRES (Slurm 23.11).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from windlass.backends.simulator.errors import RowError
from windlass.backends.simulator.traces import cells as c
from windlass.backends.simulator.traces.job import TraceJob
from windlass.backends.simulator.traces.table import Columns, Parser, cell, needs

STEP = "step of a job"
NEVER_STARTED = "never started"
NOT_ENDED = "not ended"
_UNLIMITED = ("", "UNLIMITED", "Partition_Limit", "INVALID")
_NOT_A_TIME = ("", "Unknown", "None", "N/A")
_ELAPSED = re.compile(r"^(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?$")


def _parser(at: Mapping[str, int]) -> Parser:
    width = len(at)

    def job(cells: Sequence[str], row: int) -> TraceJob:
        needs(cells, width)
        job_id = cells[at["JobID"]].strip()
        if "." in job_id:
            raise RowError(STEP, f"{job_id} is a step; add -X to sacct")
        _ended(cells, at)
        nodes, gpus, cpu, memory, types = _asked(cells, at)
        return TraceJob(
            id=job_id or f"sacct-{row}",
            submit=c.parse_moment(cells[at["Submit"]], "Submit"),
            duration=elapsed(cells[at["Elapsed"]], "Elapsed"),
            gpus=gpus // nodes,
            replicas=nodes,
            cpu=cpu // nodes,
            memory=memory // nodes,
            gpu_types=types,
            user=cell(cells, at.get("User")),
            queue=cell(cells, at.get("Partition")) or "default",
            walltime=_limit(cell(cells, at.get("Timelimit"))),
            priority=0,
            status=cell(cells, at.get("State")).split(" ")[0],
            row=row,
        )

    return job


def _ended(cells: Sequence[str], at: Mapping[str, int]) -> None:
    state = cell(cells, at.get("State"))
    if state in ("PENDING", "REQUEUED"):
        raise RowError(NEVER_STARTED, "the job never started")
    if state in ("RUNNING", "SUSPENDED", "COMPLETING"):
        raise RowError(NOT_ENDED, f"the job is {state}; its run time is not known yet")
    start = cell(cells, at.get("Start"))
    if "Start" in at and start in _NOT_A_TIME:
        raise RowError(NEVER_STARTED, "the job never started")
    if start:
        began, came = c.parse_moment(start, "Start"), c.parse_moment(cells[at["Submit"]], "Submit")
        c.elapsed(began, came, "Start is before Submit")


def elapsed(text: str, name: str) -> int:
    """Parses [DD-[HH:]]MM:SS. Returns ms."""
    match = _ELAPSED.match(text.strip())
    if match is None:
        raise RowError("not a time", f"{name} is {text[:40]!r}; expected [DD-]HH:MM:SS")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return round(c.parse_number(str(total), name, c.LONGEST_S) * 1000)


def _limit(text: str) -> int | None:
    return None if text in _UNLIMITED else elapsed(text, "Timelimit")


def _asked(cells: Sequence[str], at: Mapping[str, int]) -> tuple[int, int, int, int, tuple[str, ...]]:
    """Returns (nodes, GPUs, milli-cores, bytes, models) over all nodes. Uneven shares are rounded down to even ones."""
    tres = _tres(cell(cells, at.get("AllocTRES")) or cell(cells, at.get("ReqTRES")))
    nodes = max(1, c.parse_integer(tres.get("node") or cell(cells, at.get("NNodes")) or "1", "nodes", c.MAX_GPUS))
    cores = c.parse_integer(tres.get("cpu") or cell(cells, at.get("NCPUS")) or "0", "cpu", 10**7)
    typed = {name.partition(":")[2]: count for name, count in tres.items() if name.startswith("gres/gpu:")}
    plain = tres.get("gres/gpu")
    gpus = (
        c.parse_gpus(plain, "gres/gpu") if plain else sum(c.parse_gpus(count, "gres/gpu") for count in typed.values())
    )
    return nodes, gpus, cores * 1000, c.parse_amount(tres.get("mem", "0"), "mem"), tuple(sorted(typed))


def _tres(text: str) -> dict[str, str]:
    return {name.strip(): value for name, _, value in (part.partition("=") for part in text.split(",") if part)}


SACCT = Columns("sacct", "sacct -P", ("JobID", "Submit", "Elapsed"), _parser, delimiter="|")
