"""Takes over jobs that another operator has run: finds out, from an object's status and its pods, how it was left.

A job that has ended stays ended. A job with pods on nodes runs: its pods become generation 0, they go on, and their
ends are judged as those of any other generation. A pod that is missing, or that no scheduler has placed yet, is one
that was lost: it is created anew on a node that has room for it, beside the others where pods restart one by one. A job
without any pod on a node is a new one. Pods without a node that an operator has created are deleted; those of a
launcher's Job are left to the scheduler that they name, because the Job would create them again. Of a pod that has
failed, another pod may have the node since: if the job restarts it, it does so where there is room. `train_job_sets`
has the rules for TrainJobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.cluster.cluster_monitor import ClusterMonitor
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.run_pods import generation_of
from windlass.backends.kubernetes.jobs.train_job_sets import TrainJobSets
from windlass.backends.kubernetes.pods.gang_pods import GangPods
from windlass.core.model.job import Job
from windlass.core.model.status import Phase, Placement, Status
from windlass.jobs.kubernetes.pods.pod_assembly import JOB_ROLE
from windlass.jobs.kubernetes.status import foreign_status

Slots = dict[str, list[str]]
"""By role: the node of each replica; "" where none is known."""


@dataclass(frozen=True, slots=True)
class JobTakeover:
    """Finder of the state in which another operator has left a job. `delete`: deletes pods."""

    job_sets: TrainJobSets
    gang_pods: GangPods
    monitor: ClusterMonitor
    delete: Callable[[Iterable[Pod], int], None]
    now: Callable[[], int]

    def status_of(self, gang: Gang) -> Status | None:
        """Returns the status of a job that another operator has run; None: it is new.

        Raises ContradictoryStatusError.
        """
        ended = foreign_status.read_end(gang.parsed, self.now())
        if ended is None:
            ended = self.job_sets.ended_status(gang.parsed, self.now())
        if ended is not None:
            return ended
        pods = tuple(self._pods(gang))
        key = gang.reference.owner_key
        self.delete((pod for pod in pods if not pod.spec.node_name and pod.metadata.controller == key), 0)
        placed = [pod for pod in pods if pod.spec.node_name]
        if placed:
            return self._running(gang, placed)
        return foreign_status.suspended_status(gang.parsed) if foreign_status.is_suspended(gang.parsed) else None

    def _pods(self, gang: Gang) -> Iterator[Pod]:
        """Yields the pods of the job that belong to no generation of ours."""
        key = gang.reference.owner_key
        yield from (pod for pod in self.gang_pods.pods.owned(key) if generation_of(pod) == 0)
        yield from (pod for pod in self.gang_pods.launchers.pods(key) if generation_of(pod) == 0)

    def _running(self, gang: Gang, pods: Sequence[Pod]) -> Status | None:
        """Returns the status of a job with pods on nodes; None if none of them is a member."""
        slots = _slots(gang, pods)
        if not any(any(nodes) for nodes in slots.values()):
            return None
        created = foreign_status.created_at(gang.parsed)
        started = foreign_status.started_at(gang.parsed) or created
        return Status(
            phase=Phase.RUNNING,
            reason="TakenOver",
            message="its pods were created by another operator",
            created_at=created,
            queued_at=created,
            admitted_at=started,
            first_admitted_at=started,
            launched_at=started,
            started_at=started,
            running_since=started,
            placement=self._completed(gang, slots, _slots(gang, (each for each in pods if not _has_failed(each)))),
            is_gone=False,
        )

    def _completed(self, gang: Gang, before: Slots, slots: Slots) -> Placement:
        """Returns a placement in which each replica without a node has one: the first with room for it.

        `before`: the same with the nodes of failed pods, of which each is the first for its replica. If no node has
        room, it is one of the gang's: the replica cannot start there, and the gang queues again.
        """
        own = [node for nodes in before.values() for node in nodes if node]
        missing: Slots = {}
        for role, nodes in slots.items():
            for index in [number for number, node in enumerate(nodes) if not node]:
                first = [node for node in (before[role][index], *own) if node]
                nodes[index] = self._node_for(gang.id, gang.job, role, missing, first)
                missing.setdefault(role, []).append(nodes[index])
        return Placement({role: tuple(nodes) for role, nodes in slots.items()})

    def _node_for(self, gang_id: str, job: Job, role: str, missing: Mapping[str, list[str]], own: list[str]) -> str:
        """Returns a node for one more replica of a role, beside those in `missing`; the first of `own` with room.

        Pods of the gang that exist count like those of others: the controller does not hold their nodes yet.
        """
        for node in dict.fromkeys((*own, *sorted(self.monitor.state.picture.by_name))):
            more = {**missing, role: [*missing.get(role, ()), node]}
            trial = Placement({name: tuple(nodes) for name, nodes in more.items()})
            if self.monitor.placements.fits(gang_id, job, trial, node):
                return node
        return own[0]


def _has_failed(pod: Pod) -> bool:
    return pod.status.phase == "Failed"


def _slots(gang: Gang, pods: Iterable[Pod]) -> Slots:
    """Returns the nodes of a job's replicas: by their names, or by their role if a Job has created them."""
    slots: Slots = {role: [""] * count for role, count in gang.sizes.items()}
    members = gang.members(0, gang.sizes)
    for pod in sorted(pods, key=lambda pod: pod.status.has_ended):  # of a Job's pods the last one
        if (member := members.get(pod.metadata.name)) is not None:
            slots[member.role][member.index] = pod.spec.node_name
            continue
        role = pod.metadata.labels.get(JOB_ROLE, "")
        if pod.metadata.controller != gang.reference.owner_key and slots.get(role) == [""]:
            slots[role][0] = pod.spec.node_name
    return slots
