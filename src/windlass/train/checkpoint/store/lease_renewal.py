"""Renews a lease in a thread that sleeps between renewals."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from windlass.train.checkpoint.store.lease import RENEWALS_PER_DURATION

_STOP_TIMEOUT_S = 5.0


class LeaseRenewal:
    """Calls `renew` several times in each duration, until `stop`. A failed renewal is left to the next one."""

    def __init__(self, renew: Callable[[], None], duration_s: float) -> None:
        self._renew, self._interval_s = renew, duration_s / RENEWALS_PER_DURATION
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="checkpoint-lease", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        """Renew no more. Waits for a renewal that has begun, at most `timeout_s` seconds."""
        self._ended.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._ended.wait(self._interval_s):
            with contextlib.suppress(Exception):  # a client library raises errors of its own, too
                self._renew()
