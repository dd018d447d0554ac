"""What crosses the border between Windlass and the processes it starts: variable names, exit codes, messages.

Belongs here: constants and message shapes that both sides must agree on. Standard library only: the agent
and the training library import this and nothing else of ours. It is read by Python 3.9 too: the agent, packed into one
file, runs in other people's images.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import signal
import struct
import time
import traceback
from collections.abc import Collection, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple, Union

JOB_ID = "WINDLASS_JOB_ID"
JOB_NAME = "WINDLASS_JOB_NAME"
GENERATION = "WINDLASS_GENERATION"
"""Which start of the gang this process belongs to, from 1. Anything shared between ranks is keyed by it."""
NODE = "WINDLASS_NODE"
ROLE = "WINDLASS_ROLE"
REPLICA = "WINDLASS_REPLICA"
STATE_ID = "WINDLASS_STATE_ID"
"""Marks every process started on behalf of one state folder, for finding strays."""
CHECKPOINTS = "WINDLASS_CHECKPOINTS"
"""Where checkpoints of this job belong, the same for all of its generations: a folder, or a bucket."""
GRACE = "WINDLASS_GRACE"
"""Seconds between being asked to leave and being killed."""
MESH = "WINDLASS_MESH"
"""Degrees of parallelism, where a script names none: `pp=2,dp=2,tp=2`, or `auto`."""
REPORT_TO = "WINDLASS_REPORT_TO"
"""Who else is told of a run, by commas, where a script names nobody: `tensorboard:/logs,mlflow:http://host:5000,wandb`."""
INDEX = "JOB_COMPLETION_INDEX"
"""An array member's index; the name that Kubernetes' indexed Jobs use."""

AGENT_SOCKET = "WINDLASS_AGENT_SOCKET"
"""Path of the datagram socket on which a rank's agent hears it. Absent: no agent, and nobody to tell.

A rank that also wants to hear binds a socket of its own before it sends: what it is told goes to where it sent from.
The agent removes the folder of its socket at its end, with whatever was bound there."""
TRACKS = "WINDLASS_TRACKS"
"""Which `TRACKS_LAYOUT` the agent reads; absent: it is older than tracks, and is told each heartbeat."""
LISTENER = "WINDLASS_LISTENER"
"""Path of a datagram socket to which the first rank sends a `Telemetry` with each of its reports: what all ranks' steps
since the last one were like on average. With an agent or without one."""
DUMPS = "WINDLASS_DUMPS"
"""A folder for what a rank that hangs leaves behind: stacks, the flight recorder's dump."""
MEMORY = "WINDLASS_MEMORY"
"""A folder in this node's memory that outlives ranks, for copies of their states; its agent removes it at its end."""
PRELOAD = "WINDLASS_PRELOAD"
"""Modules, by commas, that the agent imports once for all its ranks, besides torch. Absent: what optimizers need."""
STREAMS = "WINDLASS_STREAMS"
"""JSON, where somebody else keeps what ranks print: for each rank of the node {out, err: descriptors that the agent
inherits, log: the files' path without .out and .err}. The agent then prints its own words only."""
REPORTS = "WINDLASS_REPORTS"
"""A descriptor that the agent inherits, or a path, to which it writes `Verdict` and `Recovered`, one a line."""
RECORDS = "WINDLASS_RECORDS"
"""A folder for what the agent knows of its ranks: `board.json`, replaced as a whole when it changes, at most twice a
second, and for each of its generations what ranks that hang left behind."""
FORGIVES = "WINDLASS_FORGIVES"
"""JSON, where a controller counts failures and decides what comes after the agent's end: {machine: failures of
machines that are forgiven, retryable: exit codes that count so, final: exit codes that end the agent, crew: the last
generation that agents of this job had, backoff: seconds before the second restart in a row, at most, and of a start
that ends the row}. `--max-restarts` then is for failures of the program alone."""
MEMBERSHIP = "WINDLASS_MEMBERSHIP"
"""Where a controller publishes who is a member: a file's path, `unix:` and a socket's, or `tcp:HOST:PORT`.

Absent: agents agree."""


AGENT_NAME = "WINDLASS_AGENT_NAME"
"""What the controller calls this agent, where memberships come over TCP: NAMESPACE/POD."""
AGENT_TOKEN = "WINDLASS_AGENT_TOKEN"  # noqa: S105 - a variable's name
"""By what it proves to be that one."""
ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
"""Where a rank says what went wrong, as torch's `record` does: `leave_words`."""
LAST_WORDS = "WINDLASS_LAST_WORDS"
"""A file in which the agent leaves one line about why the run has failed: a kubelet reads it as the pod's own words."""


SURVIVORS = "WINDLASS_SURVIVORS"
"""1 for a rank that is started beside others which go on with this generation: they have the state, and give it."""


class ExitCode(IntEnum):
    """Codes by which a training process says how its end is to be taken."""

    PREEMPTED = 83
    """Saved and left because it was asked to: start it again, this was nobody's fault."""
    RETRY = 84
    """The machine or the network is at fault: start it again."""
    FATAL = 85
    """Starting it again would fail in the same way."""


