"""A step in words: one line of the console. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_WIDTH = 10


@dataclass(frozen=True, slots=True)
class Told:
    """What is known of the steps since the last line."""

    step: int
    steps: int
    """In all."""
    loss: float
    step_ms: float
    """Of the slowest rank, on average."""
    samples_per_second: float
    phases: Mapping[str, float] = field(default_factory=dict)
    """Milliseconds of a step on average, on the first rank."""
    utilisation: float | None = None
    memory: int | None = None
    """Bytes of the device at most, on any rank."""
    slow: tuple[int, ...] = ()
    """Ranks that others wait for."""


def line(told: Told) -> str:
    """As `step 40/1000  loss 1.92  412 ms (data 1, forward 130, …)  78 samples/s  ████░░░░░░ 4 %  eta 6:35`."""
    parts = [
        f"step {told.step}/{told.steps}" if told.steps else f"step {told.step}",
        f"loss {told.loss:.4g}",
        _time(told),
        f"{_rate(told.samples_per_second)} samples/s",
    ]
    if told.utilisation is not None:
        parts.append(f"MFU {told.utilisation:.1%}")
    if told.memory is not None:
        parts.append(f"{told.memory / 2**30:.1f} GiB")
    parts.append(_progress(told))
    if told.slow:
        parts.append(f"waits for rank {', '.join(map(str, told.slow))}")
    return "  ".join(filter(None, parts))


def values_of(told: Told) -> dict[str, float]:
    """The same as numbers by name, for whoever draws them. Times are in milliseconds."""
    known = {"utilisation": told.utilisation, "memory": told.memory}
    return {
        "loss": told.loss,
        "step_ms": told.step_ms,
        "samples_per_second": told.samples_per_second,
        **({"steps": told.steps} if told.steps else {}),
        **{f"{phase}_ms": spent for phase, spent in told.phases.items()},
        **{name: float(value) for name, value in known.items() if value is not None},
    }


def _time(told: Told) -> str:
    split = ", ".join(f"{phase} {spent:.0f}" for phase, spent in told.phases.items() if spent >= 0.5)
    return f"{told.step_ms:.0f} ms" + (f" ({split})" if split else "")


def _rate(rate: float) -> str:
    return f"{rate:.1f}" if rate < 100 else f"{rate:,.0f}"


def _progress(told: Told) -> str:
    if not told.steps:  # a loop of one's own
        return ""
    done = told.step / told.steps
    full = int(done * _WIDTH)
    left = int((told.steps - told.step) * told.step_ms / 1000)
    hours, minutes, seconds = left // 3600, left // 60 % 60, left % 60
    eta = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
    return f"{'█' * full}{'░' * (_WIDTH - full)} {done:.0%}  eta {eta}"
