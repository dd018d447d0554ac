"""Gathers changes of the cluster and reports them to the controller together, after a short settling time."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from windlass.backends.kubernetes.cluster.cluster_state import ClusterState
from windlass.backends.kubernetes.cluster.lookups import ChangedNames, ClusterLookups
from windlass.backends.kubernetes.cluster.nodes import is_dead, is_ready
from windlass.backends.kubernetes.cluster.object_faults import ObjectFaults
from windlass.backends.kubernetes.cluster.placement_check import PlacementCheck
from windlass.backends.port import BackendEvent


class Settled(Enum):
    """Kinds of changes that are due to be reported."""

    NOTHING = 0
    CLUSTER = 1
    """Nodes, queues, policies, or usage by foreign pods."""
    LOOKUPS = 2
    """The same, and objects that names in jobs refer to."""


class ClusterMonitor:
    """The observed cluster, and the times at which its changes are reported to the controller.

    Changes are gathered for `settle` ms and reported together. Nothing is reported before `begin`.
    """

    def __init__(
        self, settle: int, now: Callable[[], int], wake: Callable[[], None], inject: Callable[[BackendEvent], None]
    ) -> None:
        self.faults = ObjectFaults(now)
        self.state = ClusterState(self.faults)
        self.placements = PlacementCheck(self.state, self.report)
        self.lookups = ClusterLookups(
            self._mark_lookups,
            lambda: self.state.picture.view.levels,
            self.state.queues_now,
            lambda: self.state.declared.policy.max_grace,
        )
        self._settle, self._now, self._wake, self._inject = settle, now, wake, inject
        self._begun = False
        self._since: int | None = None
        """Time of the first change that was not reported yet."""
        self._lookups_changed = False
        self.resolve_again: Callable[[ChangedNames], None] = lambda _changed: None
        """Resolves jobs again after a change of what their names refer to, and reports those that have changed."""

    def begin(self) -> None:
        """Reports from now on."""
        self._begun = True

    @property
    def due(self) -> int | None:
        """Time at which gathered changes have settled; None if there are none."""
        return None if self._since is None else self._since + self._settle

    def check(self) -> None:
        """Schedules a report if the cluster has changed."""
        if self.state.has_news:
            self._mark()

    def report(self) -> None:
        """Reports the cluster at once, before any other event that follows, if it has changed.

        Jobs that may no longer use their queue are reported with it: no turn sees such a queue without them.
        """
        if self.state.has_news:
            self._inject(self.state.changed())
            if self._begun and self.lookups.has_other_access():
                self.resolve_again(self.lookups.take_changed())

    def take(self, now: int) -> Settled:
        """Reports changes that are due, and returns which ones."""
        if self.due is None or now < self.due:
            return Settled.NOTHING
        self._since, changed, self._lookups_changed = None, self._lookups_changed, False
        self.report()
        return Settled.LOOKUPS if changed or self.lookups.has_other_levels() else Settled.CLUSTER

    def resolve_soon(self) -> None:
        """Schedules that jobs are resolved again."""
        self._mark_lookups()

    def is_closed(self, node: str) -> bool:
        """Tells whether no pod may be started on a node."""
        found = self.state.picture.objects.get(node)
        return found is None or found.spec.unschedulable or not is_ready(found)

    def is_dead(self, node: str) -> bool:
        """Tells whether nothing can run on a node any more: it was deleted, or declared out of service."""
        found = self.state.picture.objects.get(node)
        return found is None or is_dead(found)

    def _mark_lookups(self) -> None:
        self._lookups_changed = True
        self._mark()

    def _mark(self) -> None:
        if self._begun and self._since is None:
            self._since = self._now()
            self._wake()
