"""Judges a network test: what is blocked or wrong, and which nodes and pairs are slower than the others.

The figure of a node is that of its best pair. The reference is the median over the nodes: where one node of three is
slow, two of three pairs are, so that the median of pairs would be a slow one.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from windlass.diagnose.network.measurements import PairMeasurement, Sweep

SLOW = 0.85
"""Part of the reference below which the bandwidth of a pair is called slow."""
_LATE = 2.0
"""Multiple of the reference above which the latency of a pair is called high."""
_LEAST_COMPARED = 2
"""Pairs that are needed for a comparison."""


@dataclass(frozen=True, slots=True)
class NetworkFinding:
    """One thing that is wrong, and its fix."""

    text: str
    fix: str


@dataclass(frozen=True, slots=True)
class NetworkVerdict:
    """The findings, the references (bytes a second, seconds; 0 without pairs), and pairs that are slow or late."""

    findings: tuple[NetworkFinding, ...]
    bandwidth: float
    latency_s: float
    slow_pairs: frozenset[tuple[int, int]]
    late_pairs: frozenset[tuple[int, int]]

    @property
    def is_ok(self) -> bool:
        """Tells whether nothing is wrong."""
        return not self.findings


def judge_sweep(sweep: Sweep) -> NetworkVerdict:
    """Returns the verdict on all measurements of a test."""
    bandwidth = _reference({node: max(each.bandwidth for each in of) for node, of in _by_node(sweep).items()})
    latency = _reference({node: min(each.latency_s for each in of) for node, of in _by_node(sweep).items()})
    is_compared = len(sweep.pairs) >= _LEAST_COMPARED
    slow = [each for each in sweep.pairs if is_compared and each.bandwidth < SLOW * bandwidth]
    late = [each for each in sweep.pairs if is_compared and each.latency_s > _LATE * latency]
    findings = (
        *_blocked(sweep),
        *_unfinished(sweep),
        *_wrong(sweep),
        *_outliers(sweep, slow, "bandwidth", f"below {SLOW:.0%} of the median {bandwidth / 1e6:,.0f} MB/s"),
        *_outliers(sweep, late, "latency", f"above {_LATE:g} × the median {latency * 1e6:,.0f} µs"),
    )
    return NetworkVerdict(findings, bandwidth, latency, _keys(slow), _keys(late))


def _by_node(sweep: Sweep) -> dict[int, list[PairMeasurement]]:
    found: dict[int, list[PairMeasurement]] = {}
    for pair in sweep.pairs:
        for node in (pair.a, pair.b):
            found.setdefault(node, []).append(pair)
    return found


def _reference(figures: dict[int, float]) -> float:
    return statistics.median(figures.values()) if figures else 0.0


def _keys(pairs: Iterable[PairMeasurement]) -> frozenset[tuple[int, int]]:
    return frozenset((each.a, each.b) for each in pairs)


def _blocked(sweep: Sweep) -> Iterator[NetworkFinding]:
    """Yields the links that no connection passes; a node that no other one reaches is named once."""
    sources: dict[str, set[str]] = {}
    for link in sweep.blocked:
        sources.setdefault(link.target, set()).add(link.source)
    unreached = {
        target for target, by in sources.items() if len(by) >= _LEAST_COMPARED and len(by) == len(sweep.nodes) - 1
    }
    fix = "open all TCP ports between the nodes: ranks listen on ports that the kernel chooses"
    for target in sorted(unreached):
        why = next(link.why for link in sweep.blocked if link.target == target)
        yield NetworkFinding(f"{target} is reached by no other node: {why}", fix)
    for link in sweep.blocked:
        if link.target not in unreached:
            yield NetworkFinding(f"{link.source} cannot reach {link.target} at {link.address}: {link.why}", fix)


def _unfinished(sweep: Sweep) -> Iterator[NetworkFinding]:
    fix = "read the messages above this one and the logs of the ranks; windlass doctor host on the node"
    for error in sweep.errors:
        yield NetworkFinding(error, fix)
    if not (sweep.has_ended or sweep.errors or sweep.blocked):
        yield NetworkFinding("the test did not reach its end", fix)


def _wrong(sweep: Sweep) -> Iterator[NetworkFinding]:
    fix = "take these nodes out of service: data changes on the way; windlass doctor host --burn"
    for pair in sweep.pairs:
        if pair.wrong:
            yield NetworkFinding(
                f"{sweep.name(pair.a)} and {sweep.name(pair.b)}: {pair.wrong} messages came back changed", fix
            )
    for each in sweep.collectives:
        if each.wrong:
            yield NetworkFinding(
                f"{each.operation} of {each.bytes} bytes is wrong on {each.wrong} of {each.ranks} ranks", fix
            )


def _outliers(sweep: Sweep, pairs: list[PairMeasurement], what: str, rule: str) -> Iterator[NetworkFinding]:
    """Yields the nodes all of whose pairs are outliers, then the pairs that no such node explains."""
    keys, of_node = _keys(pairs), _by_node(sweep)
    nodes = (
        {node for node, of in of_node.items() if len(of) >= _LEAST_COMPARED and _keys(of) <= keys}
        if len(of_node) > _LEAST_COMPARED
        else set()
    )
    for node in sorted(nodes):
        fix = "compare its cables, ports and link speed with the others: windlass doctor host on the node"
        yield NetworkFinding(f"node {sweep.name(node)}: {what} of all its pairs is {rule}", fix)
    for pair in pairs:
        if not {pair.a, pair.b} & nodes:
            fix = "check the path between the two: link speed, switch ports, routes"
            yield NetworkFinding(f"{sweep.name(pair.a)} – {sweep.name(pair.b)}: {what} is {rule}", fix)
