"""The backend of a Kubernetes cluster: `backends.port.Backend` with pods.

One turn: watches store changes and mark the gangs they concern; `wait` collects the events of these gangs; the
controller's new states are written into the jobs' objects (`commit`); then pods are bound or deleted (`perform`). All
state is in objects: a controller that takes over compares the states in them with the pods that exist.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from windlass.backends.inbox import Inbox
from windlass.backends.kubernetes.agents.agent_registry import AgentRegistry
from windlass.backends.kubernetes.agents.gang_agents import BackendAccess
from windlass.backends.kubernetes.agents.pod_tokens import TokenReviews
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.object_cache import Change, ObjectCache
from windlass.backends.kubernetes.client.object_reference import ObjectReference, job_id
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.owners import OwnerKey
from windlass.backends.kubernetes.client.resources import JOBS, PODS, Resource
from windlass.backends.kubernetes.cluster.cluster_monitor import ClusterMonitor, Settled
from windlass.backends.kubernetes.cluster.job_resolution import ResolvedJob, unresolved_job
from windlass.backends.kubernetes.cluster.lookups import ChangedNames
from windlass.backends.kubernetes.external.external_gangs import ExternalGangs
from windlass.backends.kubernetes.external.gang_control import BackendCallbacks
from windlass.backends.kubernetes.forward_clock import ForwardClock, latest
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.jobs.gang_controller import GangController
from windlass.backends.kubernetes.jobs.job_commits import JobCommits
from windlass.backends.kubernetes.jobs.job_fit import fit_job
from windlass.backends.kubernetes.jobs.job_reader import JobReader, is_kept
from windlass.backends.kubernetes.jobs.job_reports import JobReports
from windlass.backends.kubernetes.jobs.job_specs import JobSpecs
from windlass.backends.kubernetes.jobs.job_store import JobStore
from windlass.backends.kubernetes.jobs.job_takeover import JobTakeover
from windlass.backends.kubernetes.jobs.run_control import BackendParts, ChangedGangs, RunControl
from windlass.backends.kubernetes.jobs.train_job_sets import TrainJobSets
from windlass.backends.kubernetes.kueue.kueue_jobs import KueueJobs
from windlass.backends.kubernetes.pods.gang_pods import GangPods
from windlass.backends.kubernetes.pods.launcher_jobs import LauncherJobs
from windlass.backends.kubernetes.pods.pod_executor import PodExecutor
from windlass.backends.kubernetes.pods.pod_store import PodStore
from windlass.backends.kubernetes.pods.standby_pods import StandbyPods
from windlass.backends.kubernetes.schedules.schedule_runs import ScheduleRuns
from windlass.backends.kubernetes.schedules.schedule_turn import TurnContext
from windlass.backends.kubernetes.settings import BackendSettings
from windlass.backends.kubernetes.status.event_correlation import EventRecord
from windlass.backends.kubernetes.status.events import OBJECT_FAULT, STATE_REPLACED, EventRecorder
from windlass.backends.kubernetes.status.job_announcer import JobAnnouncer
from windlass.backends.kubernetes.status.pending_conditions import PendingConditions
from windlass.backends.kubernetes.status.queue_usage import QueueUsageWriter, read_past_usage
from windlass.backends.kubernetes.status.redaction import MessageRedaction
from windlass.backends.kubernetes.status.refusals import Refusal, Refusals
from windlass.backends.kubernetes.status.status_writer import StatusWriter
from windlass.backends.port import BackendEvent, Changes, JobRecovered, Recovery
from windlass.core.lifecycle.commands import Command, Launch, Rescale, RestartMember, Stop
from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.status import TERMINAL, JobState
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.train_runtimes import TRAIN_JOB

_DEFAULTS = BackendSettings()


class KubernetesBackend:
    """The port `backends.port.Backend` for one cluster.

    Empty until the watches (`watches`) have listed everything; then `recover` may be called. `on_trouble` is called
    with messages for people that concern no single job.
    """

    def __init__(
        self,
        connection: Connection,
        clock: Callable[[], int],
        settings: BackendSettings = _DEFAULTS,
        on_trouble: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self.connection, self.settings, self.on_trouble = connection, settings, on_trouble
        self._time, self._woken, self._leads = ForwardClock(clock), False, False
        self.inbox = Inbox()
        """Events for the controller."""
        # 1. what is known of the cluster
        self.monitor = ClusterMonitor(settings.cluster_settling, self.now, self.inbox.wake, self.inbox.put)
        self.monitor.lookups.only_labelled = settings.only_labelled
        self.cluster, self.faults = self.monitor.state, self.monitor.faults
        self.pods = PodStore(self.see_pod, self._see_released)
        self.launchers = LauncherJobs(self.pods)
        self.job_objects: defaultdict[Resource, ObjectCache[dict[str, Any]]] = defaultdict(ObjectCache)
        """Job objects by kind, batch Jobs included."""
        # 2. how pods and objects are written
        self.changed = ChangedGangs(self.inbox.wake)
        mark, requests, wait = self.changed.mark, settings.max_requests, settings.wait_settling
        self._executor = PodExecutor(
            connection,
            self.pods,
            requests,
            self.monitor,
            mark,
            lambda job: self.see_jobs(self.job_objects[JOBS].put(job)),
            on_trouble,
        )
        deletion = self._executor.deletion
        deletion.eviction_timeout_s = settings.eviction_timeout_s
        urgent = self._executor.binding.at_once
        self.redaction = MessageRedaction(lambda name: name in self.jobs.namespaces or name in self.pods.namespaces)
        """Hides the jobs of other namespaces in what is written into an object."""
        self._events = EventRecorder(connection, urgent, self.redaction, on_trouble)
        self._announcer = JobAnnouncer(self._events.record, self.now)
        self.faults.report = self._report_fault
        self._refusals = Refusals(connection, self.redaction, self._announcer, self.now, on_trouble, wait)
        self._usage = QueueUsageWriter(connection, self.cluster.queues, on_trouble)
        self.pending = PendingConditions(connection, on_trouble, urgent)
        # 3. our own gangs
        self._standby = StandbyPods(self.pods, self._executor, self.changed.mark, on_trouble)
        self.jobs = JobStore(self.changed.forget)
        self._reports = reports = JobReports(self.inbox.put, self._refusals.refuse, self.jobs.allocate_number)
        self.kueue = KueueJobs(connection, self.jobs.get, self._resolve_one, on_trouble, self.now)
        """Jobs in queues of Kueue."""
        self.job_specs = self._job_specs(reports)
        self.job_reader = self._job_reader(reports)
        self._gang_pods = GangPods(
            self.pods, self.launchers, self.monitor.is_dead, self.now, settings.image_pull_timeout
        )
        parts = BackendParts(self._gang_pods, self.monitor, self.inbox.put, settings.failure_settling)
        self._statuses = StatusWriter(connection, urgent, self.now, self._announcer.announce)
        self._runs = RunControl(
            self.jobs, self.changed, self._standby, self._executor, parts, self._statuses.write_if_changed
        )
        self.gangs = GangController(self._runs)
        self._commits = self._job_commits()
        access = BackendAccess(self.pods, self._events, self.inbox.put, self.changed.mark, self.now)
        self.agents = AgentRegistry(access, self.gangs.owner, TokenReviews(connection), settings.agents)
        """Agents in pods, which report to the leader."""
        self.agents.on_invalid_message = lambda _error: self.faults.counts.update(["AgentMessage"])
        # 4. external gangs
        self.external = self._external_gangs()
        # 5. schedules, whose runs are jobs of ours
        turns = TurnContext(connection, self.now, self.monitor.lookups.of, self.cancel, self._events.record)
        self.schedules = ScheduleRuns(turns, on_trouble)
        """CronTrainingJobs, carried out by `schedules.run` while this process leads."""

    def _job_specs(self, reports: JobReports) -> JobSpecs:
        return JobSpecs(
            self.jobs,
            reports,
            self._fit,
            self.inbox.put,
            lambda gang: self.gangs.see_changed_job(gang),  # noqa: PLW0108 - it is made later
        )

    def _job_reader(self, reports: JobReports) -> JobReader:
        nodes = self.cluster.picture.fabrics
        kinds = replace(self.settings.kinds, runtimes=self.monitor.lookups.runtime, nodes=nodes)
        reader = JobReader(self.jobs, self.job_specs, reports, kinds, self._adopt)
        reader.on_foreign_state = self._replace_state
        self.monitor.lookups.on_runtimes = reader.read_waiting
        return reader

    def _job_commits(self) -> JobCommits:
        # what follows from a commit has Events as well
        self._executor.binding.on_change = self._announce_pod
        self._executor.dependents.on_change = self._announcer.announce_service
        return JobCommits(
            self.connection,
            self.job_specs,
            self.job_reader,
            self.gangs,
            self._runs,
            self.redaction,
            self._announcer,
            self.recount,
            self.now,
            self.on_trouble,
        )

    def _external_gangs(self) -> ExternalGangs:
        callbacks = BackendCallbacks(
            inject=self.inbox.put,
            allocate_number=self.jobs.allocate_number,
            recount=self.recount,
            report_cluster=self.monitor.report,
            wake=self.inbox.wake,
            placements=self.monitor.placements,
            is_usable=lambda node: not self.monitor.is_closed(node),
            around=self.monitor.lookups.of,
            now=self.now,
            on_trouble=self.on_trouble,
            faults=self.faults,
            key=self.settings.agents.secret_key,
        )
        return ExternalGangs(self._executor.binder, self._executor.deletion, self.pending, callbacks)

    # --- the port ------------------------------------------------------------------------------------

    def now(self) -> int:
        """Returns milliseconds since the Unix epoch; they never go back, not even over a restart."""
        return self._time.now()

    def recover(self) -> Recovery:
        """Returns the states in the jobs' objects, and the gangs that should be alive."""
        states = [*self.job_reader.recover(), *self.external.recover()]
        self._time.pass_by(latest(states))
        self._leads = True
        self.monitor.resolve_again = self._resolve_again
        self.monitor.begin()
        self.gangs.recover()
        for pod in self.pods.all():
            self.recount(pod)
        delete = self._executor.deletion.delete
        takeover = JobTakeover(self._job_sets, self._gang_pods, self.monitor, delete, self.now)
        self.job_reader.left_by_others = takeover.status_of
        states += self.job_reader.begin(self._resume)
        self.kueue.begin()
        return Recovery(self.cluster.changed(), tuple(states), read_past_usage(self.cluster.queues))

    def finished(self, job_id: str) -> JobState | None:
        """Returns a job that has ended and whose object still exists."""
        gang = self.jobs.get(job_id)
        return gang.state if gang is not None and gang.status.phase in TERMINAL else None

    async def wait(self, until: int | None) -> Sequence[BackendEvent]:
        """Returns the events that follow from what the watches have seen."""
        while True:
            if self.faults.retry_due(self.now()):
                self.cluster.has_news = True
                self.monitor.check()
            if self._leads:
                self._process_changes()
            events, _ = self.inbox.take()
            now = self.now()
            if events or self._woken or (until is not None and now >= until):
                self._woken = False
                return events
            dues = [at for at in (until, self.monitor.due, self.changed.due, self.faults.due) if at is not None]
            await self.inbox.wait(max(0, min(dues) - now) / 1000 if dues else None)

    async def commit(self, changes: Changes) -> Mapping[str, str]:
        """Writes every state into its object. Returns the jobs whose write failed. Raises BackendError."""
        with self._executor.binding.at_once.with_priority():
            failures = await self._commits.write_all(changes.states, changes.forgotten)
        for state in changes.states:
            self.external.commit(state)
            self.kueue.see_committed(state.id)
        self._usage.note(changes.past_usage)
        self._commits.record([each for each in changes.transitions if each.job_id not in failures], self._events)
        self._commits.record_failures(failures, self._events)
        return failures

    def perform(self, commands: Sequence[Command]) -> None:
        """Binds or deletes pods in the background. A `Forget` needs nothing: its object was deleted by the commit."""
        for command in commands:
            external = self.external.get(command.job_id)
            gang, gangs = external or self.jobs.get(command.job_id), self.external.control if external else self.gangs
            about = gang.reference if gang is not None else ObjectReference(JOBS, "", command.job_id, "")
            with self.faults.contain(about, "perform", partial(self.perform, [command])):
                match command:
                    case Launch(job_id, generation, placement):
                        gangs.launch(job_id, generation, placement)
                    case Stop(job_id, generation, grace):
                        gangs.stop(job_id, generation, grace)
                    case RestartMember(job_id, generation, member):
                        if (own := self.jobs.get(job_id)) is not None:
                            self._announcer.announce_restart(own, member)
                        self.gangs.restart_member(job_id, generation, member)
                    case Rescale(job_id, generation):
                        for pod in self.gangs.rescale(job_id, generation):
                            self.recount(pod)

    # --- what watches and endpoints call -------------------------------------------------------------

    def see_pod(self, pod: Pod, there: bool) -> None:  # noqa: FBT001 - a callback
        """Records a pod as it is now, or as it was when it was deleted.

        Our own gangs and the resources of pods are followed only while this process leads.
        """
        with self.faults.contain(_reference(pod), "read", partial(self.see_pod, pod, there)):
            gang = self.gangs.owner(pod)
            if gang is None:
                self.external.see_pod(pod, there=there)
            if not self._leads:
                return
            if gang is not None:
                if gang.run is not None:
                    if gang.run.pods.has_just_ended(pod):
                        self._announcer.announce_exit(gang, pod)
                    self._gang_pods.see(gang, gang.run, pod, there=there)
                self.changed.mark(gang)
            if there:
                self.cluster.see_pod(pod, self.external.held_of(pod) if gang is None else gang.held_of(pod))
            else:
                self.cluster.lose_pod(pod)
                self._executor.deletion.forget(pod)
            self.monitor.check()

    def _see_released(self, pod: Pod, owner: OwnerKey) -> None:
        """Records that a pod belongs no more to the gang whose object has this key."""
        gang = self.jobs.get_owner(self.launchers.owner(owner) or owner)
        if gang is not None and gang.run is not None:
            self._gang_pods.see(gang, gang.run, pod, there=False)
            self.changed.mark(gang)

    def recount(self, pod: Pod) -> None:
        """Counts a pod's resources again after the controller has begun, or ceased, to account for them."""
        with self.faults.contain(_reference(pod), "count", partial(self.recount, pod)):
            gang = self.gangs.owner(pod)
            self.cluster.see_pod(pod, self.external.held_of(pod) if gang is None else gang.held_of(pod))
            self.monitor.check()

    def see_jobs(self, changes: Sequence[Change[dict[str, Any]]]) -> None:
        """Records changes of batch Jobs, which may be launchers or groups of external pods."""
        for change in changes:
            job, there = change.object, change.kind != "deleted"
            self.external.see_object(JOBS, job, there=there)
            gang = self.jobs.get_owner(self.launchers.see(job, there=there))
            if gang is not None and self._leads:
                self.gangs.see_launcher(gang, job, there=there)

    def see_group(self, resource: Resource, manifest: dict[str, Any], *, there: bool) -> None:
        """Records a PodGroup or a JobSet as it is now, or as it was when it was deleted."""
        self.external.see_object(resource, manifest, there=there)
        about = manifest["metadata"]
        waiting = self.jobs.get(job_id(TRAIN_JOB, about["namespace"], about["name"]))
        if waiting is not None and waiting.fit.waiting_reason:
            self.monitor.resolve_soon()

    def report_job_fault(self, job_id: str, error: Exception) -> None:
        """Reports a job that made a turn of the controller raise and was set aside for a while."""
        gang = self.external.get(job_id) or self.jobs.get(job_id)
        if gang is not None:
            self.faults.note(
                gang.reference, f"is left out of the plan for a while: {type(error).__name__}: {error}"[:300]
            )

    def cancel(self, job_id: str, by: str) -> None:
        """Reports to the controller that a job is to end, whose object stays."""
        gang = self.jobs.get(job_id)
        if gang is not None:
            self._reports.report_end(gang, by)

    def show_wait_verdict(self, gang: Gang, cause: DiagnosedCause | None) -> None:
        """Shows the verdict on what a job waits for, or none any more."""
        gang.notes.wait_verdict, gang.notes.needs_write = cause, True
        if gang.fit.waiting_reason:
            self._reports.report_wait(gang)
        else:
            self.changed.mark(gang)

    def wake(self) -> None:
        """Makes `wait` return."""
        self._woken = True
        self.inbox.wake()

    async def close(self) -> None:
        """Stops all work in the background; the cluster stays as it is."""
        for part in (
            self.external,
            self.pending,
            self._standby,
            self._executor,
            self._refusals,
            self._events,
            self.kueue,
        ):
            await part.close()
        await self._usage.close()
        await self._statuses.close()

    # --- connections between the parts ---------------------------------------------------------------

    def _announce_pod(self, pod: Pod, verb: str) -> None:
        """Records an Event about a pod of ours that was created or deleted."""
        gang = self.gangs.owner(pod)
        if gang is not None:
            self._announcer.announce_pod(gang, pod, verb)

    @property
    def _job_sets(self) -> TrainJobSets:
        return TrainJobSets(self.external.job_set)

    def _fit(self, parsed: ParsedJob) -> ResolvedJob:
        """Resolves a job in the cluster; a job for which that raises waits."""
        try:
            around, pods = (
                self.monitor.lookups.of(parsed.namespace),
                self.pods.owned(OwnerKey(parsed.namespace, parsed.uid)),
            )
            found = fit_job(parsed, around, pods, runs_mpijobs_v1=self.settings.runs_mpijobs_v1)
            if trouble := self._job_sets.trouble(parsed):
                return replace(found, trouble=trouble, job=replace(found.job, hold=trouble))
            return self.kueue.fit(parsed, found)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this job's
            self.faults.counts[str(parsed.manifest.get("kind"))] += 1
            text = f"it cannot be resolved in this cluster: {type(error).__name__}: {error}"
            return unresolved_job(parsed, text)

    def _report_fault(self, about: ObjectReference, sentence: str) -> None:
        self.on_trouble(f"{about.resource.kind} {about.namespace}/{about.name} {sentence}")
        if self._leads:
            self._events.record(EventRecord(about, OBJECT_FAULT, "Read", sentence, self.now()))

    def _replace_state(self, gang: Gang) -> None:
        """Writes the state of a gang again, which another writer has changed in its object."""
        if gang.stored is not None:  # else the first commit writes it
            self.faults.note(gang.reference, STATE_REPLACED)
            gang.notes.needs_write = True
            self.changed.mark(gang)

    def _process_changes(self) -> None:
        settled = self.monitor.take(self.now())
        self.gangs.see_dead_nodes(self.cluster.take_dead_nodes())
        if settled is not Settled.NOTHING:
            for fault in self.cluster.faults():
                self._refusals.refuse(Refusal(*fault))
            self.external.gather_again()
        if settled is Settled.LOOKUPS:
            self._resolve_again(self.monitor.lookups.take_changed())
        self.external.process_changed()
        self._runs.process_due(self.now())

    def _resolve_again(self, changed: ChangedNames) -> None:
        """Resolves jobs again after a change in the cluster of what their names refer to."""
        self.job_specs.resolve_again(changed)
        self.external.resolve_again(changed)

    def _resolve_one(self, job_id: str) -> None:
        """Resolves one job again, while this process leads."""
        if self._leads:
            self.job_specs.resolve_one(job_id)

    def _resume(self, gang: Gang) -> None:
        """Takes over the run of a gang, and accounts for its pods."""
        self.gangs.adopt(gang)
        key = gang.reference.owner_key
        for pod in (*self.pods.owned(key), *self.launchers.pods(key)):
            self.recount(pod)

    def _adopt(self, gang: Gang) -> None:
        """Recovers a gang whose object became readable, or ours, during this term."""
        self._resume(gang)
        if is_kept(gang.state):
            self.inbox.put(JobRecovered(gang.state))


def _reference(pod: Pod) -> ObjectReference:
    about = pod.metadata
    return ObjectReference(PODS, about.namespace, about.name, about.uid)
