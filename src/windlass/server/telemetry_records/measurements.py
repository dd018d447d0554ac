"""Frames of telemetry from what a controller and its records know. Pure: `now` is an argument, nothing is stored."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from windlass.core.model.snapshot import Snapshot
from windlass.core.model.status import TERMINAL, JobState, Phase
from windlass.core.queues.share_report import QueueShare, queue_shares
from windlass.server.progress import summarize_progress
from windlass.telemetry.frames import CLUSTER, MetricFrame, Vector, job_scope, queue_scope, scalar
from windlass.telemetry.metric_table import series_name

MAX_RANKS = 4_096
"""Ranks of a job whose own series are kept; those of a larger job are left out, its summary is not."""
_MAX_PHASES = 16
"""Phases of a job's step that are kept: a script can time any number of phases of its own."""
_MILLION = 1_000_000
_JOB_VALUES = {
    "windlass_job_step": ("step", 1.0),
    "windlass_job_loss": ("loss", 1.0),
    "windlass_job_step_seconds": ("step_ms", 1e-3),
    "windlass_job_samples_per_second": ("samples_per_second", 1.0),
    "windlass_job_mfu_ratio": ("utilisation", 1.0),
    "windlass_job_memory_bytes": ("memory", 1.0),
}
"""Field of `summarize_progress` and factor to the metric's unit, by metric."""
_RANK_VALUES = {
    "windlass_rank_step_seconds": ("step_ms", 1e-3),
    "windlass_rank_busy_seconds": ("busy_ms", 1e-3),
    "windlass_rank_wait_seconds": ("wait_ms", 1e-3),
    "windlass_rank_memory_bytes": ("memory", 1.0),
    "DCGM_FI_DEV_GPU_UTIL": ("gpu_utilisation", 100.0),
    "DCGM_FI_DEV_FB_USED": ("gpu_memory", 1.0 / (1 << 20)),
    "DCGM_FI_DEV_SM_CLOCK": ("gpu_sm_clock", 1.0),
    "DCGM_FI_DEV_GPU_TEMP": ("gpu_temperature", 1.0),
}
"""Measurement of a rank and factor to the metric's unit, by metric."""


def cluster_frame(snapshot: Snapshot, states: Iterable[JobState], reasons: Mapping[str, int], now: int) -> MetricFrame:
    """Nodes, capacity, and jobs by phase. `reasons`: number of waiting gangs by reason."""
    table = snapshot.table
    usable = table.usable
    values: dict[str, Vector] = {
        "windlass_nodes": scalar(len(table.nodes)),
        "windlass_nodes_usable": scalar(int(usable.sum())),
    }
    for column, name in enumerate(table.resource_names):
        capacity, free = table.capacity[:, column], snapshot.free[:, column]
        values[series_name("windlass_capacity", resource=name)] = scalar(int(capacity.sum()))
        values[series_name("windlass_allocated", resource=name)] = scalar(int((capacity - free).sum()))
        values[series_name("windlass_unusable", resource=name)] = scalar(int(free[~usable].sum()))
    phases = Counter(state.status.phase for state in states)
    values |= {
        series_name("windlass_jobs", phase=phase): scalar(phases[phase]) for phase in Phase if phase not in TERMINAL
    }
    values |= {series_name("windlass_pending_gangs", reason=name): scalar(n) for name, n in reasons.items()}
    return MetricFrame(CLUSTER, now, values)


def queue_frames(snapshot: Snapshot, states: Iterable[JobState], now: int) -> Iterator[MetricFrame]:
    """A frame for each queue of the tree."""
    oldest: dict[str, int] = {}
    for state in states:
        if state.status.phase is Phase.QUEUED and state.status.queued_at is not None:
            since = max(state.status.queued_at, state.job.begin or 0)
            oldest[state.job.queue] = min(oldest.get(state.job.queue, now), since)
    for share in queue_shares(snapshot):
        waited = (now - oldest.get(share.queue, now)) / 1000
        yield MetricFrame(
            queue_scope(share.queue),
            now,
            {**_share_values(share), "windlass_queue_oldest_wait_seconds": scalar(waited)},
        )


def _share_values(share: QueueShare) -> dict[str, Vector]:
    amounts = {"quota": share.quota, "held": share.held, "borrowed": share.borrowed, "lent": share.lent}
    by_resource = {
        series_name(f"windlass_queue_{name}", resource=resource): scalar(amount)
        for name, held in amounts.items()
        for resource, amount in held.items()
    }
    return {
        "windlass_queue_waiting": scalar(share.waiting),
        "windlass_queue_running": scalar(share.running),
        "windlass_queue_share_ratio": scalar(share.share / _MILLION),
        **by_resource,
    }


def job_frame(state: JobState, ranks: Sequence[Mapping[str, Any]], now: int) -> MetricFrame:
    """Progress of a job that holds nodes. `ranks`: as `DataSource.ranks_seen` returns them."""
    values: dict[str, Vector] = {"windlass_job_attempt": scalar(state.status.attempts)}
    progress = summarize_progress(ranks)
    if progress is not None:
        for metric, (field, factor) in _JOB_VALUES.items():
            if (found := progress[field]) is not None:
                values[metric] = scalar(found * factor)
        if (saved := progress["checkpoint_at"]) is not None:
            values["windlass_job_checkpoint_age_seconds"] = scalar(max(0.0, now - saved) / 1000)
        for phase, spent in islice(progress["phases"].items(), _MAX_PHASES):
            values[series_name("windlass_job_phase_seconds", phase=phase)] = scalar(spent / 1000)
        values["windlass_job_slow_ranks"] = scalar(len(progress["slow"]))
        values |= _rank_vectors(progress["ranks"])
    return MetricFrame(job_scope(state.id), now, values)


def _rank_vectors(lines: Sequence[Mapping[str, Any]]) -> dict[str, Vector]:
    """One vector for each metric that a rank reports, by number of the rank; NaN where a rank does not report it."""
    width = max((line["rank"] for line in lines), default=-1) + 1
    if not 0 < width <= MAX_RANKS:
        return {}
    found = {"windlass_rank_step": _vector(width, ((line["rank"], line["step"]) for line in lines), 1.0)}
    for metric, (field, factor) in _RANK_VALUES.items():
        found[metric] = _vector(width, ((line["rank"], line["values"].get(field)) for line in lines), factor)
    return {metric: vector for metric, vector in found.items() if not np.isnan(vector).all()}


def _vector(width: int, values: Iterable[tuple[int, float | None]], factor: float) -> Vector:
    vector = np.full(width, math.nan, dtype=np.float32)
    for rank, value in values:
        if value is not None:
            vector[rank] = value * factor
    return vector
