"""Reads an agent's messages about its ranks: one JSON object per line, on a pipe that the agent inherits."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from .event_loop import Poller

_CHUNK = 65536
_MAX_LINE = 1 << 20
"""Bytes after which a line without an end is discarded."""


class AgentMessages:
    """Calls `on_message` with each object. `write_end` is for the agent; the process that starts it closes it here."""

    def __init__(self, poll: Poller, on_message: Callable[[Any], None]) -> None:
        self._poll, self._on_message = poll, on_message
        self._read_end, self.write_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._read_end, False)
        self._begun = b""
        self._poll.watch(self._read_end, lambda _mask: self.read())

    def read(self) -> None:
        """Processes the messages that have arrived."""
        while self._read_end >= 0:
            try:
                data = os.read(self._read_end, _CHUNK)
            except BlockingIOError:
                return
            if not data:
                self.close()
                return
            *lines, self._begun = (self._begun + data).split(b"\n")
            self._begun = b"" if len(self._begun) > _MAX_LINE else self._begun
            for line in lines:
                self._parse(line)

    def close(self) -> None:
        """Closes the reading end."""
        if self._read_end >= 0:
            self._poll.forget(self._read_end)
            os.close(self._read_end)
        self._read_end = -1

    def _parse(self, line: bytes) -> None:
        try:
            self._on_message(json.loads(line))
        except ValueError:  # a rank inherited the pipe and writes other data
            return
