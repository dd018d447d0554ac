"""`status.training`: numbers of any size are written as numbers that JSON with 64-bit floats can hold."""

from __future__ import annotations

import math

import orjson
import pytest

from windlass import wire
from windlass.backends.kubernetes.agents.progress import training_status


@pytest.mark.parametrize(
    ("loss", "written"),
    [(2.0, 2), (0.123456789, 0.123457), (1e300, 1e300), (-1.23456789e18, -1.23457e18), (2.0**53, 9.0072e15)],
)
def test_a_loss_of_any_size_is_written_with_six_digits(loss: float, written: float) -> None:
    after = training_status({}, wire.Telemetry(0, 1, 7, {"loss": loss}), 1, 0)
    assert orjson.loads(orjson.dumps(after))["loss"] == written


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_left_out(loss: float) -> None:
    assert "loss" not in training_status({}, wire.Telemetry(0, 1, 7, {"loss": loss}), 1, 0)
