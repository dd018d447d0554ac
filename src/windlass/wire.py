"""Contract between Windlass and the processes that it starts: variable names, exit codes, messages, shared memory.

Belongs here: constants, message shapes and small pure functions that both sides must agree on. Standard library only:
the agent and the training library import this module and nothing else of Windlass. Its syntax is Python 3.9's: the
agent, packed into one file, runs in images that Windlass did not build.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import re
import signal
import struct
import sys
import threading
import time
import traceback
from collections.abc import Collection, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, Union

JOB_ID = "WINDLASS_JOB_ID"
JOB_NAME = "WINDLASS_JOB_NAME"
JOB_UID = "WINDLASS_JOB_UID"
"""Uid of the job's object on Kubernetes, where another job may have the same name in another namespace or cluster."""
GENERATION = "WINDLASS_GENERATION"
"""Number of the start of this process, from 1: of the gang or, under agents, of its ranks, also in place."""
NODE = "WINDLASS_NODE"
ROLE = "WINDLASS_ROLE"
REPLICA = "WINDLASS_REPLICA"
STATE_ID = "WINDLASS_STATE_ID"
"""Marks every process that is started on behalf of one state folder, so that stray processes can be found."""
CHECKPOINTS = "WINDLASS_CHECKPOINTS"
"""Folder or bucket for the checkpoints of this job, the same for all of its generations."""
CALL, RESULT_KEY = "WINDLASS_CALL", "WINDLASS_RESULT_KEY"
"""The call of a function's job as JSON; random text, under which the lines of its result have their digests."""
GRACE = "WINDLASS_GRACE"
"""Seconds between the request to leave and SIGKILL."""
MESH = "WINDLASS_MESH"
"""Degrees of parallelism, where a script names none: `pp=2,dp=2,tp=2`, or `auto`."""
REPORT_TO = "WINDLASS_REPORT_TO"
"""Experiment trackers, by commas, where a script names none: `tensorboard:/logs,mlflow:http://host:5000,wandb`."""
INDEX = "JOB_COMPLETION_INDEX"
"""Index of an array job's member; the name that Kubernetes' indexed Jobs use."""

AGENT_SOCKET = "WINDLASS_AGENT_SOCKET"
"""Path of the datagram socket on which the agent receives messages of its ranks. Absent where there is no agent.

A rank that also receives messages binds a socket of its own before it sends: the agent answers to the sender's address.
The agent removes the folder of its socket, with every socket in it, when it ends."""
HEARTBEAT_RING = "WINDLASS_HEARTBEAT_RING"
"""The `RING_LAYOUT` that the agent reads; with another layout, or none, each heartbeat is sent as a message."""
TELEMETRY_SOCKET = "WINDLASS_TELEMETRY_SOCKET"
"""Path of a datagram socket to which the first rank sends a `Telemetry` with each of its reports: averages over all
ranks and over the steps since the report before. Works with and without an agent."""
DUMPS = "WINDLASS_DUMPS"
"""Folder for the diagnostics of a rank that hangs: stacks, the flight recorder's dump."""
MEMORY = "WINDLASS_MEMORY"
"""Folder in the memory of this node for in-memory checkpoint replicas: it outlives ranks, and its agent removes it."""
PRELOAD = "WINDLASS_PRELOAD"
"""Modules, by commas, that the fork server imports once for all ranks, besides torch. Absent: those of optimizers."""
STREAMS = "WINDLASS_STREAMS"
"""JSON, where the agent's parent process keeps the output of ranks: for each rank of the node {out, err: descriptors
that the agent inherits, log: the path of the files without .out and .err}. The agent then prints only its own lines."""
REPORTS = "WINDLASS_REPORTS"
"""A descriptor that the agent inherits, or a path, to which it writes `RankFailure` and `RankRecovery`, one a line."""
RECORDS = "WINDLASS_RECORDS"
"""Folder for the agent's records of its ranks: the file `STATUS_FILE`, replaced atomically at most twice a second, and
for each generation of the agent the diagnostics of ranks that hung."""
STATUS_FILE = "ranks.json"
"""Name of the rank status file."""
RESTART_BUDGET = "WINDLASS_RESTART_BUDGET"
"""A `RestartBudget` as JSON, where the agent's parent process counts failures and decides what follows the agent's end.
`--max-restarts` then limits failures of the program alone."""
CONTROLLER = "WINDLASS_CONTROLLER"
"""HOST:PORT of the controller that sends memberships over TCP. Absent: the agents agree on them among themselves."""
AGENT_NAME, AGENT_TOKEN_FILE = "WINDLASS_AGENT_NAME", "WINDLASS_AGENT_TOKEN_FILE"
"""Name of this agent at the controller (NAMESPACE/POD), and path of the file with the token that proves it."""
CONTROLLER_AUTHORITY, CONTROLLER_NAME = "WINDLASS_CONTROLLER_AUTHORITY", "controller.windlass.dev"
"""Certificate (PEM) of the controller's authority, and the DNS name in the controller's own, wherever it is reached."""
GANG_SECRET = "WINDLASS_GANG_SECRET"  # noqa: S105 - a variable's name
"""Secret that the agents and ranks of one start of a gang share: they prove themselves to each other by it."""
ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
"""Path of the file in which a rank describes its error, in the format of torch's `record`: see `write_error_file`."""
TERMINATION_MESSAGE_PATH = "WINDLASS_TERMINATION_MESSAGE_PATH"
"""Path of the container's termination message: the agent leaves one line about a failed run for the kubelet there."""
EXIT_TIMEOUT = "WINDLASS_EXIT_TIMEOUT"
"""Seconds that a failed rank has for its own end, by default 30: see `exit_after_timeout`."""
SURVIVORS = "WINDLASS_SURVIVORS"
"""1 for a rank that joins running ranks of the same generation: they hold the training state and broadcast it."""


