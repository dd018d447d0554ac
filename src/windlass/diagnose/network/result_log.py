"""The result of a network test as a log: one line about the test, then the lines of its measurements. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.diagnose.network.measurements import Sweep, read_sweep
from windlass.diagnose.network.sweep_worker import MARK

_HEAD = "windlass-network-result: "
_MAX_NODES, _MAX_NAME = 4096, 300


@dataclass(frozen=True, slots=True)
class NetworkResult:
    """A test that has ended. `cluster`: address of the API server, "" for this machine; `at`: ms since the epoch.

    `nodes`: names of its nodes in order; `gpus`: of each node, 0 for a test on CPUs.
    """

    cluster: str
    at: int
    nodes: tuple[str, ...]
    gpus: int
    sweep: Sweep


def write_result(cluster: str, at: int, nodes: Iterable[str], gpus: int, events: Sequence[str]) -> str:
    """Returns the log of a result. `events`: what the ranks have printed, without the mark."""
    head = {"cluster": cluster, "at": at, "nodes": sorted(set(nodes)), "gpus": gpus}
    return "\n".join([_HEAD + json.dumps(head), *(MARK + event for event in events), ""])


def read_result(log: str) -> NetworkResult:
    """Reads the log of a result. Raises ValueError if its first line is none that `write_result` writes."""
    first, _, rest = log.partition("\n")
    if not first.startswith(_HEAD):
        raise ValueError("no result of a network test")
    try:
        head: dict[str, Any] = json.loads(first.removeprefix(_HEAD))
        nodes, cluster = _names(head["nodes"]), _name(head["cluster"])
        at, gpus = _count(head["at"]), _count(head["gpus"])
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError("no result of a network test") from error
    return NetworkResult(cluster, at, nodes, gpus, read_sweep(rest.split("\n")))


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > _MAX_NODES:
        raise ValueError("no list of nodes")
    return tuple(map(_name, value))


def _name(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _MAX_NAME or not value.isprintable():
        raise ValueError("no name")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        raise ValueError("no count")
    return value
