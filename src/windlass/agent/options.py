"""What an agent is asked to do, read from torchrun's command line and checked before anything is started."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from windlass import wire
from windlass.agent.hang_detection import HangLimits
from windlass.agent.torchrun_options import OPTIONS, Option, parser

_DEFAULT_PORT = 29500
_SHUTDOWN = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
_ENDING = 2.0
"""Seconds of the grace that are left for killing ranks and telling how they ended."""


OUT, ERR = 1, 2


class Streams(NamedTuple):
    """For all ranks, or by local rank: 0, or OUT and ERR added up."""

    everyone: int = 0
    by_rank: Mapping[int, int] = MappingProxyType({})

    def of(self, local_rank: int) -> int:
        """Of one rank; where only some are named, the others have none."""
        return self.by_rank.get(local_rank, self.everyone)


class OptionError(Exception):
    """The command line makes no sense; the text says what to do instead."""


class RendezvousOptions(NamedTuple):
    """How agents find each other, and how long they wait for each other (seconds)."""

    host: str
    port: int
    id: str
    static: bool = False
    is_host: bool | None = None
    """Whether the meeting place is here. None: whoever can listen there, does."""
    join_timeout: float = 600.0
    last_call: float = 3.0
    interval: float = 1.0
    attempts: int = 3


class Options(NamedTuple):
    """One agent's work. `meeting` is None where there is nobody to meet."""

    argv: tuple[str, ...]
    how: str
    procs: str
    nodes: tuple[int, int] = (1, 1)
    meeting: RendezvousOptions | None = None
    node_rank: int = -1
    local_addr: str = ""
    run_id: str = "none"
    role: str = "default"
    max_restarts: int = 0
    log_dir: str = ""
    redirects: Streams = Streams()
    tee: Streams = Streams()
    shown: frozenset[int] | None = None
    signals: tuple[int, ...] = ()
    shutdown_timeout: float = 30.0
    virtual_local_rank: bool = False
    limits: HangLimits = HangLimits()
    notes: tuple[str, ...] = ()


def parse_streams(text: str) -> Streams:
    """From `3`, or `0:3,1:2`. Raises ValueError."""
    if re.fullmatch(r"[0-3]", text):
        return Streams(int(text))
    if re.fullmatch(r"\d+:[0-3](,\d+:[0-3])*", text):
        pairs = (part.split(":") for part in text.split(","))
        return Streams(0, {int(rank): int(which) for rank, which in pairs})
    raise ValueError(text)


def parse_options(arguments: Sequence[str], environment: Mapping[str, str]) -> Options:
    """Options of this command line. Raises Refused; exits as argparse does where it is not even one."""
    said = parser(environment).parse_args(arguments)
    nodes = _nodes(said.nnodes)
    if said.max_restarts < 0:
        raise OptionError(f"--max-restarts {said.max_restarts}: 0 or more")
    if said.logs_specs:
        raise OptionError("--logs-specs names a plugin of torchrun: leave it out and use --log-dir, --redirects, --tee")
    meeting = _meeting(said, nodes)
    return Options(
        argv=(said.training_script, *said.training_script_args),
        how=_how(said),
        procs=said.nproc_per_node,
        nodes=nodes,
        meeting=meeting,
        node_rank=said.node_rank if meeting and meeting.static else -1,
        local_addr=said.local_addr or "",
        run_id=said.rdzv_id,
        role=said.role,
        max_restarts=said.max_restarts,
        log_dir=said.log_dir or "",
        redirects=_streams("--redirects", said.redirects),
        tee=_streams("--tee", said.tee),
        shown=_ranks(said.local_ranks_filter),
        signals=_signals(said.signals_to_handle),
        shutdown_timeout=_shutdown(said.shutdown_timeout, environment),
        virtual_local_rank=said.virtual_local_rank,
        limits=_limits(said.hang),
        notes=tuple(_notes(said)),
    )


def _how(said: Any) -> str:
    if said.no_python and said.module and not said.run_path:
        raise OptionError("--no-python and --module contradict each other: leave one out")
    if said.no_python and not said.run_path:
        return "exec"
    return "module" if said.module and not said.run_path else "script"


def _nodes(text: str) -> tuple[int, int]:
    least, _, most = text.partition(":")
    try:
        pair = int(least), int(most or least)
    except ValueError:
        raise OptionError(f"--nnodes {text}: a number, or MIN:MAX as in 1:4") from None
    if not 0 < pair[0] <= pair[1]:
        raise OptionError(f"--nnodes {text}: MIN is at least 1, and at most MAX")
    return pair


