"""Detects the loss of other ranks: the current step is aborted, and `in_place` waits for the next membership."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import NoReturn

from windlass import wire
from windlass.train.checkpoint.store.errors import RankGoneError
from windlass.train.health import failure_report
from windlass.train.health.stop_signals import StopRequests
from windlass.train.telemetry.heartbeat import HeartbeatSender

_MEMBERSHIP_TIMEOUT_S = 10.0
"""Seconds from a failed collective to the new membership. Agents miss a silent agent after 3 s by default."""
_POLL_S = 0.05


class PeerLossGuard:
    """Turns errors of lost peers into an aborted step, while `is_enabled` and if the agent sends a membership."""

    def __init__(self, heartbeat: HeartbeatSender, requests: StopRequests) -> None:
        self._heartbeat, self._requests = heartbeat, requests
        self.is_enabled = False
        self.is_aborted = os.environ.pop(wire.SURVIVORS, "") == "1"
        """Whether the step is aborted. This rank then computes nothing and takes part in no collective until recovery
        is complete: the step is to be repeated, or this rank was just started and its peers hold the state. The
        variable is read once, because it does not apply to a later run in this process, nor to child processes."""

    @property
    def is_joining(self) -> bool:
        """Whether this rank was just started beside running ranks and has not received their state yet."""
        return self.is_aborted and not self.is_enabled

    def resume(self, *, enabled: bool) -> None:
        """Note that this rank has the current state. `enabled`: whether it can recover from a loss from now on."""
        self.is_aborted, self.is_enabled = False, enabled
        if enabled:
            self._heartbeat.announce_recovery(enabled=True)

    def disable(self) -> None:
        """Turn recovery off outside the loop."""
        if self.is_enabled:
            self.is_enabled = False
            self._heartbeat.announce_recovery(enabled=False)

    @contextlib.contextmanager
    def catch(self) -> Iterator[None]:
        """Abort the step on an error caused by lost peers; raise any other error.

        Ends this process if all ranks are asked to stop instead.
        """
        try:
            yield
        except (RuntimeError, RankGoneError) as error:
            if not self.is_enabled or not _is_peer_failure(error) or not self._wait_for_membership():
                raise
            self.is_aborted = True

    def _wait_for_membership(self) -> bool:
        """Whether a new membership arrives in time."""
        until = time.monotonic() + _MEMBERSHIP_TIMEOUT_S
        while self._heartbeat.next_membership(_POLL_S) is None:
            if self._requests.signal_name:
                self._exit_for_restart()
            if time.monotonic() > until:
                return False
        return True

    def _exit_for_restart(self) -> NoReturn:
        """Exit for a restart of all ranks, without Python's shutdown, the slowest part of the restart."""
        self._heartbeat.close()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(wire.RankExitCode.RETRY)


def _is_peer_failure(error: BaseException) -> bool:
    return isinstance(error, RankGoneError) or failure_report.is_peer_failure(error)
