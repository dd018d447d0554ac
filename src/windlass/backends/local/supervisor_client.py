"""The controller's client of the supervisor: its connection, acknowledged reports, and replacement when it dies."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from windlass.backends.local.launched_gang import Key
from windlass.backends.local.paths import StatePaths
from windlass.backends.local.supervisor import proc, process_cleanup
from windlass.backends.local.supervisor_connection import Report, SupervisorConnection
from windlass.backends.local.supervisor_start import SupervisorLink, start_supervisor
from windlass.backends.port import BackendError

_HELLO_TIMEOUT_S = 30.0
"""Seconds for the answer to hello: a new supervisor first waits until the processes of the old one have ended."""
_WATCHDOG_TIMEOUT_S = 5.0
"""Seconds that a watchdog has to end after its supervisor."""
_RECONNECT_DELAY_S = 0.01
"""Seconds before the next try when the supervisor found was just ending: its socket outlives it for a moment."""
_RESTART_DELAY_S = 1.0
"""Seconds before a supervisor that did not answer hello is replaced."""


class Acknowledgements(NamedTuple):
    """The last report of a supervisor up to which all reports were processed."""

    supervisor: str = ""
    number: int = 0


class SupervisorClient:
    """Calls `on_report` with each report once, in order; `on_hello` with the connection's number and the gangs.

    `reported_before`: the last report that an earlier controller processed; reports up to it are not delivered again.
    """

    def __init__(
        self,
        paths: StatePaths,
        link: SupervisorLink,
        hello: Mapping[str, Any],
        reported_before: Acknowledgements,
        *,
        on_report: Callable[[Report], None],
        on_hello: Callable[[int, set[Key]], None],
        on_trouble: Callable[[str], None],
    ) -> None:
        self.reported = Acknowledgements()
        self._paths = paths
        self._hello = hello
        self._on_report = on_report
        self._on_hello = on_hello
        self._on_trouble = on_trouble
        self._reported_before = reported_before
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._watchdogs: set[int] = set()
        self.connection = self._open(link, 1)

    # --- sending --------------------------------------------------------------------------------------

    def send(self, message: Mapping[str, Any]) -> None:
        """Sends a message, now or as soon as the connection takes it."""
        if self.connection.send(message) and self._loop is not None:
            self._loop.add_writer(self.connection, self._write)

    def acknowledge(self, reported: Acknowledgements) -> None:
        """Tells the supervisor that everything up to this report is durable, so that it may forget it."""
        if reported.number and reported.supervisor == self.connection.supervisor:
            self.send({"do": "ack", "seq": reported.number})

    # --- receiving ------------------------------------------------------------------------------------

    def attach(self) -> None:
        """Begins to listen, in the running loop."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._listen(self._loop)

    def close(self, *, end: bool) -> None:
        """Leaves the supervisor alone, or ends it with every process below it."""
        self._stop_listening()
        self._loop = None
        if not end:
            self.connection.close()
        elif not self.connection.end():
            _kill(self.connection.supervisor)
        until = time.monotonic() + (_WATCHDOG_TIMEOUT_S if end else 0)
        while _has_living(self._watchdogs) and time.monotonic() < until:
            time.sleep(0.002)

    def _open(self, link: SupervisorLink, number: int) -> SupervisorConnection:
        if link.watchdog:
            self._watchdogs.add(link.watchdog)
        connection = SupervisorConnection(link, number)
        connection.send({"do": "hello", **self._hello})
        return connection

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.add_reader(self.connection, self._read)
        if self.connection.flush():
            loop.add_writer(self.connection, self._write)
        self._timer = loop.call_later(_HELLO_TIMEOUT_S, self._replace, True)

    def _stop_listening(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self.connection)
            self._loop.remove_writer(self.connection)

    def _write(self) -> None:
        if not self.connection.flush() and self._loop is not None:
            self._loop.remove_writer(self.connection)

    def _read(self) -> None:
        reports = self.connection.read()
        if reports is None:
            self._handle_disconnect()
            return
        for report in reports:
            if report["report"] == "hello":
                self._handle_hello(report)
            elif report["seq"] > self.reported.number:
                self.reported = Acknowledgements(self.connection.supervisor, report["seq"])
                self._on_report(report)

    def _handle_hello(self, hello: Report) -> None:
        assert self._timer is not None  # noqa: S101 - set by _listen
        self._timer.cancel()
        self.connection.supervisor = hello["supervisor"]
        same = self._reported_before.supervisor == self.connection.supervisor
        self.reported = self._reported_before if same else Acknowledgements(self.connection.supervisor, 0)
        self.acknowledge(self.reported)
        self._on_hello(self.connection.number, {(job_id, generation) for job_id, generation in hello["gangs"]})

    # --- a supervisor that died -----------------------------------------------------------------------------

    def _handle_disconnect(self) -> None:
        if self.connection.supervisor:
            self._replace(False)
            return
        self._stop_listening()
        pause = _RECONNECT_DELAY_S
        if self.connection.link.watchdog:  # it was started and never became ready
            pause = _RESTART_DELAY_S
            self._on_trouble(f"the process supervisor does not start: {_last_line(self._paths.supervisor_log)}")
        if self._loop is not None:
            self._timer = self._loop.call_later(pause, self._replace, False)

    def _replace(self, fresh: bool) -> None:  # noqa: FBT001 - called by the loop, which passes no names
        """Starts another supervisor, which first waits for the old one's processes to end, or kills them."""
        self._stop_listening()
        self.connection.close()
        if self.connection.link.watchdog and not self.connection.supervisor:
            # it may still wait for the lock, and would start too late
            process_cleanup.kill([self.connection.link.watchdog])
        _has_living(self._watchdogs)
        self._reported_before = self.reported
        try:
            self.connection = self._open(start_supervisor(self._paths, fresh=fresh), self.connection.number + 1)
        except BackendError as trouble:
            self._on_trouble(str(trouble))
            if self._loop is not None:
                self._timer = self._loop.call_later(_RESTART_DELAY_S, self._replace, fresh)
            return
        if self._loop is not None:
            self._listen(self._loop)


def _kill(supervisor: str) -> None:
    """Kills a supervisor that hangs: its ranks die with it, and the watchdog cleans up the rest."""
    pid, _, started = supervisor.partition(":")
    if pid and proc.is_alive(int(pid), int(started)):
        process_cleanup.kill([int(pid)])


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else f"nothing is logged in {log}"


def _has_living(watchdogs: set[int]) -> bool:
    """Reaps and removes the watchdogs that have ended. Returns whether some have not."""
    for watchdog in list(watchdogs):
        try:
            ended = os.waitpid(watchdog, os.WNOHANG)[0] != 0
        except ChildProcessError:
            ended = True
        if ended:
            watchdogs.discard(watchdog)
    return bool(watchdogs)
