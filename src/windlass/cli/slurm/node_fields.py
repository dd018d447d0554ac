"""Fields of sinfo: groups of the nodes of a partition in one state. Each partition has all nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import MappingProxyType
from typing import Any

from windlass.cli.slurm.field_values import NONE, node_list
from windlass.cli.slurm.format_text import Row, SlurmField
from windlass.cli.slurm.partitions import DEFAULT

DEFAULT_FORMAT = "%9P %.5a %.10l %.6D %.6t %N"
SUMMARY_FORMAT = "%9P %.5a %.10l %.16F %N"
REASON_FORMAT = "%20E %9u %19H %N"
LONG_FORMAT = "%9P %.5a %.10l %.6D %.11T %.14C %.10G %N"
NODE_FORMAT = "%20N %.6D %9P %6t"
LONG_NODE_FORMAT = "%20N %.6D %9P %.11T %4c %.8m %.10G %20E"
_SHORT = {
    "idle": "idle",
    "mixed": "mix",
    "allocated": "alloc",
    "drained": "drain",
    "draining": "drng",
    "down*": "down*",
}
_STATES = {"unreachable": "down*", "lost": "down*", "not ready": "down*", "maintenance": "maint", "reserved": "resv"}


def node_state(node: Row) -> str:
    """The state of a node by Slurm's name."""
    if node["cordoned"]:
        return "draining" if node["jobs"] else "drained"
    if node["state"] != "ready":
        return _STATES.get(str(node["state"]), "down*")
    if not node["jobs"]:
        return "idle"
    used, capacity = node["used"], node["capacity"]
    is_full = any(capacity.get(name) and used.get(name, 0) >= capacity[name] for name in ("gpu", "cpu"))
    return "allocated" if is_full else "mixed"


def node_groups(
    nodes: Sequence[Row], partitions: Sequence[str], key: Callable[[Row], object], *, by_node: bool = False
) -> Iterator[dict[str, Any]]:
    """The nodes of each partition, grouped by a key; `by_node`: all partitions of a group behind each other."""
    groups: dict[Any, list[Row]] = {}
    for node in nodes:
        groups.setdefault(key(node), []).append(node)
    pairs = [(name, members) for name in partitions for members in groups.values()]
    if by_node:
        pairs = [(name, members) for members in groups.values() for name in partitions]
    for name, members in pairs:
        yield {"state": node_state(members[0]), "nodes": members, "partition": name}


def node_reason(node: Row) -> str:
    """Why a node is not available; "none" if it is."""
    return str(node["cordoned"] or ("none" if node["state"] == "ready" else node["state"]))


def _cpus(row: Row) -> str:
    """CPUs in use, idle, of nodes that are not available, and all."""
    used = sum(node["used"].get("cpu", 0) for node in row["nodes"]) // 1000
    total = sum(node["capacity"].get("cpu", 0) for node in row["nodes"]) // 1000
    is_available = row["state"] in ("idle", "mixed", "allocated")
    idle, other = (total - used, 0) if is_available else (0, total - used)
    return f"{used}/{idle}/{other}/{total}"


def _node_counts(row: Row) -> str:
    """Nodes with jobs, idle ones, those that are not available, and all."""
    states = [node_state(node) for node in row["nodes"]]
    used, idle = sum(state in ("mixed", "allocated") for state in states), states.count("idle")
    return f"{used}/{idle}/{len(states) - used - idle}/{len(states)}"


def _partition(row: Row) -> str:
    """The partition; a star marks that of jobs that name none."""
    return f"{row['partition']}*" if row["partition"] == DEFAULT else str(row["partition"])


def _most(resource: str) -> Callable[[Row], int]:
    return lambda row: max(node["capacity"].get(resource, 0) for node in row["nodes"])


FIELDS = MappingProxyType(
    {
        "P": SlurmField("PARTITION", _partition),
        "R": SlurmField("PARTITION", lambda row: str(row["partition"])),
        "a": SlurmField("AVAIL", lambda _row: "up"),
        "l": SlurmField("TIMELIMIT", lambda _row: "infinite"),
        "D": SlurmField("NODES", lambda row: str(len(row["nodes"]))),
        "t": SlurmField("STATE", lambda row: _SHORT.get(str(row["state"]), str(row["state"]))),
        "T": SlurmField("STATE", lambda row: str(row["state"])),
        "N": SlurmField("NODELIST", lambda row: node_list([node["name"] for node in row["nodes"]])),
        "n": SlurmField("HOSTNAMES", lambda row: node_list([node["name"] for node in row["nodes"]])),
        "C": SlurmField("CPUS(A/I/O/T)", _cpus),
        "c": SlurmField("CPUS", lambda row: str(_most("cpu")(row) // 1000)),
        "m": SlurmField("MEMORY", lambda row: str(_most("memory")(row) >> 20)),
        "G": SlurmField("GRES", lambda row: f"gpu:{_most('gpu')(row)}" if _most("gpu")(row) else NONE),
        "E": SlurmField("REASON", lambda row: node_reason(row["nodes"][0])),
        "F": SlurmField("NODES(A/I/O/T)", _node_counts),
        "H": SlurmField("TIMESTAMP", lambda _row: "Unknown"),
        "u": SlurmField("USER", lambda _row: NONE),
    }
)
"""Letter → field."""
