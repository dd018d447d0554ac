"""A queue: where jobs wait, and what its jobs may hold together. Queues stand in trees, which share quota."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Queue:
    """Amounts by resource. A resource of which nobody in a tree has a quota is not limited in it.

    A queue without a parent has nobody to borrow from: its quota is a hard limit. One with a parent may use what its
    relatives lend, and loses it again when they ask for their own (after Kueue's cohorts, KEP-79).
    """

    name: str
    nominal: Mapping[str, int] = field(default_factory=dict)
    """What its jobs may always have together. A parent's comes on top of its children's."""
    parent: str = ""
    """"": a root."""
    weight: int = 1
    """Its part among its siblings, in proportion, of what nobody has a quota of."""
    borrowing: Mapping[str, int] = field(default_factory=dict)
    """Most that it may hold beyond nominal; absent: as much as is lent."""
    lending: Mapping[str, int] = field(default_factory=dict)
    """Most of its nominal quota that others may use; absent: all that is idle."""
    unreachable_grace: int | None = None
    """In ms: how long a node of its jobs may be unreachable before it is lost. None: the default of 300 s."""
    half_life: int = 0
    """In ms: how long until past use counts half. 0: the past does not count."""
    max_running: int = 0
    """Jobs, its own and those of the queues below it, that may hold nodes at a time. 0: no limit."""
    user_running: int = 0
    """The same for each user."""
    user_limits: Mapping[str, int] = field(default_factory=dict)
    """Most that the jobs of one user may hold together; absent: no limit."""
