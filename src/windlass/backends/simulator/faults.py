"""Faults of nodes: drawn from rates with a seed, or read from a list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import repeat
from random import Random

import msgspec

from windlass.backends.simulator.errors import TraceError
from windlass.backends.simulator.traces.file import Lines

NORMAL = 1000
"""Speed of a healthy node, in thousandths."""


class FaultKind(StrEnum):
    """The kinds of faults, by their name in a list of faults."""

    NODE = "node"
    """The node dies with everything that runs there, which is known once it is detected, and recovers."""
    UNREACHABLE = "unreachable"
    """The node does not report. What runs there goes on; ends and stops take effect when it reports again."""
    GPU = "gpu"
    """A GPU fails: one rank there dies, and nothing new starts on the node until it is repaired."""
    RANK = "rank"
    """One rank on the node is killed; the node is healthy."""
    GANG = "gang"
    """All processes of one gang on the node vanish without a report."""
    SLOW = "slow"
    """Gangs with a rank on the node run at `Fault.speed`: the slowest member determines the gang's."""
    RECLAIM = "reclaim"
    """A preemptible node: closed to new work for `notice` ms, then it dies like NODE."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault from `at` until `until`, in ms; RANK and GANG are instantaneous."""

    at: int
    kind: FaultKind
    node: str
    until: int = 0
    speed: int = NORMAL
    notice: int = 0


@dataclass(frozen=True, slots=True)
class FaultRate:
    """Mean time between two faults of a node, and mean duration; both exponential, in ms."""

    between: int
    lasts: int = 0


Rates = dict[FaultKind, FaultRate]

_LASTING = (FaultKind.NODE, FaultKind.UNREACHABLE, FaultKind.GPU, FaultKind.SLOW, FaultKind.RECLAIM)


def draw_faults(
    nodes: Iterable[str], rates: Rates, horizon: int, seed: int, *, speed: int = 500, notice: int = 120_000
) -> tuple[Fault, ...]:
    """Draws every fault that begins before `horizon` ms, in order. Equal seeds give equal faults."""
    rng = Random(seed)  # noqa: S311 - a model, no secret
    found = [
        Fault(at, kind, node, until, speed if kind is FaultKind.SLOW else NORMAL, _notice(kind, notice))
        for node in nodes
        for kind in sorted(rates)
        for at, until in _times(rates[kind], horizon, rng)
    ]
    return tuple(sorted(found, key=lambda fault: (fault.at, fault.node, fault.kind)))


def _notice(kind: FaultKind, notice: int) -> int:
    return notice if kind is FaultKind.RECLAIM else 0


def _times(rate: FaultRate, horizon: int, rng: Random) -> Iterator[tuple[int, int]]:
    """Yields (begin, end) of one kind of fault on one node: it cannot fail again before it is repaired."""
    now = 0
    for gap in repeat(rate.between):
        now += 1 + round(rng.expovariate(1 / gap))
        if now >= horizon:
            return
        until = now + (1 + round(rng.expovariate(1 / rate.lasts)) if rate.lasts else 0)
        yield now, until
        now = until


def read_faults(path: str, nodes: Iterable[str]) -> tuple[Fault, ...]:
    """Reads a list of faults: one JSON object per line, fields as in Fault. Raises TraceError with the row."""
    known, lines = set(nodes), Lines(path)
    found: list[Fault] = []
    for row, line in enumerate(lines, start=1):
        if line.strip():
            try:
                fault = msgspec.json.decode(line, type=Fault)
            except msgspec.DecodeError as error:
                raise TraceError(path, row, f"no fault: {error}") from None
            if problem := _problem(fault, known):
                raise TraceError(path, row, problem)
            found.append(fault)
    return tuple(sorted(found, key=lambda fault: fault.at))


def _problem(fault: Fault, nodes: set[str]) -> str:
    if fault.node not in nodes:
        return f"the cluster has no node {fault.node}"
    if fault.at < 0 or fault.notice < 0 or fault.speed < 1:
        return "at and notice cannot be negative, and speed is in thousandths from 1 on"
    if fault.kind in _LASTING and fault.until <= fault.at + fault.notice:
        return f"until is {fault.until}: the fault must last beyond at + notice, {fault.at + fault.notice}"
    return ""
