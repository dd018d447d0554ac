"""Writes the rank status file: the state of this node's ranks for other processes, `ranks.json` in `WINDLASS_RECORDS`.

A new version is written beside the file and renamed, so a reader always sees a whole one, and the file outlives agent
and daemon. Times are milliseconds since the epoch, because readers compare them with times of other processes.
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
from windlass.agent.event_loop import DelayedCall, EventLoop

_WRITE_INTERVAL_S = 0.5


class RankStatusFile:
    """The content of the rank status file and its delayed writes. Writes nothing where `folder` is empty."""

    def __init__(self, loop: EventLoop, folder: str) -> None:
        self._loop = loop
        self._path = Path(folder, wire.STATUS_FILE) if folder else None
        self._generation = 0
        self._ranks: dict[int, dict[str, Any]] = {}
        self._timer: DelayedCall | None = None

    def begin(self, generation: int) -> None:
        """Starts a generation of new processes."""
        self.begin_with_survivors(generation, {})

    def begin_with_survivors(self, generation: int, survivors: Mapping[int, Mapping[str, str]]) -> None:
        """Starts a generation in which some ranks survive. `survivors`: their new variables by their old numbers.

        Survivors keep their measurements; all other ranks are removed.
        """
        before, self._generation = self._ranks, generation
        self._ranks = {}
        for number, variables in survivors.items():
            rank = int(variables["RANK"])
            was = before.get(number, {})
            self._ranks[rank] = {**was, "rank": rank, "env": {**was.get("env", {}), **variables}}
        self._schedule_write()

    def add_rank(self, rank: int, variables: Mapping[str, str]) -> None:
        """Adds a rank with its variables: other processes cannot read those of a forked process."""
        self._ranks[rank] = {"rank": rank, "env": dict(variables)}
        self._schedule_write()

    def record_start(self, rank: int, pid: int) -> None:
        """Records the process of a rank."""
        self._entry(rank)["pid"] = pid

    def record_end(self, rank: int, code: int) -> None:
        """Records the exit code of a rank."""
        self._entry(rank)["code"] = code

    def record_message(self, message: wire.Message, at: float) -> None:
        """Records a heartbeat or telemetry. `at`: its time on the monotonic clock."""
        when = _now() - int((time.monotonic() - at) * 1000)
        if isinstance(message, wire.Heartbeat):
            self._entry(message.rank).update(step=message.step, phase=message.phase, at=when)
        elif isinstance(message, wire.Telemetry):
            values = dict(message.values)
            self._entry(message.rank).update(values=values, reported_step=message.step, reported_at=when)

    def close(self) -> None:
        """Writes the pending changes."""
        if self._timer is not None:
            self._write()

    def _entry(self, rank: int) -> dict[str, Any]:
        self._schedule_write()
        return self._ranks.setdefault(rank, {"rank": rank})

    def _schedule_write(self) -> None:
        if self._path is not None and self._timer is None:
            self._timer = self._loop.after(_WRITE_INTERVAL_S, self._write)

    def _write(self) -> None:
        self._timer = None
        if self._path is None:
            return
        ranks = [self._ranks[number] for number in sorted(self._ranks)]
        text = json.dumps({"at": _now(), "pid": os.getpid(), "generation": self._generation, "ranks": ranks})
        new = self._path.with_suffix(".new")
        with contextlib.suppress(OSError):  # a full disk, or a folder that was removed: ranks go on
            new.write_text(text)
            new.replace(self._path)


def _now() -> int:
    return time.time_ns() // 1_000_000
