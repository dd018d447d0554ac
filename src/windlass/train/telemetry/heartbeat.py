"""Sends heartbeats with step and phase to this rank's agent, through a ring in shared memory that wakes no process.

Without an agent nothing happens. A thread receives the agent's messages: a request for the flight recorder's dump of a
hanging rank, which its main thread cannot write, or a new membership.
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

import torch.distributed as dist
from torch._C import _distributed_c10d

from windlass import wire

_MAX_MESSAGE_BYTES = 65536
_FIRST_GENERATION = 1
"""Generations count from 1; torchrun's restart count starts at 0."""
_SEND_TIMEOUT_S = 1.0
"""Seconds to wait for a full agent socket, at messages that must arrive: start and end of a generation or the loop."""
_POLL_S = 0.01


class HeartbeatSender:
    """The connection of one rank to its agent; `close` ends its thread."""

    def __init__(self, rank: int, environment: Mapping[str, str] = os.environ) -> None:
        self._rank = rank
        self._generation = int(environment.get(wire.GENERATION, _FIRST_GENERATION))
        self._beats = 0
        self._counted_step = 0
        """The step that the heartbeats are counted in. Phases that not all ranks enter shift the count of one step."""
        self._agent = environment.get(wire.AGENT_SOCKET, "")
        self._listener = environment.get(wire.TELEMETRY_SOCKET, "") if rank == 0 else ""
        self._path: Path | None = None
        self._socket: socket.socket | None = None
        self._ring_fd = -1
        """File descriptor of the heartbeat ring."""
        self._ring: mmap.mmap | None = None
        self._membership: wire.Membership | None = None
        self._membership_arrived = threading.Event()
        self._lock = threading.Lock()
        """Guards the membership, its event, and this rank's generation: one thread receives, another enters."""
        self._on_membership: Callable[[], None] = _ignore
        self.step = 0
        """Index of the current step, from 0."""
        if self._agent:
            self._open(reads_ring=environment.get(wire.HEARTBEAT_RING) == wire.RING_LAYOUT)

    def beat(self, phase: str) -> None:
        """Report that this rank enters a phase of its step, which all ranks enter."""
        if self.step != self._counted_step:
            self._counted_step, self._beats = self.step, 0
        self._beats += 1
        self.mark(phase)

    def mark(self, phase: str) -> None:
        """Report a phase without counting it: this rank alone enters it, which does not show its progress."""
        heartbeat = wire.Heartbeat(self._rank, self._generation, self.step, phase, self._beats)
        if self._ring is not None:
            wire.write_heartbeat(self._ring, heartbeat, time.monotonic())
        else:
            self._send(heartbeat)

    def reset_count(self) -> None:
        """Reset the heartbeat count, which all ranks start equally: the count shows which rank is behind."""
        self._beats = 0

    def send_metrics(self, values: Mapping[str, float]) -> None:
        """Send averages over the steps since the last message."""
        self._send(wire.Telemetry(self._rank, self._generation, self.step, values))

    def publish_metrics(self, values: Mapping[str, float]) -> None:
        """Send the averages over all ranks since the last report to the listener besides the agent, if there is one."""
        if self._listener:
            message = wire.Telemetry(self._rank, self._generation, self.step, values)
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
                sending.sendto(wire.encode(message), socket.MSG_DONTWAIT, self._listener)

    def on_membership(self, call: Callable[[], None]) -> None:
        """Register a callback for new memberships; it runs in the thread that receives them."""
        self._on_membership = call

    def announce_recovery(self, *, enabled: bool) -> None:
        """Tell the agent whether this rank can take a new membership from here on."""
        self._send_hello(enabled=enabled)

    def next_membership(self, seconds: float = 0.0) -> wire.Membership | None:
        """Return a membership that this rank has not entered yet, after waiting at most `seconds`."""
        self._membership_arrived.wait(seconds)
        return self._membership

    def enter(self, membership: wire.Membership) -> None:
        """Switch to the generation of `membership`; the next one can follow."""
        with self._lock:
            if self._membership is not None and self._membership.generation <= membership.generation:
                self._membership = None
                self._membership_arrived.clear()
            self._rank, self._generation = membership.rank, membership.generation
        self.reset_count()
        self.announce_recovery(enabled=True)

    def close(self) -> None:
        """Send the end of the loop and close: the code after the loop is not monitored."""
        self._send(wire.Goodbye(self._rank, self._generation), _SEND_TIMEOUT_S)
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            self._socket = None
        if self._path is not None:
            with contextlib.suppress(OSError):  # the agent may have removed its folder already
                self._path.unlink()
        self._ring = None
        if self._ring_fd >= 0:
            os.close(self._ring_fd)
            self._ring_fd = -1

    def _open(self, *, reads_ring: bool) -> None:
        # The socket lies in the agent's folder, which is removed with it. Its name is no longer than the agent's own,
        # so it fits into a socket address, and random, because ranks in containers may each have pid 1.
        self._path = Path(self._agent).with_name(os.urandom(5).hex())
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._socket.bind(str(self._path))
        except OSError:  # sending works without it
            self._path = None
        if reads_ring and hasattr(os, "memfd_create"):  # Linux
            with contextlib.suppress(OSError):  # a sandbox may refuse it
                self._ring_fd = os.memfd_create("windlass-heartbeats")
                os.ftruncate(self._ring_fd, wire.RING_SIZE)
                self._ring = mmap.mmap(self._ring_fd, wire.RING_SIZE)
        if not self._send_hello(enabled=False):
            self._ring = None  # the agent does not read it
        threading.Thread(target=self._receive, args=(self._socket,), name="agent", daemon=True).start()

    def _send_hello(self, *, enabled: bool) -> bool:
        """Send `Hello`, with the ring's descriptor if there is one. Returns whether it was sent."""
        rights = (
            [] if self._ring is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [self._ring_fd]))]
        )
        can_receive = enabled and self._path is not None
        return self._send(
            wire.Hello(self._rank, self._generation, os.getpid(), reforms=can_receive), _SEND_TIMEOUT_S, rights
        )

    def _send(
        self, message: wire.Message, timeout_s: float = 0.0, beside: Sequence[tuple[int, int, array.array[int]]] = ()
    ) -> bool:
        """Send a message; return whether it was sent.

        A full socket is retried for `timeout_s` seconds, other errors are not.
        """
        until = time.monotonic() + timeout_s
        while self._socket is not None:
            try:  # socket.send_fds of Python 3.11 takes no address
                self._socket.sendmsg([wire.encode(message)], beside, socket.MSG_DONTWAIT, self._agent)
            except BlockingIOError:
                if time.monotonic() >= until:
                    return False
                time.sleep(_POLL_S)
            except OSError:
                return False
            else:
                return True
        return False

    def _receive(self, listening: socket.socket) -> None:
        while True:
            try:
                data = listening.recv(_MAX_MESSAGE_BYTES)
            except OSError:
                return
            if not data:
                return
            with contextlib.suppress(ValueError):
                message = wire.decode(data)
                if isinstance(message, wire.Dump):
                    _write_flight_record(Path(message.folder), self._rank)
                elif isinstance(message, wire.Membership) and self._accept_membership(message):
                    self._on_membership()

    def _accept_membership(self, membership: wire.Membership) -> bool:
        """Return whether the membership is of a later generation, and keep it as the next one to enter."""
        with self._lock:
            if membership.generation <= self._generation:
                return False
            self._membership = membership
            self._membership_arrived.set()
            return True


def _ignore() -> None:
    """Default callback without effect."""


def _write_flight_record(folder: Path, rank: int) -> None:
    """Write torch's flight records of the last collectives, of NCCL only where it is used; nothing where they are off.

    The names of the files are those of torch's own dumps, by which `torchfrtrace` finds the files of all ranks.
    """
    uses_nccl = dist.is_initialized() and dist.get_backend() == "nccl"
    for name, function in {"gloo": "_dump_fr_trace", **({"nccl": "_dump_nccl_trace"} if uses_nccl else {})}.items():
        with contextlib.suppress(Exception):
            record = getattr(_distributed_c10d, function)()
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}_trace_rank_{rank}").write_bytes(record)
