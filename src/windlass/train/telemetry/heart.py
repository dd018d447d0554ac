"""Telling this rank's agent which phase of which step it is in; no step waits for it, or wakes it up for a phase.

Without an agent there is nobody to tell, and nothing happens. A thread hears what the agent has to say: that it wants
the flight recorder's dump of a rank that hangs, which its main thread cannot write; or who is a member from now on.
"""

from __future__ import annotations

import array
import contextlib
import mmap
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from torch._C import _distributed_c10d

from windlass import wire

_LARGEST = 65536
_ALONE = 1
"""torchrun's generations begin with 0 restarts, ours with 1."""
_PATIENCE = 1.0
"""Seconds for the agent to have room for what it must hear: where a generation or the loop begins and ends."""
_LOOK = 0.01


class Heart:
    """Made once for a rank; `close` ends its thread."""

    def __init__(self, rank: int, environment: Mapping[str, str] = os.environ) -> None:
        self._rank = rank
        self._generation = int(environment.get(wire.GENERATION, _ALONE))
        self._beats = 0
        self._agent = environment.get(wire.AGENT_SOCKET, "")
        self._listener = environment.get(wire.TELEMETRY_SOCKET, "") if rank == 0 else ""
        self._path: Path | None = None
        self._socket: socket.socket | None = None
        self._shared = -1
        """The descriptor of the track's memory."""
        self._track: mmap.mmap | None = None
        self._membership: wire.Membership | None = None
        self._has_membership = threading.Event()
        self._changing = threading.Lock()
        """The membership, whether there is one, and this rank's generation: one thread hears, another enters."""
        self._when_told: Callable[[], None] = _nothing
        self.step = 0
        """The step that this rank is in, from 0."""
        if self._agent:
            self._open(reads_tracks=environment.get(wire.HEARTBEAT_RING) == wire.RING_LAYOUT)

    def beat(self, phase: str) -> None:
        """This rank enters a phase of its step."""
        self._beats += 1
        heartbeat = wire.Heartbeat(self._rank, self._generation, self.step, phase, self._beats)
        if self._track is not None:
            wire.write_heartbeat(self._track, heartbeat, time.monotonic())
        else:
            self._tell(heartbeat)

    def count_anew(self) -> None:
        """All ranks begin with the same: whoever is behind is told by how many phases each has entered since."""
        self._beats = 0

    def measured(self, values: Mapping[str, float]) -> None:
        """What the steps since the last time were like."""
        self._tell(wire.Telemetry(self._rank, self._generation, self.step, values))

    def reported(self, values: Mapping[str, float]) -> None:
        """What all ranks' steps since the last report were like: for whoever listens besides the agent."""
        if self._listener:
            told = wire.Telemetry(self._rank, self._generation, self.step, values)
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
                sending.sendto(wire.encode(told), socket.MSG_DONTWAIT, self._listener)

    def when_told(self, call: Callable[[], None]) -> None:
        """Have it called, in the thread that hears the agent, when there is a new membership."""
        self._when_told = call

    def says_it_reforms(self, *, able: bool) -> None:
        """Whether this rank can take a new membership from here on."""
        self._greet(able=able)

    def next_membership(self, seconds: float = 0.0) -> wire.Membership | None:
        """One that this rank has not entered yet; waits for it so long."""
        self._has_membership.wait(seconds)
        return self._membership

    def enter(self, membership: wire.Membership) -> None:
        """This rank is of that generation from now on, and can take the next one."""
        with self._changing:
            if self._membership is not None and self._membership.generation <= membership.generation:
                self._membership = None
                self._has_membership.clear()
            self._rank, self._generation = membership.rank, membership.generation
        self.count_anew()
        self.says_it_reforms(able=True)

    def close(self) -> None:
        """Nothing more is told: what follows the loop is the script's own."""
        self._tell(wire.Goodbye(self._rank, self._generation), _PATIENCE)
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            self._socket = None
        if self._path is not None:
            with contextlib.suppress(OSError):  # the agent may have gone first, with its folder
                self._path.unlink()
        self._track = None
        if self._shared >= 0:
            os.close(self._shared)
            self._shared = -1

    def _open(self, *, reads_tracks: bool) -> None:
        # In the agent's folder, which goes with it, whoever was killed. No longer than the agent's own name, so it fits
        # into an address, too; and drawn, as ranks may each have a pid 1.
        self._path = Path(self._agent).with_name(os.urandom(5).hex())
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._socket.bind(str(self._path))
        except OSError:  # it can tell all the same
            self._path = None
        if reads_tracks and hasattr(os, "memfd_create"):  # Linux
            with contextlib.suppress(OSError):  # a sandbox may refuse it
                self._shared = os.memfd_create("windlass-track")
                os.ftruncate(self._shared, wire.RING_SIZE)
                self._track = mmap.mmap(self._shared, wire.RING_SIZE)
        if not self._greet(able=False):
            self._track = None  # nobody looks at it
        threading.Thread(target=self._hear, args=(self._socket,), name="agent", daemon=True).start()

    def _greet(self, *, able: bool) -> bool:
        """With the track, if there is one. Whether it was sent."""
        rights = (
            [] if self._track is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [self._shared]))]
        )
        hears = able and self._path is not None
        return self._tell(wire.Hello(self._rank, self._generation, os.getpid(), reforms=hears), _PATIENCE, rights)

    def _tell(
        self, message: wire.Message, patience: float = 0.0, beside: Sequence[tuple[int, int, array.array[int]]] = ()
    ) -> bool:
        """Whether it was sent: a full or lost socket is the agent's trouble, and waited for so many seconds at most."""
        until = time.monotonic() + patience
        while self._socket is not None:
            try:  # socket.send_fds of Python 3.11 knows no address
                self._socket.sendmsg([wire.encode(message)], beside, socket.MSG_DONTWAIT, self._agent)
            except BlockingIOError:
                if time.monotonic() >= until:
                    return False
                time.sleep(_LOOK)
            except OSError:
                return False
            else:
                return True
        return False

    def _hear(self, listening: socket.socket) -> None:
        while True:
            try:
                data = listening.recv(_LARGEST)
            except OSError:
                return
            if not data:
                return
            with contextlib.suppress(ValueError):
                message = wire.decode(data)
                if isinstance(message, wire.Dump):
                    _dump(Path(message.folder), self._rank)
                elif isinstance(message, wire.Membership) and self._is_news(message):
                    self._when_told()

    def _is_news(self, membership: wire.Membership) -> bool:
        """Whether it is of a generation to come; then it is the one to enter next."""
        with self._changing:
            if membership.generation <= self._generation:
                return False
            self._membership = membership
            self._has_membership.set()
            return True


def _nothing() -> None:
    """Nobody wants to know."""


def _dump(folder: Path, rank: int) -> None:
    """What torch's flight recorder has of the last collectives; nothing where it is off."""
    with contextlib.suppress(Exception):
        trace = _distributed_c10d._dump_fr_trace()  # type: ignore[attr-defined] # noqa: SLF001 - there is no public door
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"flight-recorder-rank{rank}.pickle").write_bytes(trace)
