"""Resolves the specs of jobs in the cluster, and applies changed ones to the jobs in the controller.

A spec is resolved when its object is read (`job_reader`), when the object changes, and when something changes in the
cluster that its names refer to. A gang that holds nodes takes a changed spec once it has released them, unless the
change takes nothing from others. A successor of the leader finds the spec of such a gang in its status
(`readable_spec`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from windlass.backends.kubernetes.cluster.job_resolution import ResolvedJob, has_class_priority
from windlass.backends.kubernetes.cluster.lookups import ChangedNames
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.gangs.stored_state import MAX_PRIORITY_VALUE, PRIORITY
from windlass.backends.kubernetes.jobs.job_reports import JobReports
from windlass.backends.kubernetes.jobs.job_store import JobStore
from windlass.backends.port import BackendEvent, JobChanged, JobRecovered
from windlass.core.lifecycle.spec_update import can_change, job_as_placed
from windlass.core.model.job import Job
from windlass.core.model.status import TERMINAL
from windlass.jobs.kubernetes.bounded_integers import parse_integer
from windlass.jobs.kubernetes.parsed_job import ParsedJob


class JobSpecs:
    """Resolver of the specs of jobs, which applies changed specs to their gangs.

    `resolve_names` resolves a parsed job in the cluster; `changed` is called with each gang that has changed.
    """

    def __init__(
        self,
        store: JobStore,
        reports: JobReports,
        resolve_names: Callable[[ParsedJob], ResolvedJob],
        inject: Callable[[BackendEvent], None],
        changed: Callable[[Gang], None],
    ) -> None:
        self._store, self._reports, self._resolve_names = store, reports, resolve_names
        self._inject, self.changed = inject, changed
        self.arrive: Callable[[Gang], None] = reports.report_arrival
        """Called with a job that the controller does not know yet, once its names are resolved again."""

    def resolve(self, gang: Gang) -> None:
        """Resolves the job of a manifest for the controller."""
        stored = (gang.parsed.manifest.get("status") or {}).get(PRIORITY)
        started = parse_integer(stored, -MAX_PRIORITY_VALUE, MAX_PRIORITY_VALUE)
        found = self._resolve_started(gang, gang.parsed, started)
        gang.job = job_as_placed(found.job, gang.stored.status.placement if gang.stored else None)
        parsed = gang.requested_spec[0] if gang.requested_spec else gang.parsed
        requested = found if parsed is gang.parsed else self._resolve_started(gang, parsed, started)
        gang.requested_spec = None if gang.job == requested.job else (parsed, requested.job)
        # the controller knows every job that has a state
        gang.fit.waiting_reason, gang.fit.is_early = "" if gang.stored else found.trouble, found.is_early
        gang.fit.to_choose = found.to_choose
        self._note_denial(gang, found)

    def apply(self, gang: Gang, parsed: ParsedJob) -> None:
        """Applies a changed spec: suspends or resumes the job, or changes it for its next start."""
        found = self._resolve_started(gang, parsed, gang.job.priority)
        before = gang.requested_spec[1] if gang.requested_spec else gang.job
        was_held = bool(gang.fit.waiting_reason)
        gang.fit.waiting_reason, gang.fit.is_early = found.trouble if was_held else "", found.is_early
        if before.suspend != found.job.suspend:
            self._reports.report_suspension(gang, found.job)
        self._request(gang, parsed, found.job)
        self._note_denial(gang, found)
        if was_held:  # the controller does not know it yet
            self._reports.report_arrival(gang)

    def apply_requested(self, gang: Gang) -> None:
        """Changes the job in the controller to the requested one, if the gang can change already."""
        if gang.requested_spec is None:
            return
        if gang.decided_state.status.phase in TERMINAL:
            if gang.decided is None:  # else once the end is committed: until then the controller may forget the job
                self._change_time_to_live(gang, gang.requested_spec[1].ttl)
            return
        if not can_change(gang.decided_state, gang.requested_spec[1]):
            return
        gang.respecify(*gang.requested_spec)
        self._inject(JobChanged(gang.id, gang.job))
        self.changed(gang)

    def _change_time_to_live(self, gang: Gang, ttl: int | None) -> None:
        """Changes the time to live of a job that has ended. The controller knows it no more if it had none."""
        if ttl == gang.job.ttl:
            return
        was_kept, gang.job = gang.job.ttl is not None, replace(gang.job, ttl=ttl)
        self._inject(JobChanged(gang.id, gang.job) if was_kept else JobRecovered(gang.state))

    def resolve_again(self, changed: ChangedNames) -> None:
        """Resolves names again after the cluster has changed: jobs that were held may arrive."""
        for gang in [gang for gang in self._store if gang.fit.waiting_reason]:
            self.resolve(gang)
            self.arrive(gang)
        for gang in [gang for gang in self._store if gang.fit.to_choose and not gang.fit.waiting_reason]:
            if gang.status.phase not in TERMINAL:
                self._resolve_volumes(gang)
        for gang in [gang for gang in self._store if gang.job.hold or changed.concern(gang.reference.namespace)]:
            if not gang.fit.waiting_reason and gang.status.phase not in TERMINAL:
                self._resolve_references(gang)

    def resolve_one(self, job_id: str) -> None:
        """Resolves one job again, of which something in the cluster has changed."""
        gang = self._store.get(job_id)
        if gang is not None and not gang.fit.waiting_reason and gang.status.phase not in TERMINAL:
            self._resolve_references(gang)

    def _resolve_references(self, gang: Gang) -> None:
        """Resolves the names in a job again: its queue, a level of the topology.

        A job that may no longer use its queue leaves it, whatever else keeps it from being scheduled. One that
        cannot be scheduled for another reason stays as it is, and does not start until that has passed.
        """
        self._follow_rights(gang)
        parsed, requested = gang.requested_spec or (gang.parsed, gang.job)
        found = self._resolve_started(gang, parsed, gang.job.priority)
        resolved = found.denial or not found.trouble
        job = found.job if resolved else replace(requested, hold=found.job.hold)
        if job.suspend != requested.suspend:
            self._reports.report_suspension(gang, job, "Kueue")
        if job != requested:
            self._request(gang, parsed, job)
        self._note_denial(gang, found)

    def _follow_rights(self, gang: Gang) -> None:
        """Changes the queue of a gang that holds nodes at once, if it may no longer use it, or may again."""
        if gang.decided_state.status.placement is None:
            return
        found = self._resolve_started(gang, gang.parsed, gang.job.priority)
        if (found.denial or not found.trouble) and found.job.queue != gang.job.queue:
            gang.job = replace(gang.job, queue=found.job.queue, priority=found.job.priority)
            self._inject(JobChanged(gang.id, gang.job, by_cluster=True))

    def _resolve_started(self, gang: Gang, parsed: ParsedJob, priority: int | None) -> ResolvedJob:
        """Resolves a spec. A gang that holds nodes keeps the priority that its class had when it started.

        As in Kubernetes, which copies the value of the class into a pod at its admission. `priority`: None: not known.
        """
        found = self._resolve_names(parsed)
        same = parsed.priority_class == gang.parsed.priority_class and has_class_priority(parsed)
        holds = gang.stored is not None and gang.decided_state.status.placement is not None
        if priority is None or not (same and holds):
            return found
        return replace(found, job=replace(found.job, priority=priority))

    def _note_denial(self, gang: Gang, found: ResolvedJob) -> None:
        """Notes, for the status, what a job that the controller knows has instead of what it asks for."""
        instead = f"until then its queue is {gang.job.queue} and its priority {gang.job.priority}"
        denial = f"{found.denial}; {instead}" if found.denial else ""
        if denial != gang.fit.denial:
            gang.fit.denial = denial
            gang.notes.needs_write = True

    def _resolve_volumes(self, gang: Gang) -> None:
        """Resolves again a job whose volumes were provisioned: its next start is to be near them."""
        parsed, requested = gang.requested_spec or (gang.parsed, gang.job)
        found = self._resolve_started(gang, parsed, gang.job.priority)
        if found.trouble or found.to_choose == gang.fit.to_choose:
            return
        gang.fit.to_choose = found.to_choose
        if found.job != requested:
            self._request(gang, parsed, found.job)

    def _request(self, gang: Gang, parsed: ParsedJob, job: Job) -> None:
        gang.requested_spec = None if job == gang.job and parsed is gang.parsed else (parsed, job)
        self.apply_requested(gang)
        gang.notes.needs_write = True
