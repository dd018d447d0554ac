"""Nodes, their taints and their places in the topology."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.core.model.resources import Resources


@dataclass(frozen=True, slots=True)
class Taint:
    """Keeps replicas without a matching toleration away; as in Kubernetes core/v1."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Topology:
    """The levels a network is built of, widest first, for example ("block", "rack", "host").

    A node's place is one domain name per level. Nodes are kept sorted by place, so that every domain of
    every level is one contiguous range of rows.
    """

    levels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A machine, or what a backend declares to be one."""

    name: str
    capacity: Resources
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    place: tuple[str, ...] = ()
    """The node's domain at each topology level, widest first."""
    cordoned: str = ""
    """Why nothing new may start here ("" if it may): "drained by root", "Xid 79", …"""
    ready: bool = True
    """False: unreachable or lost. Nothing new starts here."""
    unreachable_since: int | None = None
    """Time in ms at which it became unreachable. None: it is not, or its backend does not know when."""
    lost: bool = False
    """Nothing runs here any more, by proof: it is out of service."""
    exclusive_in_use: tuple[str, ...] = ()
    """Exclusive resources that pods of others hold here, by name; of all others the node has one."""
    sharing: str = ""
    """How its GPUs are shared: "" (not at all), "milli" (in thousandths) or "mig" (in profiles)."""
