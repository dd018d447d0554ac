"""The nodes of a replay: from a cluster file, from a trace's list of nodes, or all equal."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping

from windlass.backends.simulator.errors import RowError, TraceError
from windlass.backends.simulator.traces import cells as c
from windlass.backends.simulator.traces.file import Lines, csv_rows
from windlass.core.model.job import DEFAULT_QUEUE
from windlass.core.model.node import MILLI, Node, Topology
from windlass.core.model.queue import Queue
from windlass.core.model.resources import CPU, GPU, GPU_TYPE, MEMORY
from windlass.jobs.cluster.cluster_file import Cluster, load_cluster

_MAX_NODES = 100_000


def cluster_of(nodes: int, gpus: int = 8, *, cpus: int = 0, memory: int = 0, queues: Iterable[Queue] = ()) -> Cluster:
    """Returns a cluster of equal nodes n1, n2, …; `cpus` in cores, `memory` in bytes."""
    amounts = {name: amount for name, amount in ((GPU, gpus), (CPU, cpus * 1000), (MEMORY, memory)) if amount}
    return _cluster((Node(f"n{number}", amounts) for number in range(1, nodes + 1)), queues)


def read_nodes(path: str) -> Cluster:
    """Reads a Windlass cluster file (YAML), openb's list of nodes or Muri's cluster (CSV, gzip or not).

    Raises TraceError, and InputError for a cluster file.
    """
    lines = Lines(path)
    try:
        rows = csv_rows((line for line in lines if line.strip()), path)
        header = [name.strip() for name in next(rows, (0, []))[1]]
        for columns, nodes_of in _LISTS.items():
            if set(columns) <= set(header):
                rows_by_name = [dict(zip(header, cells, strict=False)) for _, cells in rows]
                return _cluster(_nodes(path, rows_by_name, nodes_of), ())
    except (EOFError, zlib.error):
        raise TraceError(path, lines.number + 1, "the gzip file is cut off here; fetch it again") from None
    return load_cluster(path)


def _cluster(nodes: Iterable[Node], queues: Iterable[Queue]) -> Cluster:
    named = {DEFAULT_QUEUE: Queue(DEFAULT_QUEUE), **{queue.name: queue for queue in queues}}
    return Cluster(tuple(nodes), tuple(named.values()), Topology())


def _nodes(path: str, rows: list[dict[str, str]], nodes_of: Callable[[Mapping[str, str]], list[Node]]) -> list[Node]:
    nodes: list[Node] = []
    for row, cells in enumerate(rows, start=2):
        try:
            nodes += nodes_of(cells)
        except RowError as error:
            raise TraceError(path, row, f"{error}; correct the row") from None
        if len(nodes) > _MAX_NODES:
            raise TraceError(path, row, f"more than {_MAX_NODES:,} nodes; leave some out")
    return nodes


def _openb(cells: Mapping[str, str]) -> list[Node]:
    amounts = {
        GPU: c.parse_gpus(cells.get("gpu", ""), "gpu"),
        CPU: c.parse_integer(cells.get("cpu_milli", ""), "cpu_milli", 10**9),
        MEMORY: c.parse_integer(cells.get("memory_mib", ""), "memory_mib", 10**9) << 20,
    }
    capacity = {name: amount for name, amount in amounts.items() if amount}
    return [Node(cells["sn"], capacity, {GPU_TYPE: cells.get("model", "")}, sharing=MILLI)]


def _muri(cells: Mapping[str, str]) -> list[Node]:
    """Parses Muri's cluster without processors and memory: no job of its traces requests any."""
    count = c.parse_integer(cells["num_node_p_switch"], "num_node_p_switch", _MAX_NODES)
    gpus = c.parse_gpus(cells["num_gpu_p_node"], "num_gpu_p_node")
    return [Node(f"n{number}", {GPU: gpus}) for number in range(1, count + 1)]


_LISTS: Mapping[tuple[str, ...], Callable[[Mapping[str, str]], list[Node]]] = {
    ("sn", "cpu_milli", "memory_mib", "gpu"): _openb,
    ("num_node_p_switch", "num_gpu_p_node"): _muri,
}
