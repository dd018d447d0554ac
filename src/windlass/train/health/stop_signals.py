"""Records SIGTERM and SIGUSR1; `step.consensus` makes all ranks stop after the same step."""

from __future__ import annotations

import os
import signal
import threading
import time
from types import FrameType

from windlass import wire

_DEFAULT_GRACE_S = 30.0
"""Default grace period in seconds, equal to that of a Kubernetes pod."""


class StopRequests:
    """Signal handlers that record a stop request, installed until `close`. Off the main thread none is installed."""

    def __init__(self) -> None:
        self.signal_name: str = ""
        """Name of the signal; "" without a request."""
        self._until = float("inf")
        self._before: dict[int, object] = {}
        if threading.current_thread() is threading.main_thread():
            for signum in (signal.SIGTERM, signal.SIGUSR1):
                self._before[signum] = signal.signal(signum, self._note)

    def time_left_ms(self) -> int | None:
        """Milliseconds until this process is killed; None without a request."""
        return None if not self.signal_name else max(0, int((self._until - time.monotonic()) * 1000))

    def close(self) -> None:
        """Restore the previous signal handlers."""
        for signum, before in self._before.items():
            signal.signal(signum, before)  # type: ignore[arg-type] # what `signal` gave
        self._before.clear()

    def _note(self, signum: int, _frame: FrameType | None) -> None:
        if not self.signal_name:
            self.signal_name = signal.Signals(signum).name
            self._until = time.monotonic() + float(os.environ.get(wire.GRACE, _DEFAULT_GRACE_S))
