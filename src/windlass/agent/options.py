"""Parses and checks the options of an agent: torchrun's command line (`torchrun_options`) and `--hang`."""

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
_MIN_SECRET_LENGTH = 32
_SHUTDOWN = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"
_RESERVE_S = 2.0
"""Part of the grace period that is left for killing ranks and reporting their ends."""
OUT, ERR = 1, 2


class Streams(NamedTuple):
    """Selected streams, for all ranks or by local rank: 0, or the sum of OUT and ERR."""

    everyone: int = 0
    by_rank: Mapping[int, int] = MappingProxyType({})

    def of(self, local_rank: int) -> int:
        """Selected streams of one rank; where only some ranks are named, the others have none."""
        return self.by_rank.get(local_rank, self.everyone)


class CommandLineError(Exception):
    """A wrong command line; the text says what to do instead."""


class RendezvousOptions(NamedTuple):
    """The endpoint at which agents meet, and their timeouts in seconds."""

    host: str
    port: int
    id: str
    static: bool = False
    is_host: bool | None = None
    """Whether the endpoint is on this machine. None: an agent that can listen there does so."""
    join_timeout: float = 600.0
    last_call: float = 3.0
    interval: float = 1.0
    """Seconds between two heartbeats of an agent."""
    attempts: int = 15
    """Heartbeats in a row without an answer after which an agent is lost; 15 s with the default, as with torchrun."""
    secret: bytes = b""
    """Secret by which the agents of the run prove themselves to each other; empty: they do not."""


class Options(NamedTuple):
    """Options of one agent. `rendezvous` is None for a run on one node. `how`: `script`, `module` or `exec`."""

    argv: tuple[str, ...]
    how: str
    procs: str
    nodes: tuple[int, int] = (1, 1)
    rendezvous: RendezvousOptions | None = None
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
    """Streams of the text `3`, or `0:3,1:2`. Raises ValueError."""
    if re.fullmatch(r"[0-3]", text):
        return Streams(int(text))
    if re.fullmatch(r"\d+:[0-3](,\d+:[0-3])*", text):
        pairs = (part.split(":") for part in text.split(","))
        return Streams(0, {int(rank): int(which) for rank, which in pairs})
    raise ValueError(text)


def parse_options(arguments: Sequence[str], environment: Mapping[str, str]) -> Options:
    """Options of this command line. Raises CommandLineError; exits as argparse does where an option is unknown."""
    parsed = parser(environment).parse_args(arguments)
    nodes = _parse_nodes(parsed.nnodes)
    if parsed.max_restarts < 0:
        raise CommandLineError(f"--max-restarts {parsed.max_restarts}: 0 or more")
    if parsed.logs_specs:
        raise CommandLineError(
            "--logs-specs names a plugin of torchrun: leave it out and use --log-dir, --redirects, --tee"
        )
    rendezvous = _choose_rendezvous(parsed, nodes)
    if rendezvous is not None:
        rendezvous = rendezvous._replace(secret=_read_secret(environment))
    return Options(
        argv=(parsed.training_script, *parsed.training_script_args),
        how=_parse_how(parsed),
        procs=parsed.nproc_per_node,
        nodes=nodes,
        rendezvous=rendezvous,
        node_rank=parsed.node_rank if rendezvous and rendezvous.static else -1,
        local_addr=parsed.local_addr or "",
        run_id=parsed.rdzv_id,
        role=parsed.role,
        max_restarts=parsed.max_restarts,
        log_dir=parsed.log_dir or "",
        redirects=_streams_of("--redirects", parsed.redirects),
        tee=_streams_of("--tee", parsed.tee),
        shown=_parse_ranks(parsed.local_ranks_filter),
        signals=_parse_signals(parsed.signals_to_handle),
        shutdown_timeout=_shutdown_timeout(parsed.shutdown_timeout, environment),
        virtual_local_rank=parsed.virtual_local_rank,
        limits=parse_hang_limits(parsed.hang),
        notes=(*_unused_options(parsed), *_missing_secret(rendezvous, environment)),
    )


def _parse_how(parsed: Any) -> str:
    if parsed.no_python and parsed.module and not parsed.run_path:
        raise CommandLineError("--no-python and --module contradict each other: leave one out")
    if parsed.no_python and not parsed.run_path:
        return "exec"
    return "module" if parsed.module and not parsed.run_path else "script"


def _parse_nodes(text: str) -> tuple[int, int]:
    least, _, most = text.partition(":")
    try:
        pair = int(least), int(most or least)
    except ValueError:
        raise CommandLineError(f"--nnodes {text}: a number, or MIN:MAX as in 1:4") from None
    if not 0 < pair[0] <= pair[1]:
        raise CommandLineError(f"--nnodes {text}: MIN is at least 1, and at most MAX")
    return pair


def _choose_rendezvous(parsed: Any, nodes: tuple[int, int]) -> RendezvousOptions | None:
    if parsed.standalone or nodes[1] == 1:
        return None
    if parsed.rdzv_backend not in {"c10d", "static"}:
        raise CommandLineError(
            f"--rdzv-backend {parsed.rdzv_backend}: agents meet each other here, with c10d (or static), "
            "and need no other server; give --rdzv-endpoint HOST:PORT of one of the nodes"
        )
    static = parsed.rdzv_backend == "static"
    if static and nodes[0] != nodes[1]:
        raise CommandLineError(
            f"--nnodes {parsed.nnodes} with static rendezvous: an elastic run takes --rdzv-backend c10d"
        )
    if static and not 0 <= parsed.node_rank < nodes[1]:
        raise CommandLineError(
            f"--node-rank {parsed.node_rank}: from 0 to {nodes[1] - 1} with --nnodes {parsed.nnodes}"
        )
    return _read_rendezvous(parsed, static=static)


