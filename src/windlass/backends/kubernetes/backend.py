"""The world of a Kubernetes cluster: `worlds.port.World` with pods.

One turn's way: watches change what is known, and mark whom it concerns; `wait` asks these what their pods tell that was
not told yet; what the controller makes of it is written into the jobs' objects (`commit`); then pods are bound or
deleted (`perform`). Nothing is kept here that is not in objects: a controller that takes over compares the states in
them with the pods there are.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from windlass.backends.inbox import Inbox
from windlass.backends.kubernetes.agents.agent_registry import AgentRegistry
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.object_cache import Change, ObjectCache
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.client.owners import controller_of
from windlass.backends.kubernetes.client.resources import JOBS, Resource
from windlass.backends.kubernetes.cluster.cluster_state import ClusterState
from windlass.backends.kubernetes.cluster.job_resolution import Fitted, fitted
from windlass.backends.kubernetes.cluster.lookups import ClusterLookups
from windlass.backends.kubernetes.cluster.nodes import is_ready
from windlass.backends.kubernetes.external.external_gangs import ExternalGangs, Outlet
from windlass.backends.kubernetes.forward_clock import ForwardClock, latest
from windlass.backends.kubernetes.jobs import pod_restarts
from windlass.backends.kubernetes.jobs.gang import Gang
from windlass.backends.kubernetes.jobs.job_store import JobStore
from windlass.backends.kubernetes.jobs.launcher_jobs import LauncherJobs
from windlass.backends.kubernetes.jobs.object_reference import meant
from windlass.backends.kubernetes.pods import gang_pods, pod_ends
from windlass.backends.kubernetes.pods.pod_ends import is_running
from windlass.backends.kubernetes.pods.pod_executor import PodExecutor
from windlass.backends.kubernetes.pods.pod_store import PodStore
from windlass.backends.kubernetes.pods.run import Run, slots
from windlass.backends.kubernetes.settings import BackendSettings
from windlass.backends.kubernetes.status import state_writes, status_writer
from windlass.backends.kubernetes.status.deferred_status_writes import DeferredStatusWrites
from windlass.backends.kubernetes.status.events import RECOVERED, EventRecorder, News
from windlass.backends.kubernetes.status.pending_conditions import PendingConditions
from windlass.backends.kubernetes.status.queue_usage import QueueUsageWriter, remembered
from windlass.backends.kubernetes.status.refusals import Refusals
from windlass.backends.kubernetes.status.status_writer import StatusWriter
from windlass.backends.port import Changes, JobEvent, Recovery, WorldEvent
from windlass.core.lifecycle.commands import Command, Forget, Launch, Stop
from windlass.core.lifecycle.events import GangGone
from windlass.core.model.elastic_size import sized
from windlass.core.model.job import RestartPolicy
from windlass.core.model.status import TERMINAL, JobState, Phase, Placement, Status
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.pods.pod_assembly import SCHEDULER
from windlass.jobs.kubernetes.status.clean_up import left_over
from windlass.jobs.kubernetes.status.serving_members import serving

_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
"""Whoever sets this taint says that nothing runs there any more (KEP-2268)."""

_DEFAULTS = BackendSettings()


class KubernetesBackend:
    """Knows nothing until the watches (`watching`) have listed everything; then `recover`.

    `on_trouble` hears what people should know and no job's fate tells.
    """

    def __init__(
        self,
        connection: Connection,
        clock: Callable[[], int],
        settings: BackendSettings = _DEFAULTS,
        on_trouble: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self.connection = connection
        self.settings = settings
        self.cluster = ClusterState()
        self.pods = PodStore(self._hear_pod)
        self.jobs: defaultdict[Resource, ObjectCache[dict[str, Any]]] = defaultdict(ObjectCache)
        """The objects of jobs by their kind, batch Jobs among them; what they mean is the roster's and others'."""
        self.launchers = LauncherJobs(self.pods)
        self._refusals = Refusals(connection, self.now, on_trouble)
        self.roster = JobStore(settings.kinds, self._finish, self.inject, self._refusals.tell, self._changed)
        self._crew = PodExecutor(
            connection, self.pods, settings.at_once, self._is_dead, self.concern, self._hear_made, on_trouble
        )
        self._announcer = EventRecorder(connection, self._crew.seating.at_once, on_trouble)
        self.agents = AgentRegistry(self.pods, self._gang_of, self._announcer, self.inject, self.concern, self.now)
        """Of pods: whoever leads lets them call."""
        self._memory = QueueUsageWriter(connection, self.cluster.queues, on_trouble)
        self._time = ForwardClock(clock)
        self.on_trouble = on_trouble
        self._statuses = StatusWriter(connection, self._crew.seating.at_once, self._said)
        self._inbox = Inbox()
        self._owed = DeferredStatusWrites(self._write, self.perform, self._inbox.wake, on_trouble)
        self.words = PendingConditions(connection, on_trouble)
        self.surroundings = ClusterLookups(self._look_around)
        self.guests = ExternalGangs(
            self._crew.seating,
            self.words,
            Outlet(
                tell=self.inject,
                number=self.roster.next_number,
                recount=self._recount,
                tell_nodes=self._tell_nodes,
                wake=self._inbox.wake,
                usable=lambda node: not self._is_closed(node),
                around=self.surroundings.of,
                now=self.now,
                trouble=on_trouble,
            ),
        )
        """Gangs of others."""
        self._woken = False
        self._concerned: dict[str, Gang] = {}
        """Gangs whose pods, or whose orders, have changed since they were last looked at."""
        self._alarms: dict[str, int] = {}
        """Gangs to look at again when it is so late."""
        self._new_since: int | None = None
        """Since when there is something new about the cluster that is yet to be looked at."""
        self._names_are_new = False
        """So is what names in jobs stand for."""
        self._controlled = False

    # --- the port ------------------------------------------------------------------------------------

    def now(self) -> int:
        """Milliseconds since the Unix epoch; never goes back, not even over a restart."""
        return self._time.now()

    def recover(self) -> Recovery:
        """What the jobs' objects say, and the gangs that should be alive."""
        states = [*self.roster.recover(), *self.guests.recover()]
        self._time.pass_by(latest(states))
        for gang in self.roster:
            if gang.stored is not None and not gang.status.gone:
                gang.run = self._remembered(gang)
        self._controlled = True
        for gang in self.roster:
            self.concern(gang)
            self._ask(gang)
        for pod in self.pods.all():
            self._count(pod)
        return Recovery(self.cluster.changed(), tuple(states), remembered(self.cluster.queues))

    def finished(self, job_id: str) -> JobState | None:
        """A job that has ended, and whose object is still there."""
        gang = self.roster.get(job_id)
        state = self._owed.get(job_id) or (gang.state if gang is not None else None)
        return state if state is not None and state.status.phase in TERMINAL else None

    async def wait(self, until: int | None) -> Sequence[WorldEvent]:
        """What watches have brought that means something."""
        while True:
            self._owed.check()
            self._look()
            events, _ = self._inbox.take()
            now = self.now()
            if events or self._woken or (until is not None and now >= until):
                self._woken = False
                return events
            settled = None if self._new_since is None else self._new_since + self.settings.settle
            dues = [at for at in (until, settled, *self._alarms.values()) if at is not None]
            await self._inbox.wait(max(0, min(dues) - now) / 1000 if dues else None)

    async def commit(self, changes: Changes) -> None:
        """Write every state into its object; one that is refused is owed, and its job waits. Raises WorldError."""
        writes = [self._owed.write(state) for state in changes.states]
        writes += [self._remove(job_id) for job_id in changes.forgotten]
        with self._crew.seating.at_once.beside():
            troubles = await asyncio.gather(*writes, return_exceptions=True)
        for trouble in troubles:
            if trouble is not None:
                raise trouble
        self._memory.note(changes.past)
        for told in {each.job_id: each for each in changes.transitions}.values():
            if (gang := self.roster.get(told.job_id)) is not None:
                what = told.event if told.event == RECOVERED else told.after
                self._announcer.tell(News(gang.home, what, told.event, told.message or what, told.at))

    def perform(self, commands: Sequence[Command]) -> None:
        """Bind or delete pods, in the background."""
        for command in self._owed.possible(commands):
            match command:
                case Launch(job_id, generation, placement):
                    self._launch(job_id, generation, placement)
                case Stop(job_id, generation, grace):
                    self._stop(job_id, generation, grace)
                case Forget():
                    pass  # its object went with the commit

    # --- what watches and faces call -----------------------------------------------------------------

    def inject(self, event: WorldEvent) -> None:
        """Have the controller hear this."""
        self._inbox.put(event)

    def wake(self) -> None:
        """Have `wait` return."""
        self._woken = True
        self._inbox.wake()

    def concern(self, gang: Gang) -> None:
        """Have a gang looked at."""
        self._concerned[gang.id] = gang
        self._inbox.wake()

    def look_at_nodes(self) -> None:
        """Something about the cluster has changed: the controller hears of it soon."""
        if self.cluster.has_news:
            self._settle()

    async def close(self) -> None:
        """Leave the cluster as it is."""
        await self._owed.close()
        await self.guests.close()
        await self.words.close()
        await self._crew.close()
        await self._refusals.close()
        await self._announcer.close()
        await self._memory.close()
        await self._statuses.close()

    # --- looking -------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Tell what has happened to those whom it concerns."""
        if not self._controlled:
            return
        now = self.now()
        if self._new_since is not None and now >= self._new_since + self.settings.settle:
            self._look_at_cluster()
        self.guests.look()
        for job_id in [job_id for job_id, at in self._alarms.items() if at <= now]:
            del self._alarms[job_id]
            if (gang := self.roster.get(job_id)) is not None:
                self._concerned[job_id] = gang
        concerned, self._concerned = self._concerned, {}
        for gang in concerned.values():
            self._look_at(gang, now)

    def _look_at_cluster(self) -> None:
        """Nodes, queues and what names stand for: what changed together is looked at once."""
        self._new_since, names_are_new, self._names_are_new = None, self._names_are_new, False
        self._tell_nodes()
        for refusal in self.cluster.faults():
            self._refusals.tell(refusal)
        self.guests.look_around()
        if names_are_new:
            self.roster.look_around()

    def _look_at(self, gang: Gang, now: int) -> None:
        run = gang.run
        if run is None:
            self._prepare(gang)
            self._statuses.look(gang)
            return
        pods = gang_pods.pods_of(gang, run, self.pods, self.launchers)
        looks = gang_pods.seen(pods, self._is_dead, now, self.settings.image_patience)
        if run.ordered and not run.stopping:
            self._crew.bind(gang, run, gang_pods.to_be_bound(gang, run, pods))
        if run.launched and not (run.busy or run.stopping):
            self._crew.dismiss(gang_pods.left_behind(gang, run, self.pods), run.grace)
        if run.launched and not run.stopping:
            self._crew.accompany(gang, run, (pod.metadata.name for pod in pods.values() if is_running(pod)))
        if run.judged and run.launched and not (run.busy or run.stopping or run.failed):
            to_do = pod_restarts.look(gang, run, pods, self.launchers.of(gang.home.uid), self._is_closed, now)
            self._crew.dismiss(to_do.dismiss, run.grace)
            self._crew.make_anew(gang, run, to_do.make)
        makers: tuple[dict[str, Any], ...] = ()
        if run.stopping and not run.busy and not self._stays(gang, run):
            makers = () if run.succeeded else self.launchers.unended(gang.home.uid)
            self._crew.dismiss(gang_pods.to_be_deleted(pods, looks), run.grace)
            self._crew.end_jobs(makers)
        self._statuses.look(gang)
        for event in run.hear(looks, more_may_come=bool(makers)):
            self.inject(JobEvent(gang.id, event))
        dues = [at for pod in pods.values() if (at := pod_ends.due(pod, self.settings.image_patience)) and at > now]
        if dues:
            self._alarms[gang.id] = min(dues)

    def _prepare(self, gang: Gang) -> None:
        """Pods of a gang that waits for nodes stand ready, so that everybody sees what is missing."""
        status = gang.status
        waits = gang.stored is not None and status.phase is Phase.QUEUED and not status.waits_for
        if not waits or gang.elastic or gang.preparing == gang.put_away:
            return
        generation = status.generation + 1
        members = gang.members(generation, gang.sizes)
        there = [self.pods.get(gang.home.namespace, name) for name in members]
        if gang.prepared != generation or None in there:
            gang.prepared = generation
            self._crew.prepare(gang, generation)

    def _stays(self, gang: Gang, run: Run) -> bool:
        """Whether what lives yet of a job that has ended by its own pods' word is left to end by itself."""
        return run.outcome is not None and gang.parsed.policy.clean == "None" and not gang.deleted

    def _is_closed(self, node: str) -> bool:
        """Whether nothing new may start there."""
        found = self.cluster.picture.objects.get(node)
        return found is None or found.spec.unschedulable or not is_ready(found)

    def _is_dead(self, node: str) -> bool:
        """Whether nothing can run there any more."""
        found = self.cluster.picture.objects.get(node)
        return found is None or any(taint.key == _OUT_OF_SERVICE for taint in found.spec.taints)

    def _hear_pod(self, pod: Pod, there: bool) -> None:  # noqa: FBT001 - a callback
        self.guests.see_pod(pod, there=there)
        if not self._controlled:
            return
        if there:
            self._count(pod)
        else:
            self.cluster.lose_pod(pod)
            self._crew.forget(pod)
        if (gang := self._gang_of(pod)) is not None:
            self.concern(gang)
        self.look_at_nodes()

    def hear_of_jobs(self, changes: Sequence[Change[dict[str, Any]]]) -> None:
        """Batch Jobs have come, changed or gone: they may be launchers."""
        for change in changes:
            job, there = change.object, change.kind != "deleted"
            self.guests.see_object(JOBS, job, there=there)
            gang = self.roster.owner(self.launchers.see(job, there=there))
            if gang is not None and self._controlled:
                self.concern(gang)

    def _hear_made(self, job: dict[str, Any]) -> None:
        self.hear_of_jobs(self.jobs[JOBS].put(job))

    def _gang_of(self, pod: Pod) -> Gang | None:
        owner = controller_of(pod)
        return self.roster.owner(self.launchers.owner(owner) or owner)

    def _count(self, pod: Pod) -> None:
        """What pods take that the controller does not know of."""
        gang = self._gang_of(pod)
        ours = gang is not None and gang.run is not None and not gang.run.gone
        self.cluster.see_pod(pod, ours=ours or self.guests.holds(pod))

    def _tell_nodes(self) -> None:
        """The controller is to hear of nodes before anything else that is yet to be told."""
        if self.cluster.has_news:
            self.inject(self.cluster.changed())

    def _recount(self, pod: Pod) -> None:
        self._count(pod)
        self.look_at_nodes()

    def _look_around(self) -> None:
        """What names in jobs stand for is another now: the controller hears of it soon."""
        self._names_are_new = True
        self._settle()

    def _settle(self) -> None:
        """Look at the cluster soon: what changes together is looked at once."""
        if self._controlled and self._new_since is None:
            self._new_since = self.now()
            self._inbox.wake()

    # --- commit and perform --------------------------------------------------------------------------

    async def _write(self, state: JobState) -> None:
        gang = self.roster.get(state.id)
        if gang is None:
            self.guests.commit(state)
            return
        if state.status.phase in (Phase.QUEUED, Phase.SUSPENDED):
            gang.said = {}  # it was of pods that are none of the next run's
        await state_writes.write(self.connection, gang, state, self._said(gang, state.status))
        self._ask(gang)
        self.roster.catch_up(gang)
        if gang.run is not None and gang.run.gone and state.status.gone and state.status.phase not in TERMINAL:
            gang.run = None
        if state.status.phase in (*TERMINAL, Phase.SUSPENDED):
            self._put_away(gang)
        if state.status.phase in TERMINAL:
            self._clean_up(gang)
            if gang.gone:
                self.roster.close(gang)
        self.concern(gang)

    def _ask(self, gang: Gang) -> None:
        """Nodes show what the gang asks for by itself, as long as it has not ended."""
        wants = gang.stored is not None and gang.status.phase not in TERMINAL
        if wants and not gang.asked:
            self.cluster.need(gang.singles)
        elif gang.asked and not wants:
            self.cluster.need_no_more(gang.singles)
        gang.asked = wants
        self.look_at_nodes()

    def _clean_up(self, gang: Gang) -> None:
        """What is left of a gang that has ended goes, as its policy says."""
        if gang.run is None:
            return
        pods = gang_pods.pods_of(gang, gang.run, self.pods, self.launchers)
        gang.run = None
        phases = {pod.metadata.name: pod.status.phase for pod in pods.values()}
        gone = set(left_over(gang.parsed, phases))
        self._crew.dismiss((pod for pod in pods.values() if pod.metadata.name in gone), 0)
        self._crew.remove_services(gang, gone)
        for pod in pods.values():
            self._recount(pod)

    def _said(self, gang: Gang, life_now: Status | None = None) -> Mapping[str, Any]:
        """What the gang's status is to say."""
        pods = gang_pods.pods_of(gang, gang.run, self.pods, self.launchers) if gang.run is not None else {}
        return status_writer.status_of(gang, life_now or gang.status, pods, self.now())

    async def _remove(self, job_id: str) -> None:
        """Its time to live is over: the object goes, and with it all that it owns."""
        gang = self.roster.get(job_id)
        if gang is None or gang.status.phase not in TERMINAL:  # another one by now
            return
        if await state_writes.remove(self.connection, gang, self.on_trouble):
            self.roster.close(gang)

    def _launch(self, job_id: str, generation: int, placement: Placement) -> None:
        if self.guests.get(job_id) is not None:
            self.guests.launch(job_id, generation, placement)
            return
        gang = self.roster.get(job_id)
        if gang is None or (gang.run is not None and gang.run.generation >= generation and gang.run.ordered):
            return
        if gang.run is None or gang.run.generation != generation:
            gang.run = _run(gang, generation, placement)
        gang.run.ordered = True
        self._crew.launch(gang, gang.run)
        self.concern(gang)

    def _stop(self, job_id: str, generation: int, grace: int) -> None:
        if self.guests.get(job_id) is not None:
            self.guests.stop(job_id, generation)
            return
        gang = self.roster.get(job_id)
        run = gang.run if gang is not None else None
        if gang is None or run is None or run.generation != generation:
            self.inject(JobEvent(job_id, GangGone(generation)))
            return
        run.stopping, run.grace = True, max(1, -(-grace // 1000))
        self.concern(gang)

    def _remembered(self, gang: Gang) -> Run:
        """The run of a gang as an earlier controller left it."""
        status = gang.status
        assert status.placement is not None  # noqa: S101 - who is not gone has a place
        run = _run(gang, status.generation, status.placement)
        run.started = run.launched = status.phase is not Phase.ADMITTED
        run.told = {slot.number for slot in run.slots if status.done >> slot.number & 1}
        if status.target is not None:  # whoever had ended by then has been heard of
            looks = gang_pods.seen(
                gang_pods.pods_of(gang, run, self.pods, self.launchers), self._is_dead, self.now(), 0
            )
            run.told |= {slot.number for slot in run.slots if gang_pods.is_over(looks, slot.number)}
        return run

    # --- arrivals ------------------------------------------------------------------------------------

    def _finish(self, parsed: ParsedJob) -> Fitted:
        """The job as the controller is told it. Of a judged one the core is told only what it has come to."""
        found = fitted(parsed, self.surroundings.of(parsed.namespace))
        if other := another_scheduler(parsed):
            found = replace(found, trouble=f"its pods name the scheduler {other}: leave schedulerName out, or windlass")
        restart = found.job.restart if parsed.policy.gang_restart else RestartPolicy()
        after = tuple(replace(each, job_id=meant(each.job_id, parsed.namespace)) for each in found.job.after)
        return replace(found, job=replace(found.job, restart=restart, after=after))

    def _put_away(self, gang: Gang) -> None:
        """Pods that stand ready are of no use any more."""
        gang.prepared = 0
        gang.put_away += 1
        self._crew.dismiss((pod for pod in self.pods.owned(gang.home.uid) if not pod.spec.node_name), 0)

    def _changed(self, gang: Gang) -> None:
        """It asks for something else now, or its object is gone: pods that stand ready are not those that it wants."""
        if gang.run is None or gang.gone:  # those of a run are being put on their nodes
            self._put_away(gang)
        if gang.gone:  # nothing lives of it; what is left makes room for a namesake
            self._crew.dismiss(self.pods.owned(gang.home.uid), 0)
        else:
            self.concern(gang)


def another_scheduler(parsed: ParsedJob) -> str:
    """The scheduler that its pods name, if it is not ours."""
    named = ((each.template.get("spec") or {}).get("schedulerName") or SCHEDULER for each in parsed.replicas)
    return next((name for name in named if name != SCHEDULER), "")


def _run(gang: Gang, generation: int, placement: Placement) -> Run:
    seats = slots(sized(gang.job, placement), placement)
    return Run(generation, seats, judged=gang.judged, servers=serving(gang.parsed))
