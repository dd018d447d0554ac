"""Records of torch's flight recorder: the newest collectives and transfers of one rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class DumpError(ValueError):
    """A dump that cannot be used. The text names the reason and the fix."""


class Progress(StrEnum):
    """State of an operation when its dump was written."""

    SCHEDULED = "scheduled"
    """The rank has called it. Its kernel, where there is one, may not have started."""
    STARTED = "started"
    COMPLETED = "completed"
    ENDED = "ended"
    """It has completed or failed: the recorder of gloo does not tell which."""

    @property
    def is_pending(self) -> bool:
        """Whether the rank still waits for the operation."""
        return self in (Progress.SCHEDULED, Progress.STARTED)


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """Place in the source code."""

    function: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file.rpartition('/')[2]}:{self.line} in {self.function}"


@dataclass(frozen=True, slots=True)
class TensorSet:
    """Tensors that go into an operation, or come out of it."""

    sizes: tuple[tuple[int, ...], ...] = ()
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Transfer:
    """Point-to-point part of an operation. `sender` and `receiver` are ranks within the group."""

    sender: int
    receiver: int
    is_send: bool


@dataclass(frozen=True, slots=True)
class FlightEntry:
    """One operation that a rank has called. `name`: as torch writes it without the backend, such as `all_reduce`."""

    backend: str
    group: str
    description: str
    """Purpose of the group: `default_pg`, the name of a mesh dimension, or `undefined`."""
    name: str
    sequence: int
    """Number among the collectives of the group, or of this rank's transfers. All operations of a coalesced call share
    it, and the last of them has the progress of all."""
    inputs: TensorSet
    outputs: TensorSet
    progress: Progress
    created_ns: int
    """Time of the call, in nanoseconds since the epoch; 0 if unknown."""
    frame: SourceFrame | None
    """Innermost frame of the program itself; absent in dumps without stacks."""
    transfer: Transfer | None = None
    is_p2p: bool = False
    """Whether it is a send or receive, or the end of a coalesced call of them."""
    thread: str = ""
    """Id of the thread that called it; "" if unknown."""


@dataclass(frozen=True, slots=True)
class RankStack:
    """Stack of the main thread of one rank when the gang was found to hang."""

    frames: tuple[SourceFrame, ...]
    """From the innermost to the outermost."""
    place: SourceFrame | None
    """Innermost frame of the program itself."""
    source: str
    """Path of the file."""
    written_ns: int = 0
    """Modification time of the file, in nanoseconds since the epoch; 0 if unknown."""

    @property
    def shown_place(self) -> str:
        """The place in the program, or else the innermost frame, of a stack with frames."""
        return str(self.place or self.frames[0])


@dataclass(frozen=True, slots=True)
class FlightDump:
    """The flight recorder of one rank."""

    rank: int
    source: str
    """Path of the file."""
    entries: Sequence[FlightEntry]
    """From the oldest to the newest."""
    members: Mapping[tuple[str, str], tuple[int, ...]]
    """Ranks of the groups whose members the dump lists, by name and description; gloo lists none."""
    is_wrapped: bool
    """Whether older entries are lost: the buffer was full. A missing old entry is then no evidence."""
    written_ns: int
    """Modification time of the file, in nanoseconds since the epoch; 0 if unknown."""
    stack: RankStack | None = None
    """Place of the rank at that time, where the agent has asked for it."""
