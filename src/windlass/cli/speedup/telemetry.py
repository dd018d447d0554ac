"""Receives the step reports of the first rank of a run on a datagram socket."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path

from windlass import wire
from windlass.cli.speedup.throughput import Reading

_MAX_DATAGRAM_BYTES = 65536


class TelemetryReceiver:
    """A datagram socket for step reports, read in a thread until it is closed, so that the sender never blocks."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "telemetry.sock")
        self._received: list[Reading] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._thread = threading.Thread(target=self._listen, name="telemetry", daemon=True)
        self._thread.start()

    @property
    def readings(self) -> tuple[Reading, ...]:
        """Returns the reports of the latest generation: those after the last decrease of the step number."""
        received = list(self._received)
        restarts = (at for at in range(1, len(received)) if received[at].step <= received[at - 1].step)
        return tuple(received[max(restarts, default=0) :])

    def close(self) -> None:
        """Stops the thread and closes the socket."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        while data := self._receive():
            with contextlib.suppress(ValueError):
                message = wire.decode(data)
                if isinstance(message, wire.Telemetry):
                    self._received.append(Reading(message.step, message.values))

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(_MAX_DATAGRAM_BYTES)
        except OSError:
            return b""
