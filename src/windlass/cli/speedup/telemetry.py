"""A socket on which the first rank of a run tells what its steps are like."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path

from windlass import wire
from windlass.cli.speedup.throughput import Reading

_LARGEST = 65536


class TelemetryReceiver:
    """Hears until it is closed, in a thread of its own: nobody who speaks waits for it."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "ear.sock")
        self._heard: list[Reading] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._thread = threading.Thread(target=self._listen, name="ear", daemon=True)
        self._thread.start()

    @property
    def readings(self) -> tuple[Reading, ...]:
        """What has come so far. A generation that began anew counts from its first word on."""
        heard = list(self._heard)
        begun = max((place for place in range(1, len(heard)) if heard[place].step <= heard[place - 1].step), default=0)
        return tuple(heard[begun:])

    def close(self) -> None:
        """Nobody is heard any more."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        while data := self._received():
            with contextlib.suppress(ValueError):
                message = wire.decode(data)
                if isinstance(message, wire.Telemetry):
                    self._heard.append(Reading(message.step, message.values))

    def _received(self) -> bytes:
        try:
            return self._socket.recv(_LARGEST)
        except OSError:
            return b""
