"""Frames of telemetry from snapshots and from what ranks report."""

import math
from dataclasses import replace

import pytest

from windlass.core.ledger import Ledger
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.job import Job, Role
from windlass.core.model.queue import Queue
from windlass.core.model.status import JobState, Phase, Status
from windlass.server.telemetry_records.measurements import MAX_RANKS, job_frame, queue_frames
from windlass.telemetry.metric_table import metric_of

NOW = 1_700_000_000_000


def running(ranks: int) -> JobState:
    job = Job("digits", (Role("worker", ranks, {"gpu": 1}, ("python", "train.py")),))
    return create_state("digits-1", 1, job, NOW)


def rank(number: int, **values: float) -> dict[str, object]:
    seen = {
        "rank": number,
        "node": "n1",
        "pid": 1,
        "printed_at": NOW,
        "step": 10 + number,
        "phase": "forward",
        "at": NOW,
    }
    return {**seen, "values": values, "reported_step": 10, "reported_at": NOW}


def test_a_job_has_its_loss_its_phases_and_a_value_for_each_rank_in_base_units() -> None:
    ranks = [rank(0, loss=0.5, step_ms=200, forward_ms=50, rank_busy_ms=150), rank(1, rank_busy_ms=190)]
    values = {name: vector.tolist() for name, vector in job_frame(running(2), ranks, NOW).values.items()}
    assert values["windlass_job_loss"] == [0.5]
    assert values["windlass_job_step_seconds"] == pytest.approx([0.2])
    assert values['windlass_job_phase_seconds{phase="forward"}'] == pytest.approx([0.05])
    assert values["windlass_rank_busy_seconds"] == pytest.approx([0.15, 0.19])
    assert values["windlass_rank_step"] == [10, 11]


def test_the_age_of_the_newest_checkpoint_grows_while_no_rank_reports() -> None:
    ranks = [rank(0, loss=0.5, checkpoint_at=NOW - 90_000), rank(1)]
    for now, age in ((NOW, 90.0), (NOW + 60_000, 150.0), (NOW - 100_000, 0.0)):
        assert job_frame(running(2), ranks, now).values["windlass_job_checkpoint_age_seconds"].tolist() == [age]
    assert "windlass_job_checkpoint_age_seconds" not in job_frame(running(1), [rank(0, loss=0.5)], NOW).values


def test_a_rank_that_reports_nothing_has_no_value_and_no_other_rank_moves() -> None:
    frame = job_frame(running(3), [rank(0, rank_busy_ms=100), rank(2, rank_busy_ms=300)], NOW)
    first, second, third = frame.values["windlass_rank_busy_seconds"].tolist()
    assert math.isnan(second)
    assert (round(first, 3), round(third, 3)) == (0.1, 0.3)


def test_values_that_are_not_numbers_are_left_out() -> None:
    frame = job_frame(running(1), [rank(0, loss=math.nan, step_ms=math.inf)], NOW)
    assert not {"windlass_job_loss", "windlass_job_step_seconds"} & set(frame.values)


def test_a_job_beyond_the_limit_keeps_its_summary_without_series_of_ranks() -> None:
    ranks = [rank(number, rank_busy_ms=1.0) for number in range(MAX_RANKS + 1)]
    frame = job_frame(running(1), ranks, NOW)
    assert not [name for name in frame.values if name.startswith("windlass_rank")]
    assert "windlass_job_step" in frame.values


def test_a_job_without_reports_has_its_attempt_only() -> None:
    assert list(job_frame(running(1), [], NOW).values) == ["windlass_job_attempt"]


def test_every_series_is_in_the_metric_table() -> None:
    frame = job_frame(running(1), [rank(0, loss=1, step_ms=1, data_ms=1, utilisation=0.4, gpu_utilisation=0.5)], NOW)
    assert all(metric_of(name).level in ("job", "rank") for name in frame.values)


@pytest.mark.parametrize(("after_ms", "waited"), [(3_600_000, 0), (-60_000, 60), (None, 7_200)])
def test_the_longest_wait_of_a_queue_counts_from_the_begin_time(after_ms: int | None, waited: int) -> None:
    job = Job("night", (Role(),), begin=None if after_ms is None else NOW + after_ms)
    queued = Status(Phase.QUEUED, "Queued", created_at=NOW - 7_200_000, queued_at=NOW - 7_200_000)
    state = replace(create_state("night-1", 1, job, NOW), status=queued)
    frames = queue_frames(Ledger((), [Queue("default")]).snapshot(), [state], NOW)
    assert [frame.values["windlass_queue_oldest_wait_seconds"].tolist() for frame in frames] == [[waited]]
