"""Formats the summary of the last steps as one console line. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_BAR_WIDTH = 10


@dataclass(frozen=True, slots=True)
class StepSummary:
    """Averages over the steps since the last report."""

    step: int
    steps: int
    """Steps of the whole run."""
    loss: float
    step_ms: float
    """Mean over the steps, of the slowest rank."""
    samples_per_second: float
    phases: Mapping[str, float] = field(default_factory=dict)
    """Mean milliseconds of each phase of a step, on the first rank."""
    utilisation: float | None = None
    memory: int | None = None
    """Peak bytes of device memory, over all ranks."""
    slow: tuple[int, ...] = ()
    """Ranks that slow down the others."""


def format_line(summary: StepSummary) -> str:
    """Return `step 40/1000  loss 1.92  412 ms (data 1, forward 130, …)  78 samples/s  ████░░░░░░ 4 %  eta 6:35`."""
    parts = [
        f"step {summary.step}/{summary.steps}" if summary.steps else f"step {summary.step}",
        f"loss {summary.loss:.4g}",
        _format_time(summary),
        f"{_format_rate(summary.samples_per_second)} samples/s",
    ]
    if summary.utilisation is not None:
        parts.append(f"MFU {summary.utilisation:.1%}")
    if summary.memory is not None:
        parts.append(f"{summary.memory / 2**30:.1f} GiB")
    parts.append(_format_progress(summary))
    if summary.slow:
        parts.append(f"waits for rank {', '.join(map(str, summary.slow))}")
    return "  ".join(filter(None, parts))


def metric_values(summary: StepSummary) -> dict[str, float]:
    """Return the summary as numbers by name, for trackers. Times are in milliseconds."""
    known = {"utilisation": summary.utilisation, "memory": summary.memory}
    return {
        "loss": summary.loss,
        "step_ms": summary.step_ms,
        "samples_per_second": summary.samples_per_second,
        **({"steps": summary.steps} if summary.steps else {}),
        **{f"{phase}_ms": spent for phase, spent in summary.phases.items()},
        **{name: float(value) for name, value in known.items() if value is not None},
    }


def _format_time(summary: StepSummary) -> str:
    split = ", ".join(f"{phase} {spent:.0f}" for phase, spent in summary.phases.items() if spent >= 0.5)
    return f"{summary.step_ms:.0f} ms" + (f" ({split})" if split else "")


def _format_rate(rate: float) -> str:
    return f"{rate:.1f}" if rate < 100 else f"{rate:,.0f}"


def _format_progress(summary: StepSummary) -> str:
    if not summary.steps:  # a loop without `run.steps`
        return ""
    done = summary.step / summary.steps
    full = int(done * _BAR_WIDTH)
    left = int((summary.steps - summary.step) * summary.step_ms / 1000)
    hours, minutes, seconds = left // 3600, left // 60 % 60, left % 60
    eta = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
    return f"{'█' * full}{'░' * (_BAR_WIDTH - full)} {done:.0%}  eta {eta}"