INFRASTRUCTURE, PREEMPTION, USER = "infrastructure", "preemption", "user"
"""Kinds of failures, by whose fault they are. Each kind has a limit of its own."""


class EndClass(NamedTuple):
    """One row of the table of failures: a class of ends, and what follows from it."""

    reason: str
    """One CamelCase word, shown in status and events."""
    kind: str
    """`INFRASTRUCTURE`, `PREEMPTION` or `USER`."""
    fatal: bool = False
    """Ends the job, whatever its limits."""
    codes: frozenset[int] = frozenset()
    """Exit codes of this class."""
    signals: frozenset[int] = frozenset()
    """Signals of this class, also where a shell reports one as exit code 128 + signal."""
    phrase: str = ""
    """Follows the name of the process in messages; empty where the code or the signal says enough."""


FATAL_EXIT_CODE = EndClass("FatalExitCode", USER, fatal=True)
"""An exit code that the job itself lists as fatal."""
RETRYABLE_EXIT_CODE = EndClass("RetryableExitCode", INFRASTRUCTURE)
"""An exit code that the job itself lists as retryable."""
LOST = EndClass("Lost", INFRASTRUCTURE)
"""An end that was not observed: the node or the process supervisor went away."""
ASKED_FOR_RETRY = EndClass(
    "AskedForRetry", INFRASTRUCTURE, codes=frozenset({ExitCode.RETRY}), phrase="asked to be started again"
)
END_CLASSES = (
    EndClass(
        "Preempted",
        PREEMPTION,
        codes=frozenset({ExitCode.PREEMPTED}),
        phrase="saved and left because it was asked to",
    ),
    ASKED_FOR_RETRY,
    EndClass(
        "AskedForNoRetry",
        USER,
        fatal=True,
        codes=frozenset({ExitCode.FATAL}),
        phrase="asked not to be started again",
    ),
    # Signals that a program rarely sends itself: the kernel's OOM killer, an operator, a machine that shuts down.
    EndClass(
        "Signal",
        INFRASTRUCTURE,
        signals=frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT}),
    ),
    EndClass("Signal", USER, signals=frozenset(range(1, 65))),
    EndClass("ExitCode", USER, codes=frozenset(range(1, 256))),
)
"""Classes of observed ends: the first row with the code or the signal applies."""
_SHELL = 128
"""A shell reports the end of a command by a signal as this number plus the signal's."""


def classify_end(
    code: int | None,
    by_signal: int | None,
    *,
    retryable: Collection[int] = (),
    fatal: Collection[int] = (),
) -> EndClass:
    """Class of an unsuccessful end by exit code or by signal; neither means that the end was not observed.

    `fatal` and `retryable` are exit codes from the job's restart policy. They take precedence, in this order.
    """
    if code is not None and code in fatal:
        return FATAL_EXIT_CODE
    if code is not None and code in retryable:
        return RETRYABLE_EXIT_CODE
    if code is None and by_signal is None:
        return LOST
    number = by_signal if code is None else code - _SHELL if _SHELL < code <= _SHELL + 64 else None
    return next((row for row in END_CLASSES if code in row.codes or number in row.signals), END_CLASSES[-1])


class Hello(NamedTuple):
    """A rank to its agent before its first heartbeat, and again when it enters another generation or its loop."""

    rank: int
    generation: int
    pid: int
    reforms: bool = False
    """It can take a new membership while it runs: it is told `Membership` instead of being killed for others' sake."""


class Heartbeat(NamedTuple):
    """A rank to its agent whenever it enters a phase of a step: noted in its track, or told where it has none."""

    rank: int
    generation: int
    step: int
    phase: str
    beat: int
    """How many phases it has entered: tells who is behind where all are in the same step."""


OPEN_PHASES = frozenset({"outside", "save", "evaluate"})
"""Phases of heartbeats that take as long as they take: the script's own code between others, a save that is waited for,
an evaluation."""


class Goodbye(NamedTuple):
    """A rank to its agent: it is past its last step, and says nothing more."""

    rank: int
    generation: int


class Telemetry(NamedTuple):
    """A rank to its agent about one step: seconds by phase, loss, memory, whatever it measures."""

    rank: int
    generation: int
    step: int
    values: Mapping[str, float]


class Member(NamedTuple):
    """A node of the gang. Its ranks are numbered after those of the members before it."""

    node: str
    address: str
    ranks: int


class Membership(NamedTuple):
    """Who makes up a generation, in order: from a controller or the leading agent to agents, from those to ranks."""

    generation: int
    members: tuple[Member, ...]
    port: int
    """Where the store of this generation listens, at `address`."""
    address: str = ""
    """Empty: the first member's."""
    me: int = -1
    """The receiver's place among the members. -1: it finds itself by its node's name."""
    restarts: int = 0
    """How many of the restarts that the job is allowed are used up."""
    rank: int = -1
    """The receiver's number, where it is a rank that goes on."""


class Dump(NamedTuple):
    """An agent to a rank that hangs: from whatever thread can, write the flight recorder into this folder."""

    folder: str