class RankExitCode(IntEnum):
    """Exit codes by which a training process says how its end is to be treated."""

    PREEMPTED = 83
    """The process saved its work and left on request: start it again, it counts as no failure."""
    RETRY = 84
    """The machine or the network is at fault: start it again."""
    FATAL = 85
    """Another start would fail in the same way."""


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
    requeue: bool = False
    """The gang gives its nodes back before it starts again."""
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
    "AskedForRetry",
    INFRASTRUCTURE,
    requeue=True,
    codes=frozenset({RankExitCode.RETRY}),
    phrase="asked to be started again",
)
END_CLASSES = (
    EndClass(
        "Preempted",
        PREEMPTION,
        requeue=True,
        codes=frozenset({RankExitCode.PREEMPTED}),
        phrase="saved and left because it was asked to",
    ),
    ASKED_FOR_RETRY,
    EndClass(
        "AskedForNoRetry",
        USER,
        fatal=True,
        codes=frozenset({RankExitCode.FATAL}),
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
FIRST_SIGNAL_CODE = 128
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
    number = by_signal
    if code is not None:
        number = code - FIRST_SIGNAL_CODE if FIRST_SIGNAL_CODE < code <= FIRST_SIGNAL_CODE + 64 else None
    return next((row for row in END_CLASSES if code in row.codes or number in row.signals), END_CLASSES[-1])


class RestartBudget(NamedTuple):
    """Failures that an agent may recover from in place, as the job's restart policy and history leave them."""

    infrastructure: int
    """Failures of infrastructure that are still allowed. Failures of the program are limited by `--max-restarts`."""
    retryable: tuple[int, ...]
    """Exit codes that the job lists as failures of infrastructure."""
    fatal: tuple[int, ...]
    """Exit codes that the job lists as fatal."""
    generation: int
    """Newest generation that agents of this job had."""
    backoff_base: float
    """Seconds before the second restart in a row; see `restart_delay`."""
    backoff_max: float
    healthy_after: float
    """Seconds that a generation must live for its failure to be the first in a row."""

    @classmethod
    def from_json(cls, text: str) -> RestartBudget:
        """Inverse of `to_json`. Raises ValueError, KeyError or TypeError."""
        fields = json.loads(text)
        return cls(**{**fields, "retryable": tuple(fields["retryable"]), "fatal": tuple(fields["fatal"])})

    def to_json(self) -> str:
        """Value of the variable `RESTART_BUDGET`."""
        return json.dumps(self._asdict())


_DOUBLINGS = 30
"""Maximum number of doublings that are computed, so that numbers stay small."""
Duration = TypeVar("Duration", int, float)


def exponential_backoff(doublings: int, first: Duration, longest: Duration) -> Duration:
    """Delay before the next attempt: `first`, doubled so often, and `longest` at most. Both have the same unit."""
    return min(first * (1 << min(doublings, _DOUBLINGS)), longest)


def restart_delay(failures: int, base: Duration, longest: Duration) -> Duration:
    """Delay before a restart, in the unit of `base` and `longest`: exponential backoff over failures in a row.

    None after the first failure, `base` after the second, then twice the one before, `longest` at most.
    """
    return exponential_backoff(failures - 2, base, longest) if failures > 1 else 0


class Hello(NamedTuple):
    """From a rank to its agent: before its first heartbeat, on entering another generation, on entering its loop."""

    rank: int
    generation: int
    pid: int
    reforms: bool = False
    """The rank can take a new `Membership` while it runs, so it need not be killed when other ranks fail."""


class Heartbeat(NamedTuple):
    """From a rank to its agent: it enters a phase of a step. Written to its ring, or sent where it has none."""

    rank: int
    generation: int
    step: int
    phase: str
    beat: int
    """Number of phases that the rank has entered in this step: orders ranks that are in the same step."""


OPEN_PHASES = frozenset({"join", "outside", "compile", "save", "evaluate"})
"""Phases without a usual duration: joining, the script's own code, a compilation, a save that blocks, an evaluation."""
COMMUNICATION_PHASES = frozenset({"agree"})
"""Phases without computation and storage: the rank only exchanges messages with ranks that are in the phase too."""


class Goodbye(NamedTuple):
    """From a rank to its agent: the rank is past its last step and sends nothing more."""

    rank: int
    generation: int


class Telemetry(NamedTuple):
    """From a rank to its agent: measurements of one step, for example seconds by phase, loss, memory."""

    rank: int
    generation: int
    step: int
    values: Mapping[str, float]


class MemberNode(NamedTuple):
    """A node of the gang. Its ranks are numbered after those of the members before it."""

    node: str
    address: str
    ranks: int


class Membership(NamedTuple):
    """Members of a generation, in order. Sent by a controller or the leading agent to agents, and by those to ranks."""

    generation: int
    members: tuple[MemberNode, ...]
    port: int
    """Port of this generation's store, at `address`."""
    address: str = ""
    """Empty: the first member's."""
    me: int = -1
    """Index of the receiver among the members."""
    restarts: int = 0
    """Number of the job's allowed restarts that are used up."""
    rank: int = -1
    """New number of the receiver, where it is a rank that goes on."""


class Dump(NamedTuple):
    """From an agent to a rank that hangs: any thread that can writes the flight recorder's dump into this folder."""

    folder: str


class RankFailure(NamedTuple):
    """From an agent to its parent process: a rank of this generation has failed."""

    generation: int
    kind: str
    """`failed` or `hang`."""
    rank: int = -1
    code: int = 0
    """The exit code, negative for a signal."""
    reason: str = ""
    message: str = ""
    """Description of the error by the rank itself."""


class RankRecovery(NamedTuple):
    """From an agent to its parent process: all ranks of the agent run again, as this generation."""

    generation: int
    seconds: float
    """Time since the failure."""
    reason: str = ""


Message = Union[Hello, Heartbeat, Goodbye, Telemetry, Membership, Dump, RankFailure, RankRecovery]
_TYPES: Mapping[str, Any] = {
    "hello": Hello,
    "heartbeat": Heartbeat,
    "goodbye": Goodbye,
    "telemetry": Telemetry,
    "membership": Membership,
    "dump": Dump,
    "failure": RankFailure,
    "recovery": RankRecovery,
}
_NAMES = {kind: name for name, kind in _TYPES.items()}
_JSON_TYPES: Mapping[Any, type] = {"int": int, "str": str, "bool": bool}
"""Type of a field's JSON value, by the text of its annotation."""


def encode(message: Message) -> bytes:
    """One line of JSON without its end: the content of a datagram, or one line of a stream."""
    fields = message._asdict()
    if isinstance(message, Membership):
        fields["members"] = [member._asdict() for member in message.members]
    return json.dumps({"type": _NAMES[type(message)], **fields}, separators=(",", ":")).encode()


def decode(data: bytes) -> Message:
    """Inverse of `encode`; leaves out fields that a newer sender added. Raises ValueError for anything else."""
    try:
        fields = json.loads(data)
        kind = _TYPES[fields["type"]]
        if kind is Membership:
            fields["members"] = tuple(_build(MemberNode, member) for member in fields["members"])
        message: Message = _build(kind, fields)
    except (TypeError, KeyError, AttributeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(f"not a message of Windlass: {data[:80]!r}") from error
    return message


def _build(kind: Any, fields: Mapping[str, Any]) -> Any:
    known = {name: fields[name] for name in kind._fields if name in fields}
    for name, value in known.items():
        annotation = kind.__annotations__[name]
        if not isinstance(value, _JSON_TYPES.get(getattr(annotation, "__forward_arg__", ""), object)):
            raise TypeError(name)
    return kind(**known)


def write_error_file(message: str, error: BaseException) -> None:
    """Writes the error of this rank to the file `ERROR_FILE`, in torchelastic's format; the last call counts.

    {"message": {"message": message, "extraInfo": {"py_callstack": …, "timestamp": …}}}
    """
    details = {
        "py_callstack": "".join(traceback.format_exception(type(error), error, error.__traceback__)),
        "timestamp": str(int(time.time())),
    }
    path = Path(os.environ.get(ERROR_FILE, ""))
    with contextlib.suppress(OSError), path.open("w", encoding="utf-8") as file:
        json.dump({"message": {"message": message, "extraInfo": details}}, file)


def remove_error_file() -> None:
    """Removes the description of an error that the script has caught: it is not the reason of the rank's end."""
    with contextlib.suppress(OSError):
        Path(os.environ.get(ERROR_FILE, "")).unlink()


_EXIT_TIMEOUT_S, _FLUSH_TIMEOUT_S = 30.0, 1.0


def exit_after_timeout(code: int, message: str = "") -> threading.Timer:
    """Ends this failed process after `EXIT_TIMEOUT`, by `end_process`, unless the timer is cancelled."""
    seconds = os.environ.get(EXIT_TIMEOUT, "")
    timer = threading.Timer(float(seconds) if seconds.isdecimal() else _EXIT_TIMEOUT_S, end_process, (code, message))
    timer.daemon = True
    with contextlib.suppress(RuntimeError):  # no thread can start: without a timeout, but with the error that ends it
        timer.start()
    return timer


def end_process(code: int, message: str = "") -> None:
    """Writes a message to stderr, flushes both streams, and ends this process, whatever its threads wait for."""

    def flush() -> None:
        for stream, text in ((sys.stdout, ""), (sys.stderr, message)):
            with contextlib.suppress(Exception):  # a closed stream, or none
                print(text, end="", file=stream, flush=True)

    with contextlib.suppress(RuntimeError):  # the interpreter starts no thread any more
        flushing = threading.Thread(target=flush, daemon=True)  # a reader, or a thread with a lock, may block it
        flushing.start()
        flushing.join(_FLUSH_TIMEOUT_S)
    os._exit(code)


def describe_error(error: BaseException) -> str:
    """The last line of the error's traceback."""
    text, kind = str(error), type(error).__name__
    return f"{kind}: {text}" if text else kind


RING_LAYOUT = "1"
"""Version of the ring's layout below: agent and library may be of different versions. Increase it with each change."""
_COUNT = struct.Struct("<q")
_ENTRY = struct.Struct("<qqqqd16s")
_ENTRIES = 4096
RING_SIZE = _COUNT.size + _ENTRIES * _ENTRY.size
"""Bytes of a heartbeat ring: memory that a rank shares with its agent, sent as a descriptor with `Hello`. A step enters
a dozen phases; a datagram for each would wake the agent as often, and the kernel drops them where ten are waiting."""
Memory = Union[mmap.mmap, bytearray]


def write_heartbeat(ring: Memory, heartbeat: Heartbeat, at: float) -> None:
    """Appends a heartbeat to the ring. `at`: seconds of the machine's monotonic clock. `phase`: at most 16 bytes.

    A ring has one writing thread.
    """
    (count,) = _COUNT.unpack_from(ring)
    rank, generation, step, phase, beat = heartbeat
    offset = _COUNT.size + count % _ENTRIES * _ENTRY.size
    _ENTRY.pack_into(ring, offset, rank, generation, step, beat, at, phase.encode())
    _COUNT.pack_into(ring, 0, count + 1)


def read_heartbeats(ring: Memory, since: int) -> tuple[int, list[tuple[Heartbeat, float]]]:
    """Number of heartbeats written so far, and those after the first `since`, each with its time.

    Where the reader is far behind it gets only the newest: entries nearly as old as the ring is long may be overwritten
    while they are read.
    """
    (count,) = _COUNT.unpack_from(ring)
    if count < since:  # it is being written at this moment: struct clears the bytes first
        return since, []
    found = []
    for number in range(max(since, count - _ENTRIES // 2), count):
        offset = _COUNT.size + number % _ENTRIES * _ENTRY.size
        rank, generation, step, beat, at, phase = _ENTRY.unpack_from(ring, offset)
        name = phase.rstrip(b"\0").decode(errors="replace")
        found.append((Heartbeat(rank, generation, step, name, beat), at))
    return count, found


_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""C0 but tab and newline, DEL, C1, line separators, and the controls of bidirectional text (UAX 9)."""
_COLOUR = r"(?:0?|[1-4]|7|9|2[1-79]|3[0-79]|4[0-79]|9[0-7]|10[0-7]|[34]8[;:]5[;:]\d{1,3}|[34]8[;:]2(?:[;:]\d{1,3}){3})"
_COLOURS_OR_CONTROL = rf"\x1b\[{_COLOUR}(?:;{_COLOUR})*m|{_CONTROLS.pattern}"


def escape_controls(text: str) -> str:
    r"""Returns text that cannot control a terminal: controls as in JSON ("\u001b"); colours (SGR) are left."""
    if not _CONTROLS.search(text):
        return text
    return re.sub(_COLOURS_OR_CONTROL, _escape, text)


def escape_line(text: str) -> str:
    """Returns a line of a program as a terminal would show it: what follows the last carriage return, escaped."""
    return escape_controls(text.rstrip("\r").rpartition("\r")[2])


def _escape(found: re.Match[str]) -> str:
    return found[0] if len(found[0]) > 1 else f"\\u{ord(found[0]):04x}"
