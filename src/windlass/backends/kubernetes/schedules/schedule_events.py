"""Events of a CronTrainingJob, with the reasons of a CronJob's where Kubernetes has one for the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from windlass.backends.kubernetes.client.object_reference import ObjectReference
from windlass.backends.kubernetes.status.event_correlation import NORMAL, WARNING, EventRecord
from windlass.jobs.kubernetes.schedules.run_plan import Run
from windlass.jobs.schedules.schedule import NoteKind, ScheduleNote

_CREATE, _DELETE, _DECIDE = "Create", "Delete", "Decide"
_OF_NOTES = {
    NoteKind.MISSED: ("MissSchedule", _DECIDE, WARNING),
    NoteKind.SKIPPED: ("RunSkipped", _DECIDE, NORMAL),
    NoteKind.WAITING: ("RunWaiting", _DECIDE, NORMAL),
    NoteKind.REFUSED: ("FailedCreate", _CREATE, WARNING),
}
"""Reason, action and type by the kind of a note. A run that starts has its Event when it is created."""


def events_of_notes(
    about: ObjectReference, before: Sequence[ScheduleNote], after: Sequence[ScheduleNote]
) -> Iterator[EventRecord]:
    """Yields the Events of the notes that were added to the history of a schedule."""
    known = set(before)
    for note in after:
        if note not in known and note.kind in _OF_NOTES:
            reason, action, level = _OF_NOTES[note.kind]
            yield EventRecord(about, reason, action, note.message, note.at, level)


def created_event(about: ObjectReference, run: Run, at: int) -> EventRecord:
    """The Event of a run that exists."""
    return EventRecord(about, "SuccessfulCreate", _CREATE, f"created the run {run.name}", at, NORMAL)


def replaced_event(about: ObjectReference, run: Run, at: int) -> EventRecord:
    """The Event of an active run that is cancelled for the next one."""
    return EventRecord(about, "RunReplaced", "Cancel", f"cancels the run {run.name} for the next one", at, NORMAL)


def deleted_event(about: ObjectReference, run: Run, at: int) -> EventRecord:
    """The Event of an ended run that the limits of the history do not keep."""
    message = f"deleted the run {run.name}, which the history no longer keeps"
    return EventRecord(about, "SuccessfulDelete", _DELETE, message, at, NORMAL)


def unaccepted_event(about: ObjectReference, reason: str, message: str, at: int) -> EventRecord:
    """The Event of a schedule that cannot be carried out."""
    return EventRecord(about, reason, "Read", message, at)
