"""What is known of this node's ranks right now, in a file that others read: `board.json` of `WINDLASS_RECORDS`.

Written beside it and renamed, so it is always whole, and it is there whoever has died: agent, daemon or both.
Moments are milliseconds since the epoch, for they are compared with those of other processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from windlass import wire
from windlass.agent.event_loop import EventLoop, Timer

_EVERY = 0.5


class RankStatusFile:
    """Nothing is written where there is no folder."""

    def __init__(self, loop: EventLoop, folder: str) -> None:
        self._loop = loop
        self._path = Path(folder, "board.json") if folder else None
        self._generation = 0
        self._ranks: dict[int, dict[str, Any]] = {}
        self._timer: Timer | None = None

    def begin(self, generation: int) -> None:
        """Another generation, of other processes."""
        self.go_on(generation, {})

    def go_on(self, generation: int, stay: Mapping[int, Mapping[str, str]]) -> None:
        """Another generation, in which the ranks that had these numbers go on, with what they are told anew.

        They keep what they measured; nobody else is here any more.
        """
        before, self._generation = self._ranks, generation
        self._ranks = {}
        for number, variables in stay.items():
            rank = int(variables["RANK"])
            was = before.get(number, {})
            self._ranks[rank] = {**was, "rank": rank, "env": {**was.get("env", {}), **variables}}
        self._soon()

    def start(self, rank: int, variables: Mapping[str, str]) -> None:
        """A rank is being started, and told this: no other process can read it from one that was forked."""
        self._ranks[rank] = {"rank": rank, "env": dict(variables)}
        self._soon()

    def started(self, rank: int, pid: int) -> None:
        """A rank runs."""
        self._of(rank)["pid"] = pid

    def ended(self, rank: int, code: int) -> None:
        """A rank does not run any more."""
        self._of(rank)["code"] = code

    def hear(self, message: wire.Message, at: float) -> None:
        """What a rank says of itself. `at`: when, by the monotonic clock."""
        when = _now() - int((time.monotonic() - at) * 1000)
        if isinstance(message, wire.Heartbeat):
            self._of(message.rank).update(step=message.step, phase=message.phase, at=when)
        elif isinstance(message, wire.Telemetry):
            self._of(message.rank).update(values=dict(message.values), told_step=message.step, told_at=when)

    def close(self) -> None:
        """Leave it as it is now."""
        if self._timer is not None:
            self._write()

    def _of(self, rank: int) -> dict[str, Any]:
        self._soon()
        return self._ranks.setdefault(rank, {"rank": rank})

    def _soon(self) -> None:
        if self._path is not None and self._timer is None:
            self._timer = self._loop.after(_EVERY, self._write)

    def _write(self) -> None:
        self._timer = None
        if self._path is None:
            return
        ranks = [self._ranks[number] for number in sorted(self._ranks)]
        text = json.dumps({"at": _now(), "pid": os.getpid(), "generation": self._generation, "ranks": ranks})
        beside = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):  # a full disk, or a folder that was removed: ranks go on
            beside.write_text(text)
            beside.replace(self._path)


def _now() -> int:
    return time.time_ns() // 1_000_000
