"""Windlass's own trace format: one JSON object per line. docs/reference/traces.md documents every field.

A line of `windlass history -o jsonl` is valid too: it has `created_at` and `run_time` in place of `submit` and
`duration`, and `request` for all replicas together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from windlass.backends.simulator.errors import RowError
from windlass.backends.simulator.traces import cells as c
from windlass.backends.simulator.traces.job import TraceJob
from windlass.backends.simulator.traces.sacct import NEVER_STARTED, NOT_ENDED
from windlass.core.model.job import DEFAULT_QUEUE
from windlass.core.model.resources import CPU, GPU, MAX_AMOUNT, MEMORY

NAME = "jsonl"
TITLE = "Windlass JSON lines"


class TraceLine(msgspec.Struct, frozen=True, gc=False):
    """The fields of a line. Other fields are ignored."""

    id: str = ""
    submit: int | None = None
    duration: int | None = None
    replicas: int | None = 1
    gpus: int = 0
    cpu: int = 0
    memory: int = 0
    gpu_milli: int = 0
    gpu_types: tuple[str, ...] = ()
    user: str = ""
    queue: str = DEFAULT_QUEUE
    walltime: int | None = None
    priority: int = 0
    status: str = ""
    created_at: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    run_time: int = 0
    """Time on nodes in ms; waiting time after a preemption is not included."""
    request: dict[str, int] | None = None
    phase: str = ""


_DECODER = msgspec.json.Decoder(TraceLine)
_ENDED = ("", "Succeeded", "Failed")


def job_of(text: str, row: int) -> TraceJob:
    """Parses one line. Raises RowError."""
    try:
        line = _DECODER.decode(text)
    except msgspec.DecodeError as error:
        raise RowError("not a line of JSON", f"{error}") from None
    if line.replicas is not None:
        _between(line.replicas, "replicas", c.MAX_GPUS)
        if line.replicas == 0:
            raise RowError("value out of range", "replicas is 0; a gang has one at least")
    each = line.request if line.request is not None else {}
    share = line.replicas or 1
    return TraceJob(
        id=line.id or f"line-{row}",
        submit=_submit(line),
        duration=_duration(line),
        gpus=_between(each.get(GPU, line.gpus * share) // share, "gpus", c.MAX_GPUS),
        replicas=line.replicas,
        cpu=_between(each.get(CPU, line.cpu * share) // share, "cpu", MAX_AMOUNT),
        memory=_between(each.get(MEMORY, line.memory * share) // share, "memory", MAX_AMOUNT),
        gpu_milli=_between(line.gpu_milli, "gpu_milli", 1000),
        gpu_types=line.gpu_types,
        user=line.user,
        queue=line.queue,
        walltime=None if line.walltime is None else _between(line.walltime, "walltime", c.LONGEST_S * 1000),
        priority=line.priority,
        status=line.status or line.phase,
        row=row,
    )


def _submit(line: TraceLine) -> int:
    at = line.created_at if line.submit is None else line.submit
    if at is None:
        raise RowError("missing value", "submit is missing")
    return _between(at, "submit", c.LATEST_S * 1000)


def _duration(line: TraceLine) -> int:
    if line.duration is not None:
        return _between(line.duration, "duration", c.LONGEST_S * 1000)
    if line.phase not in _ENDED:
        raise RowError(NOT_ENDED, f"the job is {line.phase}; its run time is not known yet")
    if line.run_time:
        return _between(line.run_time, "run_time", c.LONGEST_S * 1000)
    if line.started_at is None or line.finished_at is None:
        if line.phase:
            raise RowError(NEVER_STARTED, "the job never started")
        raise RowError("missing value", "duration is missing")
    return c.elapsed(line.finished_at, line.started_at, "finished_at is before started_at")


def _between(value: int, name: str, most: int) -> int:
    if value < 0:
        raise RowError("negative value", f"{name} is {value}, which is negative")
    if value > most:
        raise RowError("value out of range", f"{name} is {value}, and {most:,} is the maximum")
    return value


def written(jobs: Iterable[TraceJob]) -> str:
    """Writes jobs as lines without fields that have their default. `job_of` reads the same jobs back."""
    return "".join(msgspec.json.encode(_fields(job)).decode() + "\n" for job in jobs)


def _fields(job: TraceJob) -> Mapping[str, object]:
    plain = TraceJob(id="", submit=-1, duration=-1)
    fields = [name for name in TraceJob.__slots__ if name not in ("row", "file")]
    return {name: getattr(job, name) for name in fields if getattr(job, name) != getattr(plain, name)}
