"""Measurements of load tests as data, and the steps that follow from them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from windlass.diagnose.steps import CheckStep, State, absent, ok

_SLOW = 0.85
"""Part of the median of equal devices below which one is called slow."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Result of one test on one device.

    `figure`: in `unit`, larger is better; `mismatches`: results that differ from the expected ones; `failure`: the
    error that ended the test; `detail`: further figures as text; `is_possible`: False where something is missing here.
    """

    test: str
    device: str
    figure: float = 0.0
    unit: str = ""
    mismatches: int = 0
    failure: str = ""
    detail: str = ""
    is_possible: bool = True


def encode(measurement: Measurement) -> str:
    """Returns a measurement as one line of JSON."""
    return json.dumps(asdict(measurement))


def decode(line: str) -> Measurement:
    """Returns the measurement of such a line. Raises ValueError or TypeError."""
    return Measurement(**json.loads(line))


def judge_measurements(measurements: Sequence[Measurement]) -> Iterator[CheckStep]:
    """Yields one step for each test, in the order of the measurements."""
    for test in dict.fromkeys(each.test for each in measurements):
        yield _judge_test(f"burn.{test}", [each for each in measurements if each.test == test])


def _judge_test(name: str, found: list[Measurement]) -> CheckStep:
    if missing := [each for each in found if not each.is_possible]:
        return absent(name, missing[0].failure)
    if failed := [f"{each.device}: {each.failure}" for each in found if each.failure]:
        fix = "read the error; on a GPU also: dmesg | grep -i nvrm"
        return CheckStep(name, State.WRONG, f"failed on {len(failed)} of {len(found)}", fix, tuple(failed))
    if broken := [f"{each.device}: {each.mismatches} wrong results" for each in found if each.mismatches]:
        fix = "take the device out of service: it computes or stores wrong values"
        return CheckStep(name, State.WRONG, "wrong results without an error", fix, tuple(broken))
    lines = tuple(_show(each) for each in found)
    median = statistics.median(each.figure for each in found)
    if slow := [each.device for each in found if each.figure < _SLOW * median]:
        text = f"{', '.join(slow)} below {_SLOW:.0%} of the median {median:,.4g} {found[0].unit}"
        fix = "compare clocks, temperature and lanes: windlass doctor host, nvidia-smi -q -d PERFORMANCE"
        return CheckStep(name, State.WARNING, text, fix, lines)
    if len(found) == 1:
        return ok(name, lines[0])
    return CheckStep(name, State.OK, f"median {median:,.4g} {found[0].unit} of {len(found)} devices", evidence=lines)


def _show(each: Measurement) -> str:
    return f"{each.device}: {each.figure:,.4g} {each.unit}" + (f", {each.detail}" if each.detail else "")
