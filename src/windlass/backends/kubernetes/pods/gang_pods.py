"""Reports the states of a run's pods to its member tracker, one pod at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.run import Run
from windlass.backends.kubernetes.gangs.run_pods import generation_of, is_being_deleted, is_leaving
from windlass.backends.kubernetes.pods import pod_ends
from windlass.backends.kubernetes.pods.launcher_jobs import LauncherJobs, failure_of
from windlass.backends.kubernetes.pods.pod_ends import Observation, Stage
from windlass.backends.kubernetes.pods.pod_store import PodStore
from windlass.core.lifecycle.events import Exit
from windlass.core.lifecycle.failure import EVICTED, MPI_WORKER_EVICTED, VANISHED, launcher_failure
from windlass.core.model.job import MemberRestart
from windlass.jobs.kubernetes.pods.pod_assembly import JOB_ROLE


@dataclass(frozen=True, slots=True)
class GangPods:
    """Observer of the pods of gangs, which reports each pod to the member tracker of its run.

    `is_dead` tells whether nothing can run on a node of this name. `image_pull_timeout`: see `pod_ends.observe`.
    """

    pods: PodStore
    launchers: LauncherJobs
    is_dead: Callable[[str], bool]
    now: Callable[[], int]
    image_pull_timeout: int

    def see(self, gang: Gang, run: Run, pod: Pod, *, there: bool) -> None:
        """Records one pod of a gang, as it is now or was when it was deleted."""
        generation = generation_of(pod)
        if generation == run.generation:
            (self._put if there else self._remove)(gang, run, pod)
        elif there and 0 < generation < run.generation and not (pod.status.has_ended or is_being_deleted(pod)):
            run.strays[pod.metadata.uid] = pod
        else:
            run.strays.pop(pod.metadata.uid, None)

    def see_all(self, gang: Gang, run: Run) -> None:
        """Records all pods of a gang. The cost is proportional to the size of the gang."""
        run.failed_launchers = self.launchers.failed_pods(gang.reference.owner_key)
        for pod in (*self.pods.owned(gang.reference.owner_key), *self.launchers.pods(gang.reference.owner_key)):
            self.see(gang, run, pod, there=True)

    def see_launcher(self, gang: Gang, run: Run) -> None:
        """Records the pods of a launcher's Job after the Job has changed; it may have failed without a pod."""
        before, run.failed_launchers = run.failed_launchers, self.launchers.failed_pods(gang.reference.owner_key)
        gang.notes.needs_write |= before != run.failed_launchers
        for pod in list(self.launchers.pods(gang.reference.owner_key)):
            self.see(gang, run, pod, there=True)
        for number in run.made_by_others if run.launched else ():
            if run.pods.get(number) is None and (why := self._job_failure(gang)) is not None:
                run.tracker.fail(number, Exit(code=1, end_class=why.end_class, detail=why.detail))

    def check_missing(self, run: Run) -> None:
        """Reports every member that has no pod. The cost is proportional to the size of the gang."""
        for slot in run.slots:
            if run.pods.get(slot.number) is None:
                self._report_missing(run, slot.number)

    def check_images(self, gang: Gang, run: Run) -> None:
        """Reports again the pods that wait for an image: their time limit may have passed."""
        for number, pod in run.pods.by_number.items():
            if pod_ends.due(pod, self.image_pull_timeout) is not None:
                self._report(gang, run, number, pod)

    def will_never_run(self, gang: Gang, run: Run, pod: Pod) -> bool:
        """Tells whether a pod of a gang that is being stopped has not run and will not.

        No more pods are bound then, and the name of a master that has ended does not resolve any more.
        """
        seen = self._observe(pod)
        if seen.ran or not pod.spec.node_name or seen.exit is not None:
            return not seen.ran
        living = (run.slots[number].role for number in run.tracker.alive if number < len(run.slots))
        return pod_ends.waits_for_master(pod) and not any(role in gang.job.success.roles for role in living)

    def _put(self, gang: Gang, run: Run, pod: Pod) -> None:
        """Records a pod of this generation as it is now."""
        name, uid = pod.metadata.name, pod.metadata.uid
        before, named = run.pods.number(uid), gang.pod_names(run).get(name)
        held = run.pods.get(named) if named is not None else None
        if held is not None and held.metadata.uid != uid and held.metadata.name == name:  # it is gone, unobserved
            self._remove(gang, run, held)
        number = run.pods.put(pod, self._member(gang, run, pod))
        if before is not None and before != number:
            run.tracker.leave(before)
            self._fill(gang, run, before)
        if uid not in run.replaced:
            run.restarting.discard(number)
        self._report(gang, run, number, pod)

    def _remove(self, gang: Gang, run: Run, pod: Pod) -> None:
        """Forgets a pod of this generation that was deleted."""
        number = run.pods.remove(pod.metadata.uid)
        if number is not None:
            self._report_missing(run, number)
            self._fill(gang, run, number)

    def _fill(self, gang: Gang, run: Run, number: int) -> None:
        """Assigns a free number to an extra pod: a launcher's Job may create the next pod early."""
        for pod in run.pods.extra:
            if self._member(gang, run, pod) == number:
                self._put(gang, run, pod)
                return

    def _member(self, gang: Gang, run: Run, pod: Pod) -> int | None:
        """Returns the member number of a pod: by its name, or by its role if a launcher's Job has created it."""
        names = gang.pod_names(run)
        if pod.metadata.name in names:
            return names[pod.metadata.name]
        role = pod.metadata.labels.get(JOB_ROLE, "")
        over = any(failure_of(job) is not None for job in self.launchers.of(gang.reference.owner_key))
        if role == "worker" or (pod.status.phase == "Failed" and not over):  # the Job creates another one in its place
            return None
        return next((slot.number for slot in run.slots if slot.role == role), None)

    def _report(self, gang: Gang, run: Run, number: int, pod: Pod) -> None:
        """Reports a pod to the tracker."""
        tracker, seen = run.tracker, self._observe(pod)
        if pod.metadata.uid in run.replaced:
            if seen.stage is Stage.ENDED:
                tracker.leave(number)
            return
        if seen.ran:
            tracker.start(number)
        if seen.stage is not Stage.ENDED:
            tracker.appear(number)
            if seen.exit is not None and not run.alone:
                tracker.fail(number, seen.exit)
            elif run.alone and is_leaving(pod) and not run.stopping and number not in run.made_by_others:
                tracker.fail(number, Exit(lost=True, detail=f"{pod.metadata.name} is being deleted"))
        elif number >= len(run.slots) or seen.exit is None:
            tracker.leave(number)
        elif (seen.exit.ok or run.alone) and _is_deleted_from_outside(run, number, pod):
            tracker.lose(number, f"the pod of {run.slots[number]} was deleted")
        else:
            exit = _counted_failure(seen.exit) if _restarts_if_deleted(gang, run, number, pod) else seen.exit
            tracker.end(number, self._exit_of(gang, run, number, exit), seen.at)

    def _exit_of(self, gang: Gang, run: Run, number: int, exit: Exit) -> Exit:
        """Returns the end of a member by the rules of mpi-operator, if a launcher's Job creates pods of the gang.

        The Job's failure is the launcher's, and the eviction of a worker ends the job.
        """
        if exit.ok or not run.made_by_others or run.stopping:
            return exit
        if number in run.made_by_others and (why := self._job_failure(gang)) is not None:
            return replace(exit, end_class=why.end_class, detail=f"{why.detail}: {exit.detail}")
        if exit.end_class is not None and exit.end_class.reason == EVICTED.reason:
            return replace(exit, end_class=MPI_WORKER_EVICTED)
        return exit

    def _job_failure(self, gang: Gang) -> Exit | None:
        """Returns the failure of the launcher's Job, with its reason and message."""
        for job in self.launchers.of(gang.reference.owner_key):
            if (failed := failure_of(job)) is not None:
                reason = failed.get("reason") or "LauncherFailed"
                message = failed.get("message") or f"{gang.parsed.kind} {gang.parsed.name} has failed"
                return Exit(code=1, end_class=launcher_failure(reason), detail=message)
        return None

    def _report_missing(self, run: Run, number: int) -> None:
        expected = run.launched and number < len(run.slots) and number not in run.made_by_others
        if expected and number not in run.restarting:
            run.tracker.lose(number, f"the pod of {run.slots[number]} is gone")
        else:
            run.tracker.leave(number)

    def _observe(self, pod: Pod) -> Observation:
        seen = pod_ends.observe(pod, self.now(), self.image_pull_timeout)
        if seen.stage is not Stage.ENDED and pod.spec.node_name and self.is_dead(pod.spec.node_name):
            detail = f"{pod.metadata.name} was on {pod.spec.node_name}, which is gone"
            return Observation(Stage.ENDED, Exit(lost=True, detail=detail), ran=seen.ran)
        return seen


def _is_deleted_from_outside(run: Run, number: int, pod: Pod) -> bool:
    """Tells whether a pod is being deleted and neither the gang's stop nor the launcher's Job is the reason."""
    return bool(pod.metadata.deletion_timestamp) and not run.stopping and number not in run.made_by_others


def _restarts_if_deleted(gang: Gang, run: Run, number: int, pod: Pod) -> bool:
    """Tells whether a pod has failed that would be restarted only if it had been deleted."""
    rules = {role.name: role.restart for role in gang.job.roles}
    return pod.status.phase == "Failed" and rules.get(run.slots[number].role) is MemberRestart.ON_LOSS


def _counted_failure(exit: Exit) -> Exit:
    """An end that was not observed, as a failure of the pod; any other end as it is."""
    return replace(exit, end_class=VANISHED) if exit.lost and exit.end_class is None else exit
