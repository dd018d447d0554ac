"""Marks torch's compilations in the heartbeats: `torch.compile` may start one in any step, and it is no hang."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

from windlass.train.telemetry.phase_timers import PhaseTimers


class CompileMarks:
    """The callbacks of torch at the begin and end of each compilation, on any thread, while they are registered."""

    def __init__(self, timers: PhaseTimers) -> None:
        self._timers = timers
        self._torch: Any = None
        """torch's list of callbacks, once registered."""

    def register(self) -> None:
        """Register the callbacks, once. Imports torch's compiler, as optimizers do; without one nothing happens."""
        if self._torch is None:
            with contextlib.suppress(ImportError, AttributeError):  # torch has no stable interface for this
                handler: Any = importlib.import_module("torch._dynamo.callback").callback_handler
                handler.register_start_callback(self._timers.begin_compilation)
                handler.register_end_callback(self._timers.end_compilation)
                self._torch = handler

    def remove(self) -> None:
        """Remove the callbacks. A reset of the compiler may have removed them already."""
        if self._torch is not None:
            with contextlib.suppress(ValueError):
                self._torch.remove_start_callback(self._timers.begin_compilation)
                self._torch.remove_end_callback(self._timers.end_compilation)
            self._torch = None
