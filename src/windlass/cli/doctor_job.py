"""`windlass doctor JOB`: gathers the evidence of a job on this machine or on a cluster, and diagnoses it."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

from windlass.backends.local.paths import StatePaths
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.failure_report import ShowProgress, diagnose_with_progress, print_diagnosis
from windlass.cli.job_activity import activity_sections, headline
from windlass.cli.named_job import read_job
from windlass.cli.target import record_source, resolve_context, state_folder, warn_if_offline
from windlass.cli.terminal.report_format import ReportFormat
from windlass.diagnose.diagnosis import Diagnosis
from windlass.diagnose.failures.reports import PresentState
from windlass.server.diagnosis.evidence_request import EvidenceRequest, LoggedText, read_evidence
from windlass.server.diagnosis.job_activity import JobActivity, job_activity
from windlass.server.diagnosis.stack_signal import writes_stack
from windlass.server.errors import ApiError, ErrorCode

Json = dict[str, Any]
_STEPS = 3
"""Steps before the logs are read: state of the job, its logs, files of ranks."""


class JobSelection(NamedTuple):
    """A job of a machine or a cluster, and one of its attempts; None: the newest."""

    name: str
    on: str
    namespace: str
    state: Path | None
    attempt: int | None

    @property
    def option(self) -> str:
        """The words that name the cluster in another command."""
        return (f" --on {self.on}" if self.on else "") + (f" -n {self.namespace}" if self.namespace else "")


class JobDiagnosis(NamedTuple):
    """Diagnosis of an attempt of a job, or of why it waits."""

    diagnosis: Diagnosis
    activity: JobActivity | None
    """The job as it is at present; None of an earlier attempt."""
    was_read: bool = True
    """Whether the evidence was searched for a cause; that of a job that has succeeded is not."""


def print_job_diagnosis(found: JobDiagnosis, how: ReportFormat) -> ExitCode:
    """Prints the report of a job, and returns the exit code."""
    activity = found.activity
    if activity is None:
        return print_diagnosis(found.diagnosis, how, job=None)
    is_over = activity.phase == "Failed"
    present = None if is_over else PresentState(headline(activity), activity_sections(activity), found.was_read)
    return print_diagnosis(found.diagnosis, how, present, job=asdict(activity))


def diagnose_job(job: JobSelection, show: ShowProgress, *, show_secrets: bool, has_failed: bool) -> JobDiagnosis:
    """Returns the diagnosis of an attempt of a job, or of why it waits. Raises UsageError, ApiError.

    `has_failed`: whether the user says that a job that runs stands still.
    """
    # 1. the state of the job
    show(0.0, 0, _STEPS, "reading the state of the job")
    details, now = _details(job), int(time.time() * 1000)
    newest = details["status"]["generation"]
    is_local = resolve_context(job.on, job.namespace) is None
    is_past = job.attempt is not None and job.attempt < newest
    if details["phase"] == "Succeeded" and not is_past and not has_failed:
        return JobDiagnosis(Diagnosis(None), job_activity(details, {}, (), now, job.option), was_read=False)
    # 2. its evidence
    request = _collect(job, details, show)
    show(2 / _STEPS, 2, _STEPS, "reading flight recorders and status files")
    evidence, gaps, _, places = read_evidence(request)
    # 3. the cause that the evidence names, and what the job does at present
    is_over = details["phase"] == "Failed" or is_past
    found = diagnose_with_progress(replace(evidence, has_failed=has_failed or is_over), show, show_secrets=show_secrets)
    stacks = writes_stack if is_local else lambda _pid: False
    activity = None if is_past else job_activity(details, places, request.texts, now, job.option, stacks)
    return JobDiagnosis(replace(found, unseen=[*gaps, *found.unseen]), activity)


def _collect(job: JobSelection, details: Json, show: ShowProgress) -> EvidenceRequest:
    """Returns what is to be read of an attempt. Raises UsageError, ApiError."""
    newest = details["status"]["generation"]
    if job.attempt is not None and job.attempt > newest:
        raise UsageError(f"{details['id']} has no attempt {job.attempt}\nthe number of its attempts is {newest}")
    if details["phase"] == "Queued" and job.attempt is None:
        return _reason_for_waiting(details)
    show(1 / _STEPS, 1, _STEPS, "finding the logs of its ranks")
    request = _evidence(job, details, job.attempt or newest)
    if (wait := details.get("member_wait")) and job.attempt in (None, newest):
        text = LoggedText(f"windlass status {details['id']}", f"{wait['reason']}: {wait['message']}\n")
        request = replace(request, texts=[*request.texts, text])
    if details["phase"] == "Created":  # it cannot queue yet
        request = replace(request, texts=[*request.texts, *_reason_for_waiting(details).texts])
    return request


def _details(job: JobSelection) -> Json:
    try:
        source = record_source(job.on, job.namespace, job.state)
        details = read_job(source, job.name)
    except ApiError as error:
        if job.on or error.code not in (ErrorCode.NO_SUCH_JOB, ErrorCode.NO_DAEMON):
            raise
        hint = f"{error.message}; name a file or folder that exists, or a job that windlass history lists"
        raise ApiError(ErrorCode.NO_SUCH_JOB, f"{job.name} is neither a file nor a job", hint) from None
    warn_if_offline(source)
    if "members" in details:
        raise UsageError(f"{job.name} is an array\nname one of its jobs: {details['members'][0]['id']}")
    return details


def _reason_for_waiting(details: Json) -> EvidenceRequest:
    """The reason of `windlass why` as evidence."""
    text = f"{details['reason']}: {details['message']}\n"
    return EvidenceRequest(attempt=1, texts=[LoggedText(f"windlass why {details['id']}", text)])


def _evidence(job: JobSelection, details: Json, attempt: int) -> EvidenceRequest:
    context = resolve_context(job.on, job.namespace)
    if context is not None:
        from windlass.cli.kubernetes.client import ClusterClient  # noqa: PLC0415 - loads a cluster's libraries
        from windlass.cli.kubernetes.job_evidence import cluster_job_evidence  # noqa: PLC0415

        return cluster_job_evidence(ClusterClient.at(context, job.namespace), details, attempt)
    from windlass.server.diagnosis.local_evidence import local_evidence  # noqa: PLC0415

    return local_evidence(StatePaths(state_folder(job.state)), details, attempt)
