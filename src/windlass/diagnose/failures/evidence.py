"""Evidence of one failed job: its logs, and facts that other analyses have found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from windlass.diagnose.diagnosis import EvidenceLine


@dataclass(frozen=True, slots=True)
class LogSource:
    """One log: a file, the output of a rank, the events of an object, or lines of the kernel."""

    name: str
    """Path or title that the report shows."""
    open: Callable[[], BinaryIO]
    """Opens the bytes of the log. The engine reads them once, from the start, and closes them."""
    rank: int | None = None
    """Rank whose output it is; absent where several ranks write to it, or none."""
    node: str | None = None
    attempt: int | None = None
    """Start of the job that wrote it, from 1. The engine explains the latest attempt of the evidence."""
    is_complete: bool = False
    """Whether nothing is missing between the start and the end of the log. Only then is an absent message evidence."""
    is_trusted: bool = False
    """Whether only the kernel, the node or the backend writes it. Into any other log a program can print any line."""
    size: int = 0
    """Bytes of a file that any process can open; 0 for all other sources."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Finding of another analysis, such as one of flight recorders. It counts like a line that fires the rule."""

    rule: str
    """Id of a rule of `windlass.diagnose.rules`."""
    evidence: EvidenceLine
    values: Mapping[str, str] = field(default_factory=dict)
    """Values of the named groups that the texts of the rule contain."""
    rank: int | None = None
    node: str | None = None
    time: int | None = None
    """Milliseconds since the epoch."""
    frame: EvidenceLine | None = None
    """Frame of the program in the traceback that the line ends."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known about one failed job."""

    logs: Sequence[LogSource]
    expected_ranks: int | None = None
    """Number of ranks of the job. Ranks without a log are then gaps of the evidence."""
    facts: Sequence[Fact] = ()
    has_failed: bool = False
    """Whether the backend says that the job failed. A log line that states a good end is then no evidence."""
