"""Parses and validates agents' messages: any pod can send anything, so no field is used unchecked.

Every function raises ValueError, KeyError or TypeError for invalid input.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from windlass import wire
from windlass.agent import hang_detection, rank_events
from windlass.agent.rendezvous import state_machine as rules

Message = Mapping[str, Any]
_EXACT = 1 << 53
"""Integers below this are exact in every JSON implementation."""
_LONGEST = 1_000
"""Maximum length of texts in characters: they are written into the gang's object."""


def integer(said: Any) -> int:
    """Returns a whole number; a boolean is invalid."""
    if type(said) is not int or abs(said) >= _EXACT:
        raise ValueError(f"no whole number: {str(said)[:40]}")
    return said


def peer(name: str, node: str, place: int, hello: Message) -> rules.Peer:
    """Returns the identity of an agent from its hello."""
    address, ranks = _text(hello["address"]), integer(hello["ranks"])
    if not (0 < ranks <= 4096 and 0 < len(address) < 256):
        raise ValueError(f"{name}: {address[:40]} with {ranks} ranks")
    return rules.Peer(name, node, address, port(hello["port"]), ranks, place, integer(hello["seen"]))


def port(said: Any) -> int:
    """Returns a port number."""
    if not 0 < integer(said) < 65536:
        raise ValueError(f"no port: {said}")
    return integer(said)


def behind(said: Any) -> hang_detection.SlowestRank:
    """Returns the rank of a node that is furthest behind."""
    rank, step, phase, beat, waited, patience, silent, (far, its_beat, who, where) = said
    return hang_detection.SlowestRank(
        integer(rank),
        integer(step),
        _text(phase),
        integer(beat),
        _number(waited),
        seconds(patience),
        _number(silent),
        (integer(far), integer(its_beat), integer(who), _text(where)),
    )


def seconds(said: Any) -> float:
    """Returns a timeout in seconds, which may be infinite."""
    return math.inf if said == math.inf else _number(said)


def measured(said: Any) -> wire.Telemetry | None:
    """Returns a rank's metrics: a loss may be infinite or NaN. Values that are no numbers are left out."""
    if said is None:
        return None
    values = {_text(name): float(value) for name, value in said["values"].items() if isinstance(value, int | float)}
    return wire.Telemetry(integer(said["rank"]), integer(said["generation"]), integer(said["step"]), values)


def recovered(said: Any) -> wire.RankRecovery | None:
    """Returns the last time at which ranks ran again."""
    return None if said is None else wire.RankRecovery(integer(said["generation"]), _number(said["seconds"]))


def event(name: str, said: Message) -> rank_events.RankEvent:
    """Returns a rank event of this agent; it cannot report for another one."""
    kind = rank_events.NAMES[said["type"]]
    told: dict[str, Any] = {key: _PARTS[key](value) for key, value in said.items() if key not in ("type", "id")}
    return kind(id=name, **told)


def _text(said: Any) -> str:
    if not isinstance(said, str):
        raise TypeError(f"no text: {str(said)[:40]}")
    said.encode()  # rejects lone surrogates, which no JSON can carry
    return said[:_LONGEST]


def _number(said: Any) -> float:
    value = _value(said)
    if not abs(value) < _EXACT:
        raise ValueError(f"no number to reckon with: {value}")
    return value


def _value(said: Any) -> float:
    if type(said) not in (int, float):
        raise TypeError(f"no number: {str(said)[:40]}")
    return float(said)


def _flag(said: Any) -> bool:
    if not isinstance(said, bool):
        raise TypeError(f"neither true nor false: {str(said)[:40]}")
    return said


_PARTS = {"generation": integer, "code": integer, "why": _text, "counts_as": _text, "hangs": _flag}
"""Fields of events, with their parsers."""
