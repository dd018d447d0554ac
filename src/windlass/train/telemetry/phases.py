"""How long each phase of a step takes on this rank, without waiting for a GPU."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, get_args

import torch

Phase = Literal["data", "forward", "backward", "pipeline", "agree", "optimizer", "save", "evaluate"]
PHASES: tuple[Phase, ...] = get_args(Phase)
"""data: waiting for samples. pipeline: forward and backward of stages, which are interleaved. agree: the vote, and with
it the wait for the slowest rank. save: waiting for a checkpoint that is being written. The script's own code between
them is "outside", and has no watch."""
_OUTSIDE = "outside"
_ON_THE_HOST = frozenset({"data", "agree", "save"})


class Phases:
    """Stopwatches. On a GPU they are events in its stream, read when they have passed."""

    def __init__(self, device: torch.device, enter: Callable[[str], None]) -> None:
        """`enter` is told of each phase as it begins."""
        self._device, self._enter = device, enter
        self._spent = dict.fromkeys(PHASES, 0.0)
        self._current: str = _OUTSIDE
        self._passing: list[tuple[Phase, torch.cuda.Event, torch.cuda.Event]] = []

    @contextlib.contextmanager
    def during(self, phase: Phase) -> Iterator[None]:
        """Count the time until the end of the block, where this rank is again in the phase around it, or outside."""
        around, self._current = self._current, phase
        self._enter(phase)
        on_stream = self._device.type == "cuda" and phase not in _ON_THE_HOST
        begun, began = _event() if on_stream else None, time.perf_counter()
        try:
            yield
        finally:
            if begun is not None:
                self._passing.append((phase, begun, _event()))
            else:
                self._spent[phase] += (time.perf_counter() - began) * 1000
            self._current = around
            self._enter(around)

    def drain(self) -> None:
        """Read the events that have passed by now: each step does, so that they stay few. Nothing is waited for."""
        while self._passing and self._passing[0][2].query():
            phase, begun, ended = self._passing.pop(0)
            self._spent[phase] += begun.elapsed_time(ended)

    def totals(self) -> dict[Phase, float]:
        """Milliseconds of each phase since the beginning; on a GPU of what has passed by now."""
        self.drain()
        return dict(self._spent)


def between(before: Mapping[Phase, float], now: Mapping[Phase, float]) -> dict[Phase, float]:
    """What came to each phase; those to which nothing came are left out. Pure."""
    return {phase: now[phase] - before[phase] for phase in now if now[phase] > before[phase]}


def _event() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event
