"""Series of an answer: at most so many values, and none that is no number."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from windlass.server.errors import ApiError
from windlass.server.telemetry_records.queries import HistorySpan, read_span, stored_series, stored_stamp
from windlass.telemetry.frames import MetricFrame, job_scope, scalar
from windlass.telemetry.store import TelemetryStore

START = 1_700_000_000_000
RANKS = 64
SCOPE = job_scope("digits-1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Telemetry of 500 times; at the last one the loss is unknown."""
    file = tmp_path / "telemetry.db"
    store = TelemetryStore.create(file)
    store.add(
        MetricFrame(
            SCOPE,
            START + number * 2_000,
            {
                "windlass_job_loss": scalar(math.nan if number == 499 else 2.0),
                "windlass_rank_step": np.full(RANKS, number, dtype=np.float32),
            },
        )
        for number in range(500)
    )
    store.close()
    return file


def test_a_value_that_is_no_number_is_none(path: Path) -> None:
    found = {each["series"]: each for each in stored_series(path, SCOPE, HistorySpan())}
    assert [found["windlass_job_loss"]["values"][at] for at in (0, 499)] == [[2.0], [None]]
    assert found["windlass_rank_step"]["values"][7] == [7.0] * RANKS
    assert [len(each["times"]) for each in found.values()] == [500, 500]


def test_a_job_of_many_ranks_has_fewer_points_within_the_values_of_an_answer(path: Path) -> None:
    found = stored_series(path, SCOPE, HistorySpan(values=100 * (RANKS + 1)))
    values = sum(len(row) for each in found for row in each["values"])
    assert 50 * (RANKS + 1) < values <= 100 * (RANKS + 1)
    steps = next(each for each in found if each["series"] == "windlass_rank_step")
    assert steps["times"][0] == START
    assert steps["values"][-1][0] > 490
    assert len(stored_series(path, SCOPE, HistorySpan(values=1))[0]["times"]) == 1


def test_a_span_is_read_from_parameters(path: Path) -> None:
    assert read_span({"since": "5", "points": "99999999"}) == HistorySpan(5, points=10_000)
    assert stored_series(path, SCOPE, read_span({"since": str(START + 998_000)}))[0]["times"] == [START + 998_000]
    with pytest.raises(ApiError, match="recorded"):
        stored_stamp(path.with_name("none.db"), SCOPE)
