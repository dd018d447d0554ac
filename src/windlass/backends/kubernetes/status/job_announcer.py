"""Records the Events of jobs: their announcements when these begin to hold, and what happens to their pods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from windlass.backends.kubernetes.client.object_reference import ObjectReference
from windlass.backends.kubernetes.client.objects import Pod
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.status.event_correlation import NORMAL, WARNING, EventRecord, RateLimit
from windlass.backends.kubernetes.status.failing_pods import failing_pods
from windlass.backends.kubernetes.status.job_waits import NOT_CREATED
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.status.announcements import (
    DELETED,
    Announcement,
    announcements,
    created_condition,
    exit_announcement,
    has_exit_events,
    has_object_events,
    object_announcement,
    refusal_reason,
    restart_announcement,
)
from windlass.jobs.kubernetes.status.conditions import (
    CREATED,
    QUEUED,
    RESTARTING,
    Condition,
    Conditions,
    conditions_of,
    is_true,
)
from windlass.jobs.kubernetes.status.diagnosis_condition import DIAGNOSED
from windlass.jobs.kubernetes.status.member_conditions import Failing

_REPEAT_BURST, _REPEAT_INTERVAL_MS = 10, 1_000


@dataclass(frozen=True, slots=True)
class JobAnnouncer:
    """Recorder of the Events of jobs. `now` in ms.

    `repeats` limits further reasons of jobs that wait, of all jobs together: those may be many, and change together.
    """

    record: Callable[[EventRecord], None]
    now: Callable[[], int]
    repeats: RateLimit = field(default_factory=lambda: RateLimit(_REPEAT_BURST, _REPEAT_INTERVAL_MS))

    def announce(self, gang: Gang) -> None:
        """Records what the written status of a gang says and has not said before."""
        notes = gang.notes
        waits, word = notes.pending_message, notes.pending_reason
        if notes.creation_error:
            waits, word = notes.creation_error, NOT_CREATED
        before, notes.announced = notes.announced, {}
        for each in announcements(
            gang.parsed, gang.status, _shown_conditions(gang), waits, word, gang.notes.wait_verdict
        ):
            known = before.get(each.topic)
            if known is None or (known != each.word and self.repeats.has_room("", self.now())):
                self._announce(gang, each)
                known = each.word
            notes.announced[each.topic] = known
        if RESTARTING in notes.announced and gang.run is not None:
            gang.run.pods.forget_failures()

    def announce_refusal(self, about: ObjectReference, why: str, *, is_new: bool, is_invalid: bool) -> None:
        """Records why a job does not queue, and first that it is created, if it is new."""
        kind, name, now = about.resource.kind, about.name, self.now()
        if is_new:
            created = created_condition(kind, name)
            self.record(EventRecord(about, created["reason"], CREATED, created["message"], now, NORMAL))
        reason = refusal_reason(about.resource.api_version, kind, is_invalid=is_invalid)
        what = "cannot run" if is_invalid else "waits"
        self.record(EventRecord(about, reason, "Read", f"{kind} {name} {what}: {why}", now))

    def announce_wait_verdict(self, about: ObjectReference, condition: Condition) -> None:
        """Records the verdict on what a job waits for that the controller does not know yet."""
        reason, message = f"{about.resource.kind}{DIAGNOSED}", condition["message"]
        self.record(EventRecord(about, reason, DIAGNOSED, message, self.now()))

    def announce_pod(self, gang: Gang, pod: Pod, verb: str) -> None:
        """Records that a pod of a gang was created or deleted by a request."""
        self._announce_object(gang.parsed, gang.reference, verb, object_announcement("Pod", pod.metadata.name, verb))

    def announce_service(self, gang: Gang, name: str, verb: str) -> None:
        """Records that a service of a gang was created or deleted."""
        self._announce_object(gang.parsed, gang.reference, verb, object_announcement("Service", name, verb))

    def announce_restart(self, gang: Gang, member: int) -> None:
        """Records that a gang restarts a member because of failing pods; not for the first start of an added member.

        The condition of the restart may be over before it is written.
        """
        failing = Failing() if gang.status.added_members >> member & 1 else failing_pods(gang, gang.status, member)
        if (
            failing.total
            and RESTARTING not in gang.notes.announced
            and (news := restart_announcement(gang.parsed, failing)) is not None
        ):
            gang.notes.announced[RESTARTING] = news.word
            self._announce(gang, news)

    def announce_removal(self, gang: Gang) -> None:
        """Records that the object of a job was deleted, after its time to live."""
        self._announce_object(
            gang.parsed, gang.reference, DELETED, object_announcement("Job", gang.reference.name, DELETED)
        )

    def announce_exit(self, gang: Gang, pod: Pod) -> None:
        """Records the exit code of a pod that has ended: that of its first container that has failed."""
        ended = [each.state.terminated for each in pod.status.container_statuses]
        codes = [each.exit_code for each in ended if each is not None]
        if codes and has_exit_events(gang.parsed):
            news = exit_announcement(pod.metadata.namespace, pod.metadata.name, next(filter(None, codes), 0))
            self._announce_object(gang.parsed, gang.reference, "Exit", news)

    def _announce_object(self, parsed: ParsedJob, about: ObjectReference, action: str, news: tuple[str, str]) -> None:
        if has_object_events(parsed):
            reason, message = news
            self.record(EventRecord(about, reason, action, message, self.now(), NORMAL, is_limited=True))

    def _announce(self, gang: Gang, news: Announcement) -> None:
        kind = WARNING if news.is_bad else NORMAL
        self.record(EventRecord(gang.reference, news.reason, news.topic, news.message, self.now(), kind))


def announced_topics(gang: Gang) -> dict[str, str]:
    """Returns what the status of a gang says already when its object is read: the word of each announcement by topic.

    Of a job that waits the word is not known.
    """
    conditions, verdict = _shown_conditions(gang), gang.notes.wait_verdict
    holds = {
        each.topic: each.word for each in announcements(gang.parsed, gang.status, conditions, wait_verdict=verdict)
    }
    return holds | ({QUEUED: ""} if is_true(conditions, QUEUED) else {})


def _shown_conditions(gang: Gang) -> Conditions:
    return conditions_of(gang.parsed.manifest)
