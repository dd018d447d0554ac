"""Parses and validates agents' messages: any pod can send anything, so no field is used unchecked.

Used by `rendezvous`. Every function raises ValueError, KeyError or TypeError for invalid input.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice
from typing import Any, NamedTuple

from windlass import wire
from windlass.agent import hang_detection, rank_events
from windlass.agent.rendezvous import state_machine as rules

Message = Mapping[str, Any]
_MAX_INTEGER = 1 << 53
"""Integers below this are exact in every JSON implementation."""
_MAX_TEXT_CHARS = 1_000
"""Maximum length of texts: they are written into the gang's object."""
_MAX_METRICS = 64
"""Maximum number of metrics of one rank that are kept; `windlass.train` sends about 15."""
_MAX_RANKS = 4096
"""Maximum number of ranks of one pod."""


class AgentPod(NamedTuple):
    """Facts about an agent that its pod's object tells, and the agent itself is not asked for."""

    name: str
    node: str
    address: str


def parse_integer(value: Any) -> int:
    """Returns a whole number; a boolean is invalid."""
    if type(value) is not int or abs(value) >= _MAX_INTEGER:
        raise ValueError(f"not a whole number: {str(value)[:40]}")
    return value


def parse_peer(pod: AgentPod, place: int, hello: Message) -> rules.Peer:
    """Returns the identity of an agent from its pod and its hello."""
    ranks = parse_integer(hello["ranks"])
    if not 0 < ranks <= _MAX_RANKS:
        raise ValueError(f"{pod.name}: {ranks} ranks")
    seen = parse_integer(hello["seen"])
    return rules.Peer(pod.name, pod.node, pod.address, parse_port(hello["port"]), ranks, place, seen)


def parse_port(value: Any) -> int:
    """Returns a port number."""
    if not 0 < parse_integer(value) < 65536:
        raise ValueError(f"not a port: {value}")
    return parse_integer(value)


def parse_slowest_rank(value: Any) -> hang_detection.SlowestRank:
    """Returns the rank of a node that is furthest behind."""
    rank, step, phase, beat, waited, limit, silent, (ahead_step, ahead_beat, ahead_rank, ahead_phase) = value
    return hang_detection.SlowestRank(
        parse_integer(rank),
        parse_integer(step),
        _parse_text(phase),
        parse_integer(beat),
        _parse_number(waited),
        parse_seconds(limit),
        _parse_number(silent),
        (parse_integer(ahead_step), parse_integer(ahead_beat), parse_integer(ahead_rank), _parse_text(ahead_phase)),
    )


def parse_seconds(value: Any) -> float:
    """Returns a timeout in seconds, which may be infinite."""
    return math.inf if value == math.inf else _parse_number(value)


def parse_telemetry(value: Any) -> wire.Telemetry | None:
    """Returns a rank's first metrics: a loss may be infinite or NaN. Values that are not numbers are left out."""
    if value is None:
        return None
    first = islice(value["values"].items(), _MAX_METRICS)
    metrics = {_parse_text(name): float(each) for name, each in first if isinstance(each, int | float)}
    rank, generation, step = (parse_integer(value[key]) for key in ("rank", "generation", "step"))
    return wire.Telemetry(rank, generation, step, metrics)


def parse_recovery(value: Any) -> wire.RankRecovery | None:
    """Returns the last time at which ranks ran again."""
    if value is None:
        return None
    return wire.RankRecovery(parse_integer(value["generation"]), _parse_number(value["seconds"]))


def parse_event(name: str, message: Message) -> rank_events.RankEvent:
    """Returns a rank event of this agent; it cannot report for another one."""
    event_class = rank_events.EVENT_TYPES[message["type"]]
    fields: dict[str, Any] = {
        key: _EVENT_FIELDS[key](value) for key, value in message.items() if key not in ("type", "agent_id")
    }
    return event_class(agent_id=name, **fields)


def _parse_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a text: {str(value)[:40]}")
    value.encode()  # rejects lone surrogates, which no JSON can carry
    return value[:_MAX_TEXT_CHARS]


def _parse_number(value: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError(f"not a number: {str(value)[:40]}")
    number = float(value)
    if not abs(number) < _MAX_INTEGER:  # also rejects NaN
        raise ValueError(f"not a finite number below 2**53: {number}")
    return number


def _parse_flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"neither true nor false: {str(value)[:40]}")
    return value


_EVENT_FIELDS = {
    "generation": parse_integer,
    "code": parse_integer,
    "reason": _parse_text,
    "charged_to": _parse_text,
    "hangs": _parse_flag,
}
"""Fields of events, with their parsers."""
