"""The lines of a network test as measurements. The lines come from logs: each is checked, and others are left out."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass.diagnose.network.sweep_worker import MARK

_MAX_NODES, _MAX_TEXT, _MAX_EVENTS = 4096, 300, 1_000_000
_FACTORS = {"all-reduce": 2.0, "all-gather": 1.0}
"""Factor f in nccl-tests' bus bandwidth: size / time × f (n - 1) / n. Source: nccl-tests, doc/PERFORMANCE.md."""


@dataclass(frozen=True, slots=True)
class PairMeasurement:
    """Best round trips between two nodes, by number: half of them, in seconds; `wrong`: answers that differed."""

    a: int
    b: int
    latency_s: float
    bytes: int
    seconds: float
    wrong: int

    @property
    def bandwidth(self) -> float:
        """Bytes a second in one direction."""
        return self.bytes / self.seconds


@dataclass(frozen=True, slots=True)
class CollectiveMeasurement:
    """Mean time of one collective on the slowest rank; `wrong`: ranks with a wrong result."""

    operation: str
    bytes: int
    seconds: float
    ranks: int
    wrong: int

    @property
    def algorithm_bandwidth(self) -> float:
        """Bytes a second: size over time."""
        return self.bytes / self.seconds

    @property
    def bus_bandwidth(self) -> float:
        """Bytes a second that each link carries, whatever the number of ranks."""
        return self.algorithm_bandwidth * _FACTORS[self.operation] * (self.ranks - 1) / self.ranks


@dataclass(frozen=True, slots=True)
class BlockedLink:
    """A connection from one node to another that failed, with its address and the reason."""

    source: str
    target: str
    address: str
    why: str


@dataclass(slots=True)
class Sweep:
    """All measurements of one test. `nodes`: their names; `has_ended`: the ranks reached the end of the test."""

    nodes: tuple[str, ...] = ()
    ranks: int = 0
    backend: str = ""
    pairs: list[PairMeasurement] = field(default_factory=list)
    collectives: list[CollectiveMeasurement] = field(default_factory=list)
    blocked: list[BlockedLink] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    has_ended: bool = False

    def name(self, node: int) -> str:
        """The name of a node by its number; with the number, where two nodes have one name."""
        name = self.nodes[node] if node < len(self.nodes) else "node"
        return name if self.nodes.count(name) == 1 else f"{name}#{node}"


def read_sweep(lines: Iterable[str]) -> Sweep:
    """Returns the measurements in the lines of a log, of whatever launcher; all other lines are ignored."""
    sweep, count = Sweep(), 0
    for line in lines:
        _, mark, text = line.partition(MARK)
        count += bool(mark)
        if mark and count <= _MAX_EVENTS:
            take_event(sweep, text)
    return sweep


def take_event(sweep: Sweep, text: str) -> None:
    """Adds the event of one line, without its mark; an event that is malformed is left out."""
    try:
        event = json.loads(text)
        _READERS[event["kind"]](sweep, event)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return


def _take_start(sweep: Sweep, event: Mapping[str, Any]) -> None:
    sweep.nodes = _names(event["nodes"])
    sweep.ranks, sweep.backend = _count(event["ranks"], 1), _text(event["backend"])


def _take_pair(sweep: Sweep, event: Mapping[str, Any]) -> None:
    a, b = (_count(event[name], 0) for name in ("a", "b"))
    if not a < b < len(sweep.nodes):
        raise ValueError(f"no nodes {a} and {b}")
    figures = _seconds(event["latency_s"]), _count(event["bytes"], 1), _seconds(event["seconds"])
    sweep.pairs.append(PairMeasurement(a, b, *figures, _count(event["wrong"], 0)))


def _take_collective(sweep: Sweep, event: Mapping[str, Any]) -> None:
    operation = event["operation"]
    if operation not in _FACTORS:
        raise ValueError(f"no collective {operation}")
    figures = _count(event["bytes"], 1), _seconds(event["seconds"]), _count(event["ranks"], 1)
    sweep.collectives.append(CollectiveMeasurement(operation, *figures, _count(event["wrong"], 0)))


def _take_blocked(sweep: Sweep, event: Mapping[str, Any]) -> None:
    nodes, links = _names(event["nodes"]), event["links"][: _MAX_NODES * 4]
    blocked = [BlockedLink(*(_text(each[name]) for name in ("from", "to", "address", "why"))) for each in links]
    sweep.nodes, sweep.blocked = nodes, sweep.blocked + blocked


def _take_error(sweep: Sweep, event: Mapping[str, Any]) -> None:
    if len(sweep.errors) < _MAX_NODES:
        sweep.errors.append(f"rank {_count(event['rank'], 0)} on {_text(event['node'])}: {_text(event['message'])}")


def _take_end(sweep: Sweep, _event: Mapping[str, Any]) -> None:
    sweep.has_ended = True


_READERS = {
    "start": _take_start,
    "pair": _take_pair,
    "collective": _take_collective,
    "blocked": _take_blocked,
    "error": _take_error,
    "end": _take_end,
}


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not 0 < len(value) <= _MAX_NODES:
        raise ValueError("no list of nodes")
    return tuple(map(_text, value))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return "".join(each if each.isprintable() else "?" for each in value[:_MAX_TEXT])


def _count(value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**53:
        raise ValueError("no count")
    return value


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError("no time")
    return float(value)
