"""Measures the time of each phase of a step on this rank, without waiting for a GPU."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, get_args

import torch

Phase = Literal["data", "forward", "backward", "pipeline", "agree", "optimizer", "save", "evaluate"]
PHASES: tuple[Phase, ...] = get_args(Phase)
"""data: waiting for samples. pipeline: forward and backward of stages, which interleave. agree: the step consensus,
which includes the wait for the slowest rank. save: waiting for a checkpoint that is being written. The script's own
code between phases is "outside" and not timed."""
_OUTSIDE, _COMPILE = "outside", "compile"
_HOST_PHASES = frozenset({"data", "agree", "save"})


class PhaseTimers:
    """Timers of the phases. On a GPU they are CUDA events, read once they have completed."""

    def __init__(
        self, device: torch.device, enter: Callable[[str], None], mark: Callable[[str], None] = lambda _: None
    ) -> None:
        """`enter` is called with each phase as it begins; `mark` with "compile" within a phase, and with it again."""
        self._device, self._enter, self._mark = device, enter, mark
        self._spent = dict.fromkeys(PHASES, 0.0)
        self._current: str = _OUTSIDE
        self._passing: list[tuple[Phase, torch.cuda.Event, torch.cuda.Event]] = []

    @contextlib.contextmanager
    def during(self, phase: Phase) -> Iterator[None]:
        """Time the block as `phase`; afterwards the enclosing phase, or "outside", is current again."""
        around, self._current = self._current, phase
        self._enter(phase)
        on_stream = self._device.type == "cuda" and phase not in _HOST_PHASES
        begun, began = _record_event() if on_stream else None, time.perf_counter()
        try:
            yield
        finally:
            if begun is not None:
                self._passing.append((phase, begun, _record_event()))
            else:
                self._spent[phase] += (time.perf_counter() - began) * 1000
            self._current = around
            self._enter(around)

    @contextlib.contextmanager
    def reporting(self, phase: Literal["agree", "device"]) -> Iterator[None]:
        """Report the block as `phase` and do not time it. "device": a wait for the GPU, whose time is that of its work.

        Without a GPU there is no such wait, and no report.
        """
        if phase == "device" and self._device.type == "cpu":
            yield
            return
        around, self._current = self._current, phase
        self._enter(phase)
        try:
            yield
        finally:
            self._current = around
            self._enter(around)

    def begin_compilation(self, *_details: object) -> None:
        """Mark a compilation within the current phase."""
        self._mark(_COMPILE)

    def end_compilation(self, *_details: object) -> None:
        """Mark the current phase again."""
        self._mark(self._current)

    def drain(self) -> None:
        """Read completed events, without waiting. Each step calls this, so that pending events stay few."""
        while self._passing and self._passing[0][2].query():
            phase, begun, ended = self._passing.pop(0)
            self._spent[phase] += begun.elapsed_time(ended)

    def totals(self) -> dict[Phase, float]:
        """Return milliseconds of each phase since the start; on a GPU of completed events."""
        self.drain()
        return dict(self._spent)


def time_between(before: Mapping[Phase, float], now: Mapping[Phase, float]) -> dict[Phase, float]:
    """Return the time added to each phase; phases without any are left out. Pure."""
    return {phase: now[phase] - before[phase] for phase in now if now[phase] > before[phase]}


def _record_event() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event