def _read_rendezvous(parsed: Any, *, static: bool) -> RendezvousOptions:
    endpoint = parsed.rdzv_endpoint
    if static and not endpoint:
        endpoint = f"{parsed.master_addr}:{parsed.master_port or _DEFAULT_PORT}"
    host, port = _parse_endpoint(endpoint)
    conf = _parse_pairs("--rdzv-conf", parsed.rdzv_conf)
    default = RendezvousOptions(host, port, parsed.rdzv_id)
    return default._replace(
        static=static,
        is_host=parsed.node_rank == 0 if static else _parse_flag(conf.get("is_host")),
        join_timeout=_get_number(conf, ("join_timeout", "timeout"), default.join_timeout),
        last_call=_get_number(conf, ("last_call_timeout",), default.last_call),
        interval=_get_number(conf, ("keep_alive_interval",), default.interval),
        attempts=int(_get_number(conf, ("keep_alive_max_attempt",), default.attempts)),
    )


def _read_secret(environment: Mapping[str, str]) -> bytes:
    secret = environment.get(wire.GANG_SECRET, "")
    if 0 < len(secret) < _MIN_SECRET_LENGTH:
        raise CommandLineError(
            f"{wire.GANG_SECRET} has {len(secret)} characters: at least {_MIN_SECRET_LENGTH}, as from "
            "`openssl rand -hex 32`, the same for all agents of the run"
        )
    return secret.encode(errors="surrogateescape")


def _missing_secret(rendezvous: RendezvousOptions | None, environment: Mapping[str, str]) -> list[str]:
    """A warning where agents meet without a secret; a controller has a way of its own to know them."""
    if rendezvous is None or rendezvous.secret or environment.get(wire.CONTROLLER):
        return []
    risk = f"without {wire.GANG_SECRET} any process that reaches this agent's port can join or end the run"
    return [f"{risk}: give all agents the same, as from `openssl rand -hex 32`"]


def _parse_endpoint(endpoint: str) -> tuple[str, int]:
    host, colon, port = endpoint.rpartition(":")
    if not colon or endpoint.endswith("]"):
        host, port = endpoint, str(_DEFAULT_PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise CommandLineError(
            f"--rdzv-endpoint {endpoint!r}: more than one node takes HOST:PORT of one of them, the same for all"
        )
    return host.strip("[]"), int(port)


def _parse_pairs(option: str, text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    for name, equals, _ in pairs:
        if not equals:
            raise CommandLineError(f"{option} {text}: KEY=VALUE,KEY=VALUE,…; {name!r} has no value")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _get_number(pairs: Mapping[str, str], names: Sequence[str], default: float) -> float:
    for name in names:
        if name in pairs:
            try:
                value = float(pairs[name])
            except ValueError:
                raise CommandLineError(f"{name}={pairs[name]}: a number is expected") from None
            if value < 0:
                raise CommandLineError(f"{name}={pairs[name]}: not below 0")
            return value
    return default


def _parse_flag(text: str | None) -> bool | None:
    if text is None:
        return None
    return text.lower() in {"1", "true", "t", "yes", "y"}


def _streams_of(option: str, text: str) -> Streams:
    try:
        return parse_streams(text)
    except ValueError:
        raise CommandLineError(f"{option} {text}: 0 to 3, or LOCAL_RANK:0 to 3, as in 0:3,1:2") from None


def _parse_ranks(text: str) -> frozenset[int] | None:
    try:
        return frozenset(int(part) for part in text.split(",")) if text else None
    except ValueError:
        raise CommandLineError(f"--local-ranks-filter {text}: numbers, as in 0,1") from None


def _parse_signals(text: str) -> tuple[int, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name in {"SIGKILL", "SIGSTOP", "SIGCHLD"} or not hasattr(signal, name) or not name.startswith("SIG"):
            raise CommandLineError(f"--signals-to-handle {text}: {name} is no signal that a process may handle")
    return tuple(int(getattr(signal, name)) for name in names)


def _shutdown_timeout(parsed: int | None, environment: Mapping[str, str]) -> float:
    """Seconds from the signal that is passed on to SIGKILL.

    --shutdown-timeout, else TORCH_ELASTIC_SHUTDOWN_TIMEOUT, else WINDLASS_GRACE less the time to kill ranks, else 30 s.
    """
    if parsed is not None:
        return float(parsed)
    variable = wire.GRACE if _SHUTDOWN not in environment and wire.GRACE in environment else _SHUTDOWN
    try:
        seconds = float(environment.get(variable, "30"))
    except ValueError:
        raise CommandLineError(f"{variable}={environment[variable]}: seconds") from None
    return max(1.0, seconds - _RESERVE_S) if variable == wire.GRACE else seconds


def parse_hang_limits(text: str) -> HangLimits:
    """Returns the limits of `--hang` or `WINDLASS_HANG`. Raises CommandLineError."""
    pairs = _parse_pairs("--hang", text)
    default = HangLimits()
    if unknown := set(pairs) - set(default._fields):
        raise CommandLineError(
            f"--hang {text}: there is {', '.join(default._fields)}, not {', '.join(sorted(unknown))}"
        )
    return default._replace(**{name: _get_number(pairs, (name,), 0.0) for name in pairs})


def _unused_options(parsed: Any) -> list[str]:
    """A note for each option that was given and has no effect here."""
    notes = []
    for option in OPTIONS:
        if isinstance(option, Option) and option.note:
            value = getattr(parsed, option.name.replace("-", "_"))
            if value not in (option.default, None, ""):
                notes.append(f"--{option.name}: {option.note}")
    return notes
