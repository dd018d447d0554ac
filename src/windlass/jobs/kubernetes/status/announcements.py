"""Announcements of a job: what its Events say, from its conditions and the core's status.

A job has an Event when a condition becomes true, with the reason that the kind's own operator gives. While it waits, it
has another one when the reason changes. A TrainJob has few conditions, so its Events are those of its phases.
Sources: kubeflow/training-operator v1.9, Recorder.Event of each kind; kubeflow/mpi-operator v0.8,
mpi_job_controller.go. Not taken over: a failure of Type Normal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.status import Phase
from windlass.core.model.status import Status as Life
from windlass.jobs.kubernetes.labels import OURS
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.pods.pod_assembly import TRAINER_GROUP
from windlass.jobs.kubernetes.status import conditions as c
from windlass.jobs.kubernetes.status.conditions import Condition, Conditions
from windlass.jobs.kubernetes.status.diagnosis_condition import DIAGNOSED, shown_diagnosis
from windlass.jobs.kubernetes.status.job_status import phase_conditions
from windlass.jobs.kubernetes.status.member_conditions import MPI_V2, Failing

RESUMED, RESTARTED = "Resumed", "ContainersRestarted"
CREATED, DELETED = "Create", "Delete"
"""Verbs of Events about pods and services."""
_PAST = {CREATED: "Created", DELETED: "Deleted"}
_TRUE = (c.CREATED, c.QUEUED, c.ADMITTED, c.RUNNING, c.RESTARTING, c.SUSPENDED, c.SUCCEEDED, c.FAILED)
_BAD = (c.RESTARTING, c.FAILED)


class Announcement(NamedTuple):
    """One Event of a job. `topic`: its condition; it is announced again when `word` changes."""

    topic: str
    word: str
    reason: str
    message: str
    is_bad: bool


def announcements(
    parsed: ParsedJob,
    life: Life,
    conditions: Conditions,
    waits: str = "",
    word: str = "",
    wait_verdict: DiagnosedCause | None = None,
) -> Iterator[Announcement]:
    """Yields what holds at present. `waits` and `word`: why a job is pending, as a sentence and in one word.

    `wait_verdict`: the verdict on what keeps it from running.
    """
    is_train_job = parsed.api_version.startswith(TRAINER_GROUP)
    listed = [*phase_conditions(parsed, life, waits, word)] if is_train_job else conditions
    for each in listed:
        if each["type"] == c.QUEUED and each.get("status") == "True":
            yield from _queued(parsed, life, waits, word)
        elif each["type"] in _TRUE and each.get("status") == "True":
            yield _announcement(parsed, each)
    shown = shown_diagnosis(life, wait_verdict)
    if shown is not None and shown.cause.rule:
        yield Announcement(DIAGNOSED, shown.word, f"{parsed.kind}{DIAGNOSED}", shown.message, is_bad=True)
    if life.container_restarts and life.phase in (Phase.ADMITTED, Phase.RUNNING):
        yield _restarts(parsed, life.container_restarts)
    for each in conditions:
        if each["type"] == c.SUSPENDED and str(each.get("reason")).endswith(RESUMED):
            message = f"{parsed.kind} {parsed.name} is resumed."
            yield Announcement(RESUMED, "", f"{parsed.kind}{RESUMED}", message, is_bad=False)


def has_object_events(parsed: ParsedJob) -> bool:
    """Tells whether the kind's operator writes Events about pods and services: not for MPIJob v2 and TrainJob."""
    return parsed.api_version != MPI_V2 and not parsed.api_version.startswith(TRAINER_GROUP)


def restart_announcement(parsed: ParsedJob, failing: Failing) -> Announcement | None:
    """Returns the announcement of a job of which single pods restart; None for a kind without the condition."""
    if parsed.api_version == MPI_V2:
        return None
    message = f"{parsed.kind} {parsed.name} is restarting because {failing}."
    return Announcement(c.RESTARTING, "", f"{parsed.kind}{c.RESTARTING}", message, is_bad=True)


def has_exit_events(parsed: ParsedJob) -> bool:
    """Tells whether the kind's operator writes Events about pods that end: not for MPIJob and TrainJob."""
    return has_object_events(parsed) and parsed.kind != "MPIJob"


def object_announcement(kind: str, name: str, verb: str) -> tuple[str, str]:
    """Returns reason and message about a pod or a service of a job, or the job. `verb`: `CREATED` or `DELETED`."""
    return f"Successful{verb}{kind}", f"{_PAST[verb]} {kind.lower()}: {name}"


def exit_announcement(namespace: str, name: str, code: int) -> tuple[str, str]:
    """Returns reason and message about a pod that has ended."""
    return "ExitedWithCode", f"Pod: {namespace}.{name} exited with code {code}"


def refusal_reason(api_version: str, kind: str, *, is_invalid: bool) -> str:
    """Returns the reason of the Event of a job that does not queue: its spec is invalid, or it waits for an object."""
    if api_version.startswith(TRAINER_GROUP):
        return f"{kind}ResourcesCreationFailed"
    if not is_invalid:
        return f"{kind}Waiting"
    return "ValidationError" if api_version == MPI_V2 else f"{kind}FailedValidation"


def has_condition_created(api_version: str) -> bool:
    """Tells whether the jobs of a kind have the condition Created: a TrainJob has not."""
    return not api_version.startswith(TRAINER_GROUP)


def created_condition(kind: str, name: str) -> Condition:
    """Returns the condition Created, which a job has first."""
    reason, message = f"{kind}{c.CREATED}", f"{kind} {name} is created."
    return {"type": c.CREATED, "status": "True", "reason": reason, "message": message}


def _queued(parsed: ParsedJob, life: Life, waits: str, word: str) -> Iterator[Announcement]:
    """Yields why the job waits, once that is known: the scheduler's reason, or the event that has put it back."""
    why = waits or life.message
    if why:
        message = f"{parsed.kind} {parsed.name} waits in the queue: {why}"
        yield Announcement(c.QUEUED, word or life.reason, f"{parsed.kind}{c.QUEUED}", message, is_bad=False)


def _restarts(parsed: ParsedJob, count: int) -> Announcement:
    """Returns the announcement of restarts in place: again when their number has doubled, so that it is rare."""
    message = f"Kubelets have restarted containers of {parsed.kind} {parsed.name} in place, {count} in all."
    return Announcement(RESTARTED, str(count.bit_length()), f"{parsed.kind}{RESTARTED}", message, is_bad=True)


def _announcement(parsed: ParsedJob, condition: Condition) -> Announcement:
    topic = condition["type"]
    is_own = parsed.api_version.startswith((OURS, TRAINER_GROUP))
    reason = f"{parsed.kind}{topic}" if is_own else str(condition.get("reason"))
    return Announcement(topic, "", reason, str(condition.get("message")), topic in _BAD)
