"""A job of a trace, independent of the trace's format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.core.model.job import DEFAULT_QUEUE


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace.

    Times in ms, cpu in milli-cores, memory in bytes, shared GPUs in thousandths of one GPU.

    `gpus`, `cpu`, `memory` and `gpu_milli` are the request of each of the `replicas`. `replicas` None: the amounts are
    totals, which `backends.simulator.gangs` divides into whole nodes and a remainder.
    """

    id: str
    submit: int
    """Submission time: since the Unix epoch, or since the trace's own origin."""
    duration: int
    """Run time without interruption."""
    gpus: int = 0
    replicas: int | None = 1
    cpu: int = 0
    memory: int = 0
    gpu_milli: int = 0
    """Part of a shared GPU for each replica; `gpus` is 0 then."""
    gpu_types: tuple[str, ...] = ()
    """GPU models that the job may run on, in order of preference. Empty: any."""
    user: str = ""
    queue: str = DEFAULT_QUEUE
    walltime: int | None = None
    """Time limit set by the user. None: no limit."""
    priority: int = 0
    status: str = ""
    """Final status of the job, in the trace's own term."""
    row: int = 0
    """Line number in its file, from 1; 0 if the job comes from no file."""
    file: int = 0
    """Index of its file among the trace's files."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs ordered by submission time, then by their place in the file."""

    name: str
    format: str
    jobs: tuple[TraceJob, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Number of rows that were left out, by cause."""
    files: tuple[str, ...] = ()
    """Paths as the user gave them. `name` is for reports, which contain no paths of the machine."""

    @property
    def place(self) -> str:
        """Name of the trace in error texts."""
        return ", ".join(self.files) or self.name

    def file_of(self, job: TraceJob) -> str:
        """Name, in error texts, of the file that contains the row of a job."""
        return self.files[job.file] if self.files else self.name
