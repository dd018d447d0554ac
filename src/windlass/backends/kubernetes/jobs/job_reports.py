"""Reports jobs of our kinds: to the controller their arrival and their owners' requests, to their owners their faults.

The requests are to suspend, resume or cancel a job. `job_reader` decides when they are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from windlass.backends.kubernetes.client.object_reference import ObjectReference
from windlass.backends.kubernetes.gangs import stored_state
from windlass.backends.kubernetes.gangs.gang import WAITING, Gang
from windlass.backends.kubernetes.status.refusals import INVALID, Refusal
from windlass.backends.port import BackendEvent, JobArrived, JobEvent
from windlass.core.lifecycle.events import Cancel, Event, Resume, Suspend
from windlass.core.model.job import Job
from windlass.core.model.status import TERMINAL, Phase, Target
from windlass.jobs.kubernetes.labels import CANCEL
from windlass.jobs.kubernetes.status.announcements import refusal_reason
from windlass.jobs.kubernetes.status.conditions import CREATED
from windlass.jobs.kubernetes.status.diagnosis_condition import diagnosis_condition
from windlass.jobs.kubernetes.status.foreign_status import has_ended
from windlass.jobs.kubernetes.train_runtimes import NOT_FOUND, TRAIN_JOB

Manifest = Mapping[str, Any]


class JobReports:
    """Reporter of arrivals, owners' requests and faults of jobs.

    `inject` passes events to the controller, `refuse` reports objects that cannot be jobs, or not yet.
    `allocate_number` returns the number of a job that arrives.
    """

    def __init__(
        self,
        inject: Callable[[BackendEvent], None],
        refuse: Callable[[Refusal], None],
        allocate_number: Callable[[], int],
    ) -> None:
        self._inject, self._refuse, self._allocate_number = inject, refuse, allocate_number
        self._faulty: dict[str, tuple[int, bool]] = {}
        """By uid: the generation of the object for which its fault was reported, and whether the job waits."""

    def report_arrival(self, gang: Gang) -> None:
        """Reports a job that is new to the controller; one that must wait for the cluster is reported to its owner."""
        gang.stored = None
        is_to_end = has_cancel_annotation(gang.parsed.manifest)
        if gang.fit.waiting_reason and not is_to_end:
            self.report_wait(gang)
            return
        self._report_new(gang)
        if is_to_end:
            self.report_cancel(gang)

    def _report_new(self, gang: Gang) -> None:
        gang.fit.waiting_reason = ""
        gang.number = self._allocate_number()
        self._inject(JobArrived(gang.id, gang.number, gang.job))

    def report_cancel(self, gang: Gang) -> bool:
        """Reports that a job is to end. Returns False if the controller has nothing to end."""
        if gang.fit.waiting_reason and not gang.version.gone and has_cancel_annotation(gang.parsed.manifest):
            self.report_arrival(gang)
        elif gang.fit.waiting_reason or gang.status.phase in TERMINAL:
            return False
        elif not gang.deleted:
            gang.deleted = True
            by = (gang.parsed.manifest["metadata"].get("annotations") or {}).get(CANCEL) or "the deletion of its object"
            self._inject(JobEvent(gang.id, Cancel(by)))
        return True

    def report_end(self, gang: Gang, by: str) -> None:
        """Reports that a job is to end, whose object stays; the controller learns of one that waits for the cluster."""
        if gang.fit.waiting_reason:
            self._report_new(gang)
        self._inject(JobEvent(gang.id, Cancel(by)))

    def report_suspension(self, gang: Gang, requested: Job, by: str = "its owner") -> None:
        """Reports that the owner has suspended or resumed the job, as the requested job says, or another `by`."""
        event: Event = Suspend(by) if requested.suspend else Resume(by)
        self._inject(JobEvent(gang.id, event))

    def report_missed_requests(self, gang: Gang) -> None:
        """Reports a request that the owner made while no controller led."""
        requested, status = gang.requested_spec[1] if gang.requested_spec else gang.job, gang.status
        if status.phase in TERMINAL:
            return
        is_suspended = status.phase is Phase.SUSPENDED or status.target is Target.SUSPEND
        if has_cancel_annotation(gang.parsed.manifest):
            self.report_cancel(gang)
        elif requested.suspend != is_suspended:
            self.report_suspension(gang, requested)

    def report_fault(self, reference: ObjectReference, manifest: Manifest, message: str, reason: str = "") -> None:
        """Reports a fault of an object to its owner, once for each generation of the object.

        `reason`: that of a job's runtime. A job waits for one that is missing, unless it is to end. A job that was
        never accepted has failed until its fault is repaired: webhooks of Kubeflow's operators would have refused it.
        The state of a job that another operator has run stays as it is.
        """
        never_accepted = stored_state.FIELD not in (manifest.get("status") or {})
        waits = reason == NOT_FOUND and never_accepted and not has_cancel_annotation(manifest)
        fault = manifest["metadata"].get("generation") or 0, waits
        if self._faulty.get(reference.uid) != fault:
            self._faulty[reference.uid] = fault
            state = (Phase.CREATED if waits else Phase.FAILED).value if never_accepted else ""
            # a follower's refusal waits until it leads
            stands = partial(self._has_fault, reference.uid, fault)
            word, end = WAITING if waits else INVALID, ""
            if never_accepted and not has_ended(manifest):
                version, kind = reference.resource.api_version, reference.resource.kind
                end = reason or (word if kind == TRAIN_JOB else refusal_reason(version, kind, is_invalid=True))
            self._refuse(Refusal(reference, manifest, message, word, state, stands, end, is_job=True))

    def _has_fault(self, uid: str, fault: tuple[int, bool]) -> bool:
        return self._faulty.get(uid) == fault

    def forget_faults(self, uid: str) -> None:
        """Forgets the faults of a deleted or repaired object; a refusal that is not written yet is dropped."""
        self._faulty.pop(uid, None)

    def report_wait(self, gang: Gang) -> None:
        """Reports what a job waits for that the controller does not know yet, and the verdict on it."""
        if gang.fit.is_early:
            return
        why = gang.fit.waiting_reason
        gang.notes.announced[CREATED] = ""
        self._refuse(
            Refusal(
                gang.reference,
                gang.parsed.manifest,
                why,
                WAITING,
                Phase.CREATED.value,
                lambda: gang.fit.waiting_reason == why,
                is_job=True,
                diagnosis=diagnosis_condition(gang.status, gang.notes.wait_verdict),
            )
        )


def has_cancel_annotation(manifest: Manifest) -> bool:
    """Tells whether the object has the annotation that ends the job."""
    return CANCEL in (manifest["metadata"].get("annotations") or {})
