"""The controller's client of the supervisor: its connection, acknowledged reports, and replacement when it dies."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from windlass.backends.local.launched_gangs import Key
from windlass.backends.local.paths import StatePaths
from windlass.backends.local.supervisor import proc, process_cleanup
from windlass.backends.local.supervisor_connection import Report, SupervisorConnection
from windlass.backends.local.supervisor_start import Link, start_supervisor
from windlass.backends.port import BackendError

_PATIENCE = 30.0
"""Seconds that a supervisor may take to say hello. A successor waits until its predecessor's processes have ended."""
_FAREWELL = 5.0
"""Seconds that a watchdog gets to end after its supervisor."""
_DYING = 0.01
"""Seconds before the next try when the supervisor found was just ending: its socket outlives it for a moment."""
_PAUSE = 1.0
"""Seconds before a supervisor that could not say hello is replaced."""


class Acknowledgements(NamedTuple):
    """The last report of a supervisor up to which all reports were processed."""

    supervisor: str = ""
    number: int = 0


class SupervisorClient:
    """Calls `hear` with each report once, in order; `greeted` with the connection's number and existing gangs."""

    def __init__(
        self,
        paths: StatePaths,
        link: Link,
        hello: Mapping[str, Any],
        *,
        hear: Callable[[Report], None],
        greeted: Callable[[int, set[Key]], None],
        on_trouble: Callable[[str], None],
    ) -> None:
        self.heard = Acknowledgements()
        self._paths = paths
        self._hello = hello
        self._hear = hear
        self._greeted = greeted
        self._on_trouble = on_trouble
        self._remembered = Acknowledgements()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._guards: set[int] = set()
        self.line = self._open(link, 1)

    # --- sending --------------------------------------------------------------------------------------

    def send(self, message: Mapping[str, Any]) -> None:
        """Sends a message, now or as soon as the connection takes it."""
        if self.line.send(message) and self._loop is not None:
            self._loop.add_writer(self.line, self._write)

    def acknowledge(self, heard: Acknowledgements) -> None:
        """Tells the supervisor that everything up to this report is durable, so that it may forget it."""
        if heard.number and heard.supervisor == self.line.supervisor:
            self.send({"do": "ack", "seq": heard.number})

    def remember(self, heard: Acknowledgements) -> None:
        """Sets the last report that an earlier controller processed; reports up to it are not delivered again."""
        self._remembered = heard

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
            self.line.close()
        elif not self.line.end():
            self._kill()
        until = time.monotonic() + (_FAREWELL if end else 0)
        while self._unreaped_guards() and time.monotonic() < until:
            time.sleep(0.002)

    def _open(self, link: Link, number: int) -> SupervisorConnection:
        if link.watchdog:
            self._guards.add(link.watchdog)
        line = SupervisorConnection(link, number)
        line.send({"do": "hello", **self._hello})
        return line

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.add_reader(self.line, self._read)
        if self.line.flush():
            loop.add_writer(self.line, self._write)
        self._timer = loop.call_later(_PATIENCE, self._replace, True)

    def _stop_listening(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self.line)
            self._loop.remove_writer(self.line)

    def _write(self) -> None:
        if not self.line.flush() and self._loop is not None:
            self._loop.remove_writer(self.line)

    def _read(self) -> None:
        reports = self.line.read()
        if reports is None:
            self._gone()
            return
        for report in reports:
            if report["tell"] == "hello":
                self._welcome(report)
            elif report["seq"] > self.heard.number:
                self.heard = Acknowledgements(self.line.supervisor, report["seq"])
                self._hear(report)

    def _welcome(self, hello: Report) -> None:
        assert self._timer is not None  # noqa: S101 - set by _listen
        self._timer.cancel()
        self.line.supervisor = hello["supervisor"]
        same = self._remembered.supervisor == self.line.supervisor
        self.heard = self._remembered if same else Acknowledgements(self.line.supervisor, 0)
        self.acknowledge(self.heard)
        self._greeted(self.line.number, {(job_id, generation) for job_id, generation in hello["gangs"]})

    # --- a supervisor that died -----------------------------------------------------------------------------

    def _gone(self) -> None:
        if self.line.supervisor:
            self._replace(False)
            return
        self._stop_listening()
        pause = _DYING
        if self.line.link.watchdog:  # it was started and never became ready
            pause = _PAUSE
            self._on_trouble(f"the process supervisor does not start: {self._last_words()}")
        if self._loop is not None:
            self._timer = self._loop.call_later(pause, self._replace, False)

    def _replace(self, fresh: bool) -> None:  # noqa: FBT001 - called by the loop, which passes no names
        """Starts another supervisor, which first waits for the old one's processes to end, or kills them."""
        self._stop_listening()
        self.line.close()
        if self.line.link.watchdog and not self.line.supervisor:
            # it may still wait for the lock, and would start too late
            process_cleanup.kill([self.line.link.watchdog])
        self._unreaped_guards()
        self._remembered = self.heard
        try:
            self.line = self._open(start_supervisor(self._paths, fresh=fresh), self.line.number + 1)
        except BackendError as trouble:
            self._on_trouble(str(trouble))
            if self._loop is not None:
                self._timer = self._loop.call_later(_PAUSE, self._replace, fresh)
            return
        if self._loop is not None:
            self._listen(self._loop)

    def _kill(self) -> None:
        """Kills a supervisor that hangs: its ranks die with it, and the watchdog cleans up the rest."""
        pid, _, started = self.line.supervisor.partition(":")
        if pid and proc.is_alive(int(pid), int(started)):
            process_cleanup.kill([int(pid)])

    def _last_words(self) -> str:
        try:
            lines = self._paths.supervisor_log.read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else f"it left no word in {self._paths.supervisor_log}"

    def _unreaped_guards(self) -> bool:
        """Reaps the watchdogs that have ended. Returns whether some have not."""
        for watchdog in list(self._guards):
            try:
                ended = os.waitpid(watchdog, os.WNOHANG)[0] != 0
            except ChildProcessError:
                ended = True
            if ended:
                self._guards.discard(watchdog)
        return bool(self._guards)
