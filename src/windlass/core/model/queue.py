"""A queue: where jobs wait, and the quota that its jobs share. Queues form trees, which share quota."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from windlass.core.model.job import Match


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue. Amounts are by resource.

    A resource for which no queue of a tree has a quota is not limited in that tree.
    A queue without a parent cannot borrow: its quota is a hard limit. A queue with a parent may use what its relatives
    lend, and loses it when they reclaim their own (after Kueue's cohorts, KEP-79).
    """

    name: str
    nominal: Mapping[str, int] = field(default_factory=dict)
    """Quota that is always available to its jobs. A parent's quota is in addition to that of its children."""
    parent: str = ""
    """Empty: a root."""
    weight: int = 1
    """Share of unassigned resources relative to its siblings."""
    borrowing: Mapping[str, int] = field(default_factory=dict)
    """Maximum use beyond `nominal`; absent: everything that is lent."""
    lending: Mapping[str, int] = field(default_factory=dict)
    """Maximum part of `nominal` that others may use; absent: all that is idle."""
    unreachable_grace: int | None = None
    """Time in ms for which a node of its jobs may be unreachable before it is lost. None: the default of 300 s.

    The declaration of a queue inherits it from the parent, as it does `half_life`."""
    half_life: int = 0
    """Time in ms after which past usage counts half. 0: past usage does not count."""
    max_running: int = 0
    """Maximum number of jobs that hold nodes at a time, in this queue and those below it. 0: no limit."""
    user_running: int = 0
    """Maximum number of jobs of one user that hold nodes at a time. 0: no limit."""
    user_limits: Mapping[str, int] = field(default_factory=dict)
    """Maximum usage by the jobs of one user together; absent: no limit."""
    max_priority: int | None = None
    """Highest priority that a job may ask for by a number. None: the backend's default."""
    namespace_selector: tuple[Match, ...] | None = None
    """Conditions on the labels of namespaces whose jobs may use it, all of which must hold; only Kubernetes has
    namespaces. None: only namespaces that name it in their label; the default queue is open to all then.
    """
    excess: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By user: usage of running jobs beyond what their gangs hold, such as that of pods that were resized in place.

    It is not declared, but observed: it counts against quota and limits, and is no part of the free capacity of nodes.
    """


@dataclass(frozen=True, slots=True)
class PastUsage:
    """Decayed average usage of a queue: past usage counts half after each half-life."""

    at: int
    """Time, in ms, up to which it is computed."""
    amounts: Mapping[str, int]
    """In 2^-40 of the resource's unit (`core.queues.decayed_usage.SCALE`)."""
