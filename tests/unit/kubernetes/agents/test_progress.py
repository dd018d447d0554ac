"""`status.training`: numbers of any size become what JSON of 64 bits can hold."""

from __future__ import annotations

import math

import orjson
import pytest

from windlass import wire
from windlass.backends.kubernetes.agents.progress import training


@pytest.mark.parametrize(
    ("loss", "said"),
    [(2.0, 2), (0.123456789, 0.123457), (1e300, 1e300), (-1.23456789e18, -1.23457e18), (2.0**53, 9.0072e15)],
)
def test_a_loss_is_written_short_however_large(loss: float, said: float) -> None:
    after = training({}, wire.Telemetry(0, 1, 7, {"loss": loss}), 1, 0)
    assert orjson.loads(orjson.dumps(after))["loss"] == said


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_values_that_are_no_numbers_are_left_out(loss: float) -> None:
    assert "loss" not in training({}, wire.Telemetry(0, 1, 7, {"loss": loss}), 1, 0)
