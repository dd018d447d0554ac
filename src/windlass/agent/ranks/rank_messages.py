"""Applies the messages of this node's ranks to heartbeats, telemetry and the rank table; `heartbeats` receives them."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Callable

from windlass import wire
from windlass.agent import hang_detection
from windlass.agent.event_loop import DelayedCall, EventLoop
from windlass.agent.ranks.heartbeats import HeartbeatReceiver
from windlass.agent.ranks.rank_table import RankTable
from windlass.agent.ranks.status_file import RankStatusFile

_OBSERVATION_INTERVAL_S = 1.0


class RankMessages:
    """The agent's end of the channel to its ranks, with the newest heartbeats and telemetry.

    Calls `on_hello` after each `Hello`, and `on_step` with a rank and a time when the rank is in a step.
    """

    def __init__(
        self,
        loop: EventLoop,
        folder: Path,
        table: RankTable,
        status_file: RankStatusFile,
        on_hello: Callable[[], None],
        on_step: Callable[[int, float], None],
    ) -> None:
        self._table, self._status_file, self._on_hello, self._on_step = table, status_file, on_hello, on_step
        self.heartbeats = hang_detection.HeartbeatTracker()
        self.telemetry: wire.Telemetry | None = None
        """Newest measurements of the first rank of this node that sends any."""
        self._receiver = HeartbeatReceiver(loop, folder, self._receive)
        self._loop = loop
        self._timer: DelayedCall
        self._observe()

    @property
    def socket_path(self) -> str:
        """Path of the socket on which the agent receives."""
        return self._receiver.path

    def send(self, rank: int, message: wire.Message) -> None:
        """Sends a message to a rank, if the rank can receive any."""
        self._receiver.send([rank], message)

    def read_rings(self) -> None:
        """Receives the heartbeats that ranks have written to shared memory."""
        self._receiver.read_rings()

    def forget_rank(self, rank: int) -> None:
        """Drops the heartbeats of a rank that has ended, its last ones included."""
        self._receiver.read_rings()
        self.heartbeats.forget(rank)

    def forget_heartbeats(self) -> None:
        """Drops heartbeats and telemetry of all ranks: another generation begins. Durations of phases stay known."""
        self.heartbeats.forget()
        self.telemetry = None

    def forget_channels(self) -> None:
        """Drops the addresses and rings of all ranks: survivors send another `Hello`."""
        self._receiver.forget()

    def slowest_rank(
        self, limits: hang_detection.HangLimits, now: float, silent_s: float
    ) -> hang_detection.SlowestRank:
        """The rank that is furthest behind. `silent_s`: seconds since any rank wrote anything."""
        if self._table.is_stopping or not self._table.alive():
            return hang_detection.SlowestRank(limit_s=math.inf)
        self._receiver.read_rings()
        self.heartbeats.observe(now)
        return hang_detection.find_slowest_rank(self.heartbeats, limits, now, silent_s)

    def close(self) -> None:
        """Ends the channel to the ranks."""
        self._timer.cancel()
        self._receiver.close()

    def _observe(self) -> None:
        self.heartbeats.observe(time.monotonic())
        self._timer = self._loop.after(_OBSERVATION_INTERVAL_S, self._observe)

    def _receive(self, message: wire.Message, at: float) -> None:
        if getattr(message, "generation", 0) != self._table.generation or self._table.is_stopping:
            return
        self._status_file.record_message(message, at)
        if isinstance(message, wire.Heartbeat):
            self.heartbeats.record(message, at)
            if message.phase not in wire.OPEN_PHASES:
                self._on_step(message.rank, at)
        elif isinstance(message, wire.Goodbye):
            self._on_goodbye(message.rank)
        elif isinstance(message, wire.Hello):
            for rank in self._table.ranks.values():
                if rank.number == message.rank and not rank.replaced:
                    rank.ready = message.reforms
            self._on_hello()
        elif isinstance(message, wire.Telemetry) and (self.telemetry is None or message.rank <= self.telemetry.rank):
            self.telemetry = message

    def _on_goodbye(self, number: int) -> None:
        self.heartbeats.forget(number)
        for rank in self._table.ranks.values():
            rank.ready = rank.ready and rank.number != number
