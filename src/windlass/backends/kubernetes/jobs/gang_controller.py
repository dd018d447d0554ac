"""Controls the gangs of our own kinds: takes the controller's commands, and finds the gangs that a change concerns.

Changed gangs are marked; `run_control.RunControl.process_due` acts on them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.gangs.gang import NEVER_MADE, Gang
from windlass.backends.kubernetes.gangs.run import Run, slots
from windlass.backends.kubernetes.gangs.run_pods import is_leaving
from windlass.backends.kubernetes.jobs.run_control import RunControl
from windlass.backends.kubernetes.pods.launcher_jobs import has_ended
from windlass.backends.port import JobEvent
from windlass.core.lifecycle.events import GangGone
from windlass.core.model.elastic_size import job_in_size
from windlass.core.model.status import Phase, Placement
from windlass.jobs.kubernetes.status.clean_up import keeps_running_pods, pods_to_delete


class GangController:
    """Controller of all gangs of our kinds; `runs` acts on the marked ones."""

    def __init__(self, runs: RunControl) -> None:
        self._store, self._standby, self._changed = runs.store, runs.standby, runs.changed
        self._executor, self._parts = runs.executor, runs.parts

    # --- events and commands --------------------------------------------------------------------------

    def recover(self) -> None:
        """Takes over the runs that an earlier controller has left."""
        for gang in self._store:
            self.adopt(gang)

    def adopt(self, gang: Gang) -> None:
        """Takes over the run of one gang, if it has one."""
        with self._parts.monitor.faults.contain(gang.reference, "recover", partial(self.adopt, gang)):
            if gang.stored is not None and not gang.status.is_gone and gang.run is None:
                gang.run = self._recovered(gang)
            self._changed.mark(gang)

    def see_dead_nodes(self, nodes: Collection[str]) -> None:
        """Records that nothing can run on these nodes any more."""
        for gang in self._store if nodes else ():
            if gang.run is not None and any(slot.node in nodes for slot in gang.run.slots):
                with self._parts.monitor.faults.contain(gang.reference, "follow", partial(self._changed.mark, gang)):
                    self._parts.gang_pods.see_all(gang, gang.run)
                self._changed.mark(gang)

    def see_launcher(self, gang: Gang, job: Mapping[str, Any], *, there: bool) -> None:
        """Records that the launcher's Job of a gang has changed. One that was deleted before its end is created again.

        A Job with a time to live is deleted after its end.
        """
        if gang.run is not None:
            self._parts.gang_pods.see_launcher(gang, gang.run)
        if not (there or has_ended(job) or self._parts.gang_pods.launchers.of(gang.reference.owner_key)):
            self._executor.upkeep.forget_jobs(gang)
        self._changed.mark(gang)

    def see_changed_job(self, gang: Gang) -> None:
        """Deletes standby pods of a gang that was changed, and all pods of one whose object is gone.

        Of a released gang the pods on nodes stay.
        """
        if gang.run is None or gang.version.gone:  # the pods of a run are being bound
            self._standby.discard(gang)
        if gang.version.gone and not gang.released:
            self._executor.deletion.delete(self._parts.gang_pods.pods.owned(gang.reference.owner_key), 0)
        elif not gang.version.gone:
            self._changed.mark(gang)

    def owner(self, pod: Pod) -> Gang | None:
        """Returns the gang that a pod belongs to."""
        key = pod.metadata.controller
        if key is None:
            return None
        return self._store.get_owner(self._parts.gang_pods.launchers.owner(key) or key)

    def launch(self, job_id: str, generation: int, placement: Placement) -> None:
        """Creates and binds the pods of a generation."""
        gang = self._store.get(job_id)
        if gang is None or (gang.run is not None and gang.run.generation >= generation and gang.run.ordered):
            return
        if gang.run is None or gang.run.generation != generation:
            gang.run = self._new_run(gang, generation, placement)
            self._parts.gang_pods.see_all(gang, gang.run)
        gang.run.ordered = True
        self._standby.delete_strays(gang, gang.pod_names(gang.run))
        gang.run.pods.mark_all()
        self._executor.launch(gang, gang.run)
        self._changed.mark(gang)

    def stop(self, job_id: str, generation: int, grace: int) -> None:
        """Deletes the pods of a generation. `grace` in ms. Those of a released gang belong to it no more."""
        gang = self._store.get(job_id)
        run = gang.run if gang is not None else None
        if gang is None or run is None or run.generation != generation:
            self._parts.inject(JobEvent(job_id, GangGone(generation)))
            return
        self._parts.gang_pods.see_all(gang, run)  # a node may have been lost since
        run.tracker.stopping = True
        if gang.released:
            run.tracker.vanish()
        run.grace = max(1, -(-grace // 1000))
        self._changed.mark(gang)

    def restart_member(self, job_id: str, generation: int, member: int) -> None:
        """Replaces the pod of one member, unless a new one runs already."""
        gang = self._store.get(job_id)
        run = gang.run if gang is not None else None
        if gang is None or run is None or run.generation != generation or run.stopping:
            return
        run.tracker.restart(member)
        pod = run.pods.get(member)
        if pod is None or pod.status.has_ended or is_leaving(pod):
            run.restarting.add(member)
            run.replaced.update([pod.metadata.uid] if pod is not None else ())
            if pod is not None and is_leaving(pod):
                run.tracker.appear(member)
        else:
            self._parts.gang_pods.see(gang, run, pod, there=True)
        self._changed.mark(gang)

    def rescale(self, job_id: str, generation: int) -> tuple[Pod, ...]:
        """Goes on with the members of the committed placement. Returns the pods that are members no more.

        Missing members follow as `restart_member`. Pods beyond the placement are deleted with their services.
        """
        gang = self._store.get(job_id)
        before = gang.run if gang is not None else None
        if gang is None or before is None or before.generation != generation or before.stopping:
            return ()
        names = set(gang.pod_names(before))
        before.tracker.stopping = True  # requests under way for it create no more pods
        run = gang.run = self._recovered(gang)
        run.ordered, run.bound, run.grace = before.ordered, before.bound, before.grace
        run.strays, run.replaced = before.strays, before.replaced
        gang.dependents.made_for = NEVER_MADE
        self._executor.upkeep.remove_services(gang, names - gang.pod_names(run).keys())
        gang.notes.needs_write = True
        self._changed.mark(gang)
        return tuple(run.pods.extra)

    def clean_up(self, gang: Gang) -> tuple[Pod, ...]:
        """Deletes the pods of an ended gang that its policy names, and services without a pod.

        Returns the pods that are no longer counted. The pod of a launcher's Job belongs to the Job, and stays with it.
        """
        if gang.run is None:
            return ()
        pods, names, gang.run = tuple(gang.run.pods.all()), set(gang.pod_names(gang.run)), None
        self._parts.monitor.placements.release(gang.id)
        if gang.released:
            return pods
        phases = {pod.metadata.name: pod.status.phase for pod in pods if _is_owned(pod, gang)}
        gone = set(pods_to_delete(gang.parsed, gang.status, phases))
        self._executor.deletion.delete((pod for pod in pods if pod.metadata.name in gone), 0)
        if not keeps_running_pods(gang.parsed, gang.status):
            self._executor.upkeep.remove_services(gang, names - (phases.keys() - gone))
        return pods

    def delete_pods(self, gang: Gang) -> None:
        """Deletes every pod of a gang that was suspended, and the pods' services; of an ended gang, its pods.

        Pods of steps that have succeeded stay while the job goes on, with their logs.
        """
        if gang.run is None:
            owned = self._parts.gang_pods.pods.owned(gang.reference.owner_key)
            self._executor.deletion.delete((pod for pod in owned if not gang.is_of_earlier_step(pod)), 0)
        else:
            self._executor.deletion.delete(gang.run.pods.all(), 0)
            self._executor.upkeep.remove_services(gang, gang.pod_names(gang.run))

    # --- looking --------------------------------------------------------------------------------------

    def _recovered(self, gang: Gang) -> Run:
        """Returns the run of a gang as an earlier controller left it."""
        status = gang.status
        assert status.placement is not None  # noqa: S101 - a gang that is not gone has a placement
        run = self._new_run(gang, status.generation, status.placement)
        run.launched = status.phase is not Phase.ADMITTED
        self._parts.gang_pods.see_all(gang, run)
        ended = {slot.number for slot in run.slots if status.succeeded_members >> slot.number & 1}
        if status.target is not None:  # the earlier controller has reported every end up to then
            living = run.tracker.alive
            ended |= {slot.number for slot in run.slots if slot.number not in living}
        run.track(started=run.launched, ended=sorted(ended))
        self._parts.gang_pods.see_all(gang, run)
        return run

    def _new_run(self, gang: Gang, generation: int, placement: Placement) -> Run:
        members = slots(job_in_size(gang.job, placement), placement)
        run = Run(generation, members, alone=gang.restarts_members, settling=self._parts.settling)
        run.made_by_others = frozenset(range(len(members))).difference(gang.pod_names(run).values())
        if not gang.job.placed_by:
            self._parts.monitor.placements.hold(gang.id, gang.job, placement, lambda: _is_held(gang, run))
        return run


def _is_owned(pod: Pod, gang: Gang) -> bool:
    return pod.metadata.controller == gang.reference.owner_key


def _is_held(gang: Gang, run: Run) -> bool:
    """Tells whether a run still holds its nodes: the core gives them back in a committed state, or the run is gone."""
    return gang.run is run and not run.gone and gang.status.placement is not None