def _meeting(said: Any, nodes: tuple[int, int]) -> RendezvousOptions | None:
    if said.standalone or nodes[1] == 1:
        return None
    if said.rdzv_backend not in {"c10d", "static"}:
        raise OptionError(
            f"--rdzv-backend {said.rdzv_backend}: agents meet each other here, with c10d (or static), "
            "and need no other server; give --rdzv-endpoint HOST:PORT of one of the nodes"
        )
    static = said.rdzv_backend == "static"
    if static and nodes[0] != nodes[1]:
        raise OptionError(f"--nnodes {said.nnodes} with static rendezvous: an elastic run takes --rdzv-backend c10d")
    if static and not 0 <= said.node_rank < nodes[1]:
        raise OptionError(f"--node-rank {said.node_rank}: from 0 to {nodes[1] - 1} with --nnodes {said.nnodes}")
    return _place(said, static=static)


def _place(said: Any, *, static: bool) -> RendezvousOptions:
    endpoint = said.rdzv_endpoint
    if static and not endpoint:
        endpoint = f"{said.master_addr}:{said.master_port or _DEFAULT_PORT}"
    host, port = _host_and_port(endpoint)
    conf = _pairs("--rdzv-conf", said.rdzv_conf)
    usual = RendezvousOptions(host, port, said.rdzv_id)
    return usual._replace(
        static=static,
        is_host=said.node_rank == 0 if static else _yes_or_no(conf.get("is_host")),
        join_timeout=_number(conf, ("join_timeout", "timeout"), usual.join_timeout),
        last_call=_number(conf, ("last_call_timeout",), usual.last_call),
        interval=_number(conf, ("keep_alive_interval",), usual.interval),
        attempts=int(_number(conf, ("keep_alive_max_attempt",), usual.attempts)),
    )


def _host_and_port(endpoint: str) -> tuple[str, int]:
    host, colon, port = endpoint.rpartition(":")
    if not colon or endpoint.endswith("]"):
        host, port = endpoint, str(_DEFAULT_PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise OptionError(
            f"--rdzv-endpoint {endpoint!r}: more than one node takes HOST:PORT of one of them, the same for all"
        )
    return host.strip("[]"), int(port)


def _pairs(option: str, text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    for name, equals, _ in pairs:
        if not equals:
            raise OptionError(f"{option} {text}: KEY=VALUE,KEY=VALUE,…; {name!r} has no value")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _number(pairs: Mapping[str, str], names: Sequence[str], usual: float) -> float:
    for name in names:
        if name in pairs:
            try:
                value = float(pairs[name])
            except ValueError:
                raise OptionError(f"{name}={pairs[name]}: a number is wanted") from None
            if value < 0:
                raise OptionError(f"{name}={pairs[name]}: not below 0")
            return value
    return usual


def _yes_or_no(text: str | None) -> bool | None:
    if text is None:
        return None
    return text.lower() in {"1", "true", "t", "yes", "y"}


def _streams(option: str, text: str) -> Streams:
    try:
        return parse_streams(text)
    except ValueError:
        raise OptionError(f"{option} {text}: 0 to 3, or LOCAL_RANK:0 to 3, as in 0:3,1:2") from None


def _ranks(text: str) -> frozenset[int] | None:
    try:
        return frozenset(int(part) for part in text.split(",")) if text else None
    except ValueError:
        raise OptionError(f"--local-ranks-filter {text}: numbers, as in 0,1") from None


def _signals(text: str) -> tuple[int, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name in {"SIGKILL", "SIGSTOP", "SIGCHLD"} or not hasattr(signal, name) or not name.startswith("SIG"):
            raise OptionError(f"--signals-to-handle {text}: {name} is no signal that a process may handle")
    return tuple(int(getattr(signal, name)) for name in names)


def _shutdown(said: int | None, environment: Mapping[str, str]) -> float:
    """As said, else what whoever started the agent gives it, less what ending takes; else torchrun's 30 s."""
    if said is not None:
        return float(said)
    try:
        if _SHUTDOWN not in environment and wire.GRACE in environment:
            return max(1.0, float(environment[wire.GRACE]) - _ENDING)
        return float(environment.get(_SHUTDOWN, "30"))
    except ValueError:
        raise OptionError(f"{_SHUTDOWN}={environment[_SHUTDOWN]}: seconds") from None


def _limits(text: str) -> HangLimits:
    pairs = _pairs("--hang", text)
    usual = HangLimits()
    if unknown := set(pairs) - set(usual._fields):
        raise OptionError(f"--hang {text}: there is {', '.join(usual._fields)}, not {', '.join(sorted(unknown))}")
    return usual._replace(**{name: _number(pairs, (name,), 0.0) for name in pairs})


def _notes(said: Any) -> list[str]:
    """One for each option that was given and does nothing here."""
    notes = []
    for option in OPTIONS:
        if isinstance(option, Option) and option.note:
            value = getattr(said, option.name.replace("-", "_"))
            if value not in (option.default, None, ""):
                notes.append(f"--{option.name}: {option.note}")
    return notes
