"""Checks the placement of a gang against the nodes as they are now, before its pods are bound.

A plan is made on the cluster as it was last reported to the controller. Since then, pods of other schedulers may have
been bound, or a node may have been cordoned. The usage of gangs is that of their placements, not of their pods: a pod
that is being bound counts already, and the gang that is checked does not count against itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from windlass.backends.kubernetes.cluster.cluster_state import ClusterState
from windlass.core.model.elastic_size import job_in_size
from windlass.core.model.gang import demands_of
from windlass.core.model.job import Job
from windlass.core.model.status import Placement
from windlass.core.nodes.binding_check import StalePlacement, find_stale_node, resources_by_node


@dataclass(frozen=True, slots=True)
class _Hold:
    """Resources that one gang holds, by node, while `is_held` returns True."""

    amounts: Mapping[str, Counter[str]]
    is_held: Callable[[], bool]


class PlacementCheck:
    """Usage of nodes by gangs, own and external. A call costs by the nodes of its gang and the gangs on them.

    `report` is called when a placement is stale: it reports the cluster to the controller, which then plans again.
    """

    def __init__(self, state: ClusterState, report: Callable[[], None]) -> None:
        self._state, self._report = state, report
        self._holds: dict[str, _Hold] = {}
        self._gangs: defaultdict[str, set[str]] = defaultdict(set)
        """Ids of the gangs that hold something on a node, or did until recently, by node."""

    def hold(self, gang_id: str, job: Job, placement: Placement, is_held: Callable[[], bool]) -> None:
        """Records what a gang holds from now on; this replaces what it held before."""
        self.release(gang_id)
        amounts = resources_by_node([(job, placement.nodes)])
        self._holds[gang_id] = _Hold(amounts, is_held)
        for node in amounts:
            self._gangs[node].add(gang_id)

    def release(self, gang_id: str) -> None:
        """Forgets what a gang has held; to be called when its run is over, also if no other gang comes to its nodes."""
        hold = self._holds.pop(gang_id, None)
        for node in hold.amounts if hold is not None else ():
            self._gangs[node].discard(gang_id)
            if not self._gangs[node]:
                del self._gangs[node]

    def find_stale_node(
        self, gang_id: str, job: Job, placement: Placement, to_be_bound: Collection[str]
    ) -> StalePlacement | None:
        """Returns the first of the nodes `to_be_bound` that cannot take its part of a gang; None: all can.

        Reports the cluster to the controller if there is one.
        """
        stale = self._find(gang_id, job, placement, to_be_bound)
        if stale is not None:
            self._report()
        return stale

    def fits(self, gang_id: str, job: Job, placement: Placement, node: str) -> bool:
        """Tells whether a node still takes its part of a gang."""
        return self._find(gang_id, job, placement, [node]) is None

    def _find(
        self, gang_id: str, job: Job, placement: Placement, to_be_bound: Collection[str]
    ) -> StalePlacement | None:
        nodes, here = self._state.picture.by_name, set(to_be_bound)
        part = Placement({role: tuple(node for node in on if node in here) for role, on in placement.nodes.items()})
        held = {node: self._held_by_others(node, gang_id) for node in here}
        return find_stale_node(demands_of(job_in_size(job, placement)), part, nodes, held)

    def _held_by_others(self, node: str, gang_id: str) -> Counter[str]:
        held: Counter[str] = Counter()
        for other in self._gangs.get(node, set()) - {gang_id}:
            if self._holds[other].is_held():
                held.update(self._holds[other].amounts[node])
            else:
                self.release(other)
        return held
