"""`windlass doctor JOB`: gathers the evidence of a job on this machine or on a cluster, and diagnoses it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from windlass.backends.local.paths import StatePaths
from windlass.cli.errors import UsageError
from windlass.cli.failure_report import diagnose_with_progress
from windlass.cli.target import record_source, resolve_context, state_folder, warn_if_offline
from windlass.cli.terminal.progress import ProgressBar
from windlass.diagnose.diagnosis import Diagnosis
from windlass.server.diagnosis.evidence_request import EvidenceRequest, LoggedText, read_evidence
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


def diagnose_job(job: JobSelection, *, show_secrets: bool, has_failed: bool = False) -> Diagnosis:
    """Returns the diagnosis of an attempt of a job, or of why it waits. Raises UsageError, ApiError.

    `has_failed`: whether the user says that a job that runs stands still.
    """
    with ProgressBar(job.name, no_color=False, terminal_only=True) as show:
        request, is_over = _collect(job, show)
        show(2 / _STEPS, 2, _STEPS, "reading flight recorders and status files")
        evidence, gaps, _ = read_evidence(request)
    evidence = replace(evidence, has_failed=has_failed or is_over)
    found = diagnose_with_progress(evidence, show_secrets=show_secrets)
    return replace(found, unseen=[*gaps, *found.unseen])


def _collect(job: JobSelection, show: ProgressBar) -> tuple[EvidenceRequest, bool]:
    """Returns what is to be read of an attempt, and whether it has failed. Raises UsageError, ApiError."""
    show(0.0, 0, _STEPS, "reading the state of the job")
    details = _details(job)
    if "members" in details:
        raise UsageError(f"{job.name} is an array\nname one of its jobs: {details['members'][0]['id']}")
    newest = details["status"]["generation"]
    if job.attempt is not None and job.attempt > newest:
        raise UsageError(f"{details['id']} has no attempt {job.attempt}\nthe number of its attempts is {newest}")
    if details["phase"] == "Queued" and job.attempt is None:
        return _reason_for_waiting(details), False
    show(1 / _STEPS, 1, _STEPS, "finding the logs of its ranks")
    request = _evidence(job, details, job.attempt or newest)
    if details["phase"] == "Created":  # it cannot queue yet
        request = replace(request, texts=[*request.texts, *_reason_for_waiting(details).texts])
    return request, details["phase"] == "Failed" or (job.attempt or newest) < newest


def _details(job: JobSelection) -> Json:
    try:
        source = record_source(job.on, job.namespace, job.state)
        details = source.job(job.name)
    except ApiError as error:
        if job.on or error.code not in (ErrorCode.NO_SUCH_JOB, ErrorCode.NO_DAEMON):
            raise
        raise ApiError(ErrorCode.NO_SUCH_JOB, f"{job.name} is neither a file nor a job", error.message) from None
    warn_if_offline(source)
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
