"""Fields of sinfo: groups of nodes in one state. Each node is in the one partition, which has all nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import MappingProxyType
from typing import Any

from windlass.cli.slurm.field_values import NONE, node_list
from windlass.cli.slurm.format_text import Row, SlurmField

DEFAULT_FORMAT = "%9P %.5a %.10l %.6D %.6t %N"
LONG_FORMAT = "%9P %.5a %.10l %.6D %.11T %.14C %.10G %N"
NODE_FORMAT = "%20N %.6D %9P %6t"
PARTITION = "all*"
"""The queues share all nodes; the star marks the default partition."""
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
    resource = "gpu" if node["capacity"].get("gpu") else "cpu"
    return "allocated" if node["used"].get(resource, 0) >= node["capacity"].get(resource, 0) else "mixed"


def node_groups(nodes: Sequence[Row], *, each: bool) -> Iterator[dict[str, Any]]:
    """Nodes by state, the names in order; `each`: a group for every node."""
    groups: dict[Any, list[Row]] = {}
    for node in nodes:
        groups.setdefault(node["name"] if each else node_state(node), []).append(node)
    for members in groups.values():
        yield {"state": node_state(members[0]), "nodes": members}


def _cpus(row: Row) -> str:
    """CPUs in use, idle, of nodes that are not available, and all."""
    used = sum(node["used"].get("cpu", 0) for node in row["nodes"]) // 1000
    total = sum(node["capacity"].get("cpu", 0) for node in row["nodes"]) // 1000
    is_available = row["state"] in ("idle", "mixed", "allocated")
    idle, other = (total - used, 0) if is_available else (0, total - used)
    return f"{used}/{idle}/{other}/{total}"


def _most(resource: str) -> Callable[[Row], int]:
    return lambda row: max(node["capacity"].get(resource, 0) for node in row["nodes"])


FIELDS = MappingProxyType(
    {
        "P": SlurmField("PARTITION", lambda _row: PARTITION),
        "R": SlurmField("PARTITION", lambda _row: PARTITION.rstrip("*")),
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
        "E": SlurmField("REASON", lambda row: str(row["nodes"][0]["cordoned"] or "none")),
    }
)
"""Letter → field."""
