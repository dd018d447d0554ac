"""Creates the pods of a gang while it waits for nodes, so that users and autoscalers see what is missing."""

from __future__ import annotations

from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.pods.pod_executor import PodExecutor
from windlass.backends.kubernetes.pods.pod_store import PodStore
from windlass.core.model.status import Phase


class StandbyPods:
    """Pods without a node. They are bound when the gang starts, and discarded when it is changed or suspended."""

    def __init__(self, pods: PodStore, executor: PodExecutor) -> None:
        self._pods, self._executor = pods, executor

    def prepare(self, gang: Gang) -> None:
        """Creates the pods of a queued gang that are missing. The size of an elastic gang is not known yet."""
        status, standby = gang.status, gang.standby
        waits = gang.stored is not None and status.phase is Phase.QUEUED and not status.waits_for
        if not waits or gang.elastic or standby.creating == standby.discards:
            return
        generation = status.generation + 1
        members = gang.members(generation, gang.sizes)
        there = [self._pods.get(gang.home.namespace, name) for name in members]
        if standby.generation != generation or None in there:
            standby.generation = generation
            self._executor.prepare(gang, generation)

    def discard(self, gang: Gang) -> None:
        """Deletes the pods of a gang that are on no node."""
        gang.standby.generation = 0
        gang.standby.discards += 1
        self._executor.deletion.delete((pod for pod in self._pods.owned(gang.home.uid) if not pod.spec.node_name), 0)
