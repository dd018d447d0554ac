"""Nodes, their taints and their places in the topology."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.core.model.resources import Resources

MILLI = "milli"
MIG = "mig"


@dataclass(frozen=True, slots=True)
class Taint:
    """Excludes replicas without a matching toleration; as in Kubernetes core/v1."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Topology:
    """The levels of the network, widest first, for example ("block", "rack", "host").

    A node's place is one domain name per level. Nodes are kept sorted by place, so that every domain of
    every level is one contiguous range of rows.
    """

    levels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A machine, or a part of one that a backend presents as a node."""

    name: str
    capacity: Resources
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    place: tuple[str, ...] = ()
    """The node's domain at each topology level, widest first."""
    cordoned: str = ""
    """Reason why no new gang may start here ("": none): "drained by root", "Xid 79", …"""
    ready: bool = True
    """False: unreachable or lost. Nothing new starts here."""
    unreachable_since: int | None = None
    """Time in ms at which it became unreachable. None: it is not, or its backend does not know when."""
    lost: bool = False
    """Nothing runs here any more, by proof: it is out of service."""
    exclusive_in_use: tuple[str, ...] = ()
    """Names of the exclusive resources that foreign pods hold here; the node has one of every other."""
    sharing: str = ""
    """Sharing of its GPUs: "" (none), MILLI (in thousandths) or MIG (in profiles)."""
