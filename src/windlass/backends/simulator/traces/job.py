"""A job of the past, as every trace format tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.core.model.job import DEFAULT_QUEUE


@dataclass(frozen=True, slots=True)
class TraceJob:
    """Times in ms; cpu in milli-cores, memory in bytes, shared GPUs in thousandths of one.

    `gpus`, `cpu`, `memory` and `gpu_milli` are what each of the `replicas` asks for. `replicas` None: they are asked
    for in all, and whoever places the job divides it into whole nodes and a remainder (`backends.simulator.gangs`).
    """

    id: str
    submit: int
    """When it was handed in: since the Unix epoch, or since the trace's own zero."""
    duration: int
    """How long it runs when nothing is in its way."""
    gpus: int = 0
    replicas: int | None = 1
    cpu: int = 0
    memory: int = 0
    gpu_milli: int = 0
    """Part of one GPU that each replica shares with others; `gpus` is 0 then."""
    gpu_types: tuple[str, ...] = ()
    """Models it may run on, best first. Empty: any."""
    user: str = ""
    queue: str = DEFAULT_QUEUE
    walltime: int | None = None
    """The limit that its user gave. None: none."""
    priority: int = 0
    status: str = ""
    """How it ended in the trace, in the trace's own word."""
    row: int = 0
    """The line of the file it was read from, counted from 1; 0 if it comes from no file."""
    file: int = 0
    """Which of its trace's files that is."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs by submission, then by their place in the file."""

    name: str
    format: str
    jobs: tuple[TraceJob, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Rows that are not among the jobs, by cause."""
    files: tuple[str, ...] = ()
    """Where it was read from, as it was given. `name` is for reports, which tell nothing of the machine."""

    @property
    def place(self) -> str:
        """What an error calls it."""
        return ", ".join(self.files) or self.name

    def file_of(self, job: TraceJob) -> str:
        """What an error calls the file that has the row of the job."""
        return self.files[job.file] if self.files else self.name
