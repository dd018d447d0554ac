"""The mark of exported traces: the last event whose spans are sent, and milestones of jobs that have not ended.

It is saved, so that another controller goes on behind it: a span is repeated only if a process ends between the
receiver's answer and the save, and then with the same ids.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from windlass.server.telemetry_export.job_trace import Milestone
from windlass.telemetry.frames import MetricFrame

MARK_NAME = "traces.json"
_MAX_JOBS, _MAX_MILESTONES = 1_000, 50
_MIN_GAP_MS = 1_500
"""Times of one checkpoint that successive frames report differ by less: an age has the precision of a float."""
_MAX_BYTES = 16 << 20
_JOB = "job/"
_READ = ("windlass_job_attempt", "windlass_job_step", "windlass_job_checkpoint_age_seconds")


class JobMilestones(msgspec.Struct):
    """Knowledge of a running job: its present attempt, the newest checkpoint (ms), and milestones so far."""

    attempt: int = 0
    saved: int = 0
    is_stepping: bool = False
    milestones: list[Milestone] = msgspec.field(default_factory=list)


class TraceMark(msgspec.Struct):
    """`after`: number of the last event whose spans are sent."""

    after: int
    jobs: dict[str, JobMilestones] = msgspec.field(default_factory=dict)

    def observe(self, frames: Iterable[MetricFrame]) -> bool:
        """Adds the first steps and checkpoints that frames of jobs show. Returns whether there is a new one."""
        news = [self._observe(frame) for frame in frames if frame.scope.startswith(_JOB)]
        while len(self.jobs) > _MAX_JOBS:
            del self.jobs[next(iter(self.jobs))]
        return any(news)

    def milestones(self, job_id: str) -> list[Milestone]:
        """Milestones of a job, oldest first."""
        known = self.jobs.get(job_id)
        return known.milestones if known else []

    def forget(self, job_id: str) -> None:
        """Removes an ended job."""
        self.jobs.pop(job_id, None)

    def _observe(self, frame: MetricFrame) -> bool:
        values = {name: float(vector[0]) for name, vector in frame.values.items() if name in _READ}
        job = self.jobs.setdefault(frame.scope.removeprefix(_JOB), JobMilestones())
        count = len(job.milestones)
        attempt, step = int(values.get("windlass_job_attempt", 0)), int(values.get("windlass_job_step", 0))
        if attempt != job.attempt:
            job.attempt, job.saved, job.is_stepping = attempt, 0, False
        if step > 0 and not job.is_stepping:
            job.is_stepping = True
            job.milestones.append(Milestone(frame.time, "first step", step))
        self._observe_checkpoint(job, frame.time, values, step)
        del job.milestones[:-_MAX_MILESTONES]
        return len(job.milestones) != count

    def _observe_checkpoint(self, job: JobMilestones, now: int, values: Mapping[str, float], step: int) -> None:
        """Adds a checkpoint. The first age of an attempt may be that of its begin, so it only sets the baseline."""
        age = values.get("windlass_job_checkpoint_age_seconds")
        if age is None:
            return
        saved = now - round(age * 1000)
        if job.saved and saved - job.saved > _MIN_GAP_MS:
            job.milestones.append(Milestone(saved, "checkpoint", step))
        if not job.saved or saved - job.saved > _MIN_GAP_MS:
            job.saved = saved


class MarkStore(Protocol):
    """Storage of the mark. Methods raise OSError or an error of the backend, and are repeated."""

    async def load(self) -> TraceMark | None:
        """The saved mark; None if there is none that can be read."""

    async def save(self, mark: TraceMark) -> None:
        """Saves the mark."""


class MarkFile:
    """The mark in a file of the state folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / MARK_NAME

    async def load(self) -> TraceMark | None:
        """See `MarkStore`."""
        try:
            with self._path.open("rb") as file:
                return decode_mark(file.read(_MAX_BYTES))
        except OSError:
            return None

    async def save(self, mark: TraceMark) -> None:
        """Replaces the file in one step."""
        new = self._path.with_suffix(".new")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(encode_mark(mark))
        new.replace(self._path)


def encode_mark(mark: TraceMark) -> bytes:
    """The mark as JSON."""
    return msgspec.json.encode(mark)


def decode_mark(data: bytes | str) -> TraceMark | None:
    """Inverse of `encode_mark`; None for anything else."""
    try:
        return msgspec.json.decode(data, type=TraceMark)
    except msgspec.MsgspecError:
        return None