class Verdict(NamedTuple):
    """An agent's judgement on a generation: to whoever publishes memberships, and to ranks that survive."""

    generation: int
    kind: str
    """done, failed, lost, hang or stopped."""
    rank: int = -1
    code: int = 0
    """The exit code, negative for a signal."""
    reason: str = ""
    words: str = ""
    """What the rank itself has said of it."""


class Recovered(NamedTuple):
    """An agent to whoever started it: all of its ranks run again, as this generation."""

    generation: int
    seconds: float
    """Since what had happened did."""
    reason: str = ""


Message = Union[Hello, Heartbeat, Goodbye, Telemetry, Membership, Dump, Verdict, Recovered]
_MESSAGES = (Hello, Heartbeat, Goodbye, Telemetry, Membership, Dump, Verdict, Recovered)
_KINDS: Mapping[str, Any] = {kind.__name__.lower(): kind for kind in _MESSAGES}
_PLAIN: Mapping[Any, type] = {"int": int, "str": str, "bool": bool}
"""What JSON must hold for a field, by its annotation's text."""


def encode(message: Message) -> bytes:
    """One line of JSON without its end: a datagram, or a line of a stream."""
    fields = message._asdict()
    if isinstance(message, Membership):
        fields["members"] = [member._asdict() for member in message.members]
    return json.dumps({"say": type(message).__name__.lower(), **fields}, separators=(",", ":")).encode()


def decode(data: bytes) -> Message:
    """What `encode` made; fields that a newer sender added are left out. Raises ValueError for anything else."""
    try:
        said = json.loads(data)
        kind = _KINDS[said["say"]]
        if kind is Membership:
            said["members"] = tuple(_only(Member, member) for member in said["members"])
        message: Message = _only(kind, said)
    except (TypeError, KeyError, AttributeError, RecursionError, UnicodeDecodeError) as wrong:
        raise ValueError(f"not a message of Windlass: {data[:80]!r}") from wrong
    return message


def _only(kind: Any, fields: Mapping[str, Any]) -> Any:
    known = {name: fields[name] for name in kind._fields if name in fields}
    for name, value in known.items():
        annotation = kind.__annotations__[name]
        if not isinstance(value, _PLAIN.get(getattr(annotation, "__forward_arg__", ""), object)):
            raise TypeError(name)
    return kind(**known)


def leave_words(said: str, error: BaseException) -> None:
    """Have whoever started this rank hear why it ends: what is said last counts.

    {"message": {"message": said, "extraInfo": {"py_callstack": …, "timestamp": …}}}
    """
    more = {
        "py_callstack": "".join(traceback.format_exception(type(error), error, error.__traceback__)),
        "timestamp": str(int(time.time())),
    }
    path = Path(os.environ.get(ERROR_FILE, ""))
    with contextlib.suppress(OSError), path.open("w", encoding="utf-8") as file:
        json.dump({"message": {"message": said, "extraInfo": more}}, file)


def take_back_words() -> None:
    """What was said of an error that a script has caught is not why it ends."""
    with contextlib.suppress(OSError):
        Path(os.environ.get(ERROR_FILE, "")).unlink()


def in_words(error: BaseException) -> str:
    """As the last line of a traceback has it."""
    text, kind = str(error), type(error).__name__
    return f"{kind}: {text}" if text else kind


TRACKS_LAYOUT = "1"
"""To be counted up whenever what is below is laid out in another way: agent and library may be of two versions."""
_COUNT = struct.Struct("<q")
_NOTE = struct.Struct("<qqqqd16s")
_NOTES = 4096
TRACK = _COUNT.size + _NOTES * _NOTE.size
"""Bytes of a track: memory that a rank shares with its agent, sent as a descriptor with `Hello`. A step enters a dozen
phases, and a datagram for each would wake the agent up as often; the kernel drops them where ten are waiting."""
Memory = Union[mmap.mmap, bytearray]


def note(track: Memory, heartbeat: Heartbeat, at: float) -> None:
    """Leave it for whoever looks. `at`: seconds of the machine's monotonic clock. `phase`: at most 16 bytes.

    One thread notes.
    """
    (count,) = _COUNT.unpack_from(track)
    rank, generation, step, phase, beat = heartbeat
    place = _COUNT.size + count % _NOTES * _NOTE.size
    _NOTE.pack_into(track, place, rank, generation, step, beat, at, phase.encode())
    _COUNT.pack_into(track, 0, count + 1)


def noted(track: Memory, since: int) -> tuple[int, list[tuple[Heartbeat, float]]]:
    """How many there have been by now, and those after the first `since` with their times.

    Of a rank that was much faster than who looks only the newest: what is nearly as old as the track is long is being
    written over.
    """
    (count,) = _COUNT.unpack_from(track)
    if count < since:  # it is being written just now: struct clears the bytes first
        return since, []
    found = []
    for number in range(max(since, count - _NOTES // 2), count):
        place = _COUNT.size + number % _NOTES * _NOTE.size
        rank, generation, step, beat, at, phase = _NOTE.unpack_from(track, place)
        name = phase.rstrip(b"\0").decode(errors="replace")
        found.append((Heartbeat(rank, generation, step, name, beat), at))
    return count, found
