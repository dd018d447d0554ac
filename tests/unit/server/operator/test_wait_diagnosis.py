"""Waits of jobs on a cluster: when each is diagnosed, when its verdict is shown, and when it is withdrawn."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from windlass.backends.kubernetes.gangs.event_obstacles import EventObstacle
from windlass.backends.kubernetes.gangs.gang import LastWait, StatusNotes
from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.status import Phase, Status
from windlass.server.diagnosis.evidence_request import EvidenceRequest
from windlass.server.operator.wait_diagnosis import WaitDiagnosis, withdraw_wait_verdicts

AFTER_S = 30.0
CLAIM = "there is no PersistentVolumeClaim datasets in namespace team; create it"
QUOTA = "its pods cannot be created: exceeded quota: small"


class Jobs:
    """The part of the backend that the diagnosis of waits uses. `shown`: rules of the verdicts by job, in order."""

    def __init__(self) -> None:
        self.gangs: dict[str, Any] = {}
        self.shown: list[tuple[str, str, int]] = []
        self.troubles: list[str] = []
        self.redaction = SimpleNamespace(message=lambda text, _namespace: text)
        self.on_trouble = self.troubles.append
        self.jobs = self
        self.now = lambda: 0

    def __iter__(self) -> Any:
        return iter(self.gangs.values())

    def get(self, job_id: str) -> Any:
        return self.gangs.get(job_id)

    def add(self, name: str, waiting: str = "", **status: Any) -> Any:
        about = SimpleNamespace(namespace="team")
        fit = SimpleNamespace(waiting_reason=waiting)
        gang = SimpleNamespace(
            id=name, reference=about, fit=fit, notes=StatusNotes(), status=Status(**status), run=None, job=None
        )
        self.gangs[name] = gang
        return gang

    def show_wait_verdict(self, gang: Any, cause: DiagnosedCause | None) -> None:
        gang.notes.wait_verdict = cause
        self.shown.append((gang.id, cause.rule if cause else "", cause.generation if cause else -1))


class Engine:
    """A diagnosis that knows two causes; `failures`: how often it fails first."""

    def __init__(self, failures: int = 0) -> None:
        self.asked: list[str] = []
        self.failures = failures

    async def diagnose(self, request: EvidenceRequest) -> DiagnosedCause:
        (text,) = (each.text for each in request.texts)
        self.asked.append(text.partition(":")[0])
        if self.failures:
            self.failures -= 1
            raise OSError("no process")
        rule = "volume-claim" if "PersistentVolumeClaim" in text else "quota-exceeded" if "quota" in text else ""
        return DiagnosedCause(request.attempt, "a cause", rule)


class Events:
    """A reader of Events. `unread`: jobs whose Events were not read yet; `began`: since when their pods wait."""

    def __init__(self, unread: Collection[str] = (), began: float | None = None) -> None:
        self.unread, self.began = set(unread), began

    async def look(self, now: float) -> None:
        """Reads nothing."""

    def since(self, _job_id: str, now: float) -> float:
        return now if self.began is None else self.began

    def is_unread(self, job_id: str) -> bool:
        return job_id in self.unread


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


def look(jobs: Jobs, engine: Engine, *rounds: tuple[float, Any], events: Events | None = None) -> None:
    """Looks at the jobs at these times, each after a change of them."""
    waits = WaitDiagnosis(jobs, engine.diagnose, AFTER_S, events or Events())  # type: ignore[arg-type]

    async def run() -> None:
        for now, change in rounds:
            change()
            await waits.look(now)

    asyncio.run(run())


def as_it_is() -> None:
    """Nothing changes."""


def test_a_wait_is_diagnosed_once_when_it_has_lasted(jobs: Jobs) -> None:
    jobs.add("digits", CLAIM)
    engine = Engine()
    look(jobs, engine, (0, as_it_is), (29, as_it_is), (30, as_it_is), (60, as_it_is))
    assert (engine.asked, jobs.shown) == (["Waiting"], [("digits", "volume-claim", 0)])


def test_a_verdict_is_withdrawn_when_the_wait_is_over(jobs: Jobs) -> None:
    gang = jobs.add("digits", CLAIM)

    def bind() -> None:
        gang.fit.waiting_reason = ""

    look(jobs, Engine(), (0, as_it_is), (30, as_it_is), (32, bind), (34, as_it_is))
    assert jobs.shown == [("digits", "volume-claim", 0), ("digits", "", -1)]


def test_a_wait_for_another_reason_counts_from_its_start(jobs: Jobs) -> None:
    gang = jobs.add("digits", CLAIM, phase=Phase.QUEUED)

    def refuse() -> None:
        gang.fit.waiting_reason, gang.notes.creation_error = "", QUOTA

    engine = Engine()
    look(jobs, engine, (0, as_it_is), (20, refuse), (40, as_it_is), (50, as_it_is))
    assert (engine.asked, jobs.shown) == (["FailedCreatePod"], [("digits", "quota-exceeded", 0)])


def test_a_verdict_is_withdrawn_when_the_job_waits_for_something_else(jobs: Jobs) -> None:
    gang = jobs.add("digits", CLAIM, phase=Phase.QUEUED)

    def refuse() -> None:
        gang.fit.waiting_reason, gang.notes.creation_error = "", QUOTA

    look(jobs, Engine(), (0, as_it_is), (30, as_it_is), (32, refuse), (62, as_it_is))
    assert [rule for _, rule, _ in jobs.shown] == ["volume-claim", "", "quota-exceeded"]


def test_jobs_that_wait_for_the_same_share_one_diagnosis(jobs: Jobs) -> None:
    for name in ("one", "two", "three"):
        jobs.add(name, CLAIM)
    engine = Engine()
    look(jobs, engine, (0, as_it_is), (30, as_it_is), (32, as_it_is))
    assert (engine.asked, [name for name, *_ in jobs.shown]) == (["Waiting"], ["one", "two", "three"])


def test_a_diagnosis_that_fails_is_reported_and_repeated_later(jobs: Jobs) -> None:
    jobs.add("digits", CLAIM)
    engine = Engine(failures=1)
    look(jobs, engine, (0, as_it_is), (30, as_it_is), (32, as_it_is), (60, as_it_is))
    assert jobs.troubles == ["the wait of digits is not diagnosed: no process"]
    assert (len(engine.asked), jobs.shown) == (2, [("digits", "volume-claim", 0)])


def test_a_job_that_waits_for_its_turn_is_not_diagnosed(jobs: Jobs) -> None:
    gang = jobs.add("digits", phase=Phase.QUEUED)
    gang.notes.pending_reason, gang.notes.pending_message = "WaitingForQuota", "needs 8 GPUs: none free"
    engine = Engine()
    look(jobs, engine, (0, as_it_is), (60, as_it_is))
    assert (engine.asked, jobs.shown) == ([], [])


def test_the_last_wait_of_an_attempt_is_kept_for_its_verdict(jobs: Jobs) -> None:
    gang = jobs.add("digits", phase=Phase.ADMITTED, generation=2)
    gang.notes.creation_error = QUOTA
    look(jobs, Engine(), (0, as_it_is))
    assert gang.notes.last_wait == LastWait(2, f"FailedCreatePod: {QUOTA}")


# --- obstacles that only Events name -------------------------------------------------------------------------------

MOUNT = EventObstacle(1, "uid-0", "volume", "FailedMount: quota of the volume")
SANDBOX = EventObstacle(1, "uid-0", "sandbox", "FailedCreatePodSandBox: no network")


def waiting_for(jobs: Jobs, obstacle: EventObstacle) -> Any:
    gang = jobs.add("digits", phase=Phase.ADMITTED, generation=1)
    gang.notes.event_obstacle = obstacle
    return gang


def test_an_obstacle_of_events_lasts_since_the_pods_wait(jobs: Jobs) -> None:
    waiting_for(jobs, MOUNT)
    look(jobs, Engine(), (40, as_it_is), events=Events(began=10))
    assert jobs.shown == [("digits", "quota-exceeded", 1)]


def test_the_last_wait_says_that_events_told_it(jobs: Jobs) -> None:
    gang = waiting_for(jobs, MOUNT)
    look(jobs, Engine(), (0, as_it_is))
    assert gang.notes.last_wait == LastWait(1, MOUNT.text, from_events=True)


def test_another_topic_replaces_the_verdict_when_it_has_lasted(jobs: Jobs) -> None:
    gang = waiting_for(jobs, MOUNT)

    def go_on() -> None:
        gang.notes.event_obstacle = SANDBOX

    look(jobs, Engine(), (0, as_it_is), (30, as_it_is), (40, go_on), (60, as_it_is))
    assert jobs.shown == [("digits", "quota-exceeded", 1)]
    look(jobs, Engine(), (0, as_it_is), (30, as_it_is))
    assert jobs.shown == [("digits", "quota-exceeded", 1), ("digits", "", -1)], "no rule knows the second obstacle"


def test_an_obstacle_of_an_earlier_attempt_is_none(jobs: Jobs) -> None:
    waiting_for(jobs, MOUNT._replace(attempt=0))
    look(jobs, Engine(), (0, as_it_is), (30, as_it_is))
    assert jobs.shown == []


def test_a_verdict_of_the_last_leader_stays_until_events_are_read(jobs: Jobs) -> None:
    gang = jobs.add("digits", phase=Phase.ADMITTED, generation=1)
    gang.notes.wait_verdict, events = replace(SHOWN, generation=1), Events(unread=["digits"])
    look(jobs, Engine(), (0, as_it_is), (90, as_it_is), (92, events.unread.clear), events=events)
    assert jobs.shown == [("digits", "", -1)]


# --- the verdict that an earlier leader has shown -----------------------------------------------------------------

SHOWN = DiagnosedCause(0, "A volume claim of the job is not bound", "volume-claim", "certain")


def test_a_verdict_of_the_last_leader_stays_while_the_job_still_waits(jobs: Jobs) -> None:
    jobs.add("digits", CLAIM).notes.wait_verdict = SHOWN
    look(jobs, Engine(), (0, as_it_is), (2, as_it_is), (30, as_it_is), (60, as_it_is))
    assert jobs.shown == [("digits", "volume-claim", 0)]


def test_a_verdict_of_the_last_leader_stays_until_the_wait_is_seen(jobs: Jobs) -> None:
    gang = jobs.add("digits", phase=Phase.ADMITTED, generation=2)
    gang.notes.wait_verdict = replace(SHOWN, generation=2)

    def refuse() -> None:
        gang.notes.creation_error = QUOTA

    look(jobs, Engine(), (0, as_it_is), (10, as_it_is), (12, refuse), (40, as_it_is), (42, as_it_is))
    assert jobs.shown == [("digits", "quota-exceeded", 2)]


@pytest.mark.parametrize(
    ("status", "rounds", "why"),
    [
        (Status(phase=Phase.RUNNING, generation=2), 1, "the job runs"),
        (Status(phase=Phase.ADMITTED, generation=3), 1, "the attempt that waited is over"),
        (Status(phase=Phase.ADMITTED, generation=2), 2, "the wait is not seen"),
    ],
)
def test_a_verdict_of_the_last_leader_is_withdrawn(jobs: Jobs, status: Status, rounds: int, why: str) -> None:
    gang = jobs.add("digits")
    gang.status, gang.notes.wait_verdict = status, replace(SHOWN, generation=2)
    look(jobs, Engine(), *[(at, as_it_is) for at in (0, 30)[:rounds]])
    assert jobs.shown == [("digits", "", -1)], why


def test_a_leader_that_diagnoses_nothing_withdraws_the_verdicts_of_the_last_one(jobs: Jobs) -> None:
    jobs.add("digits", CLAIM).notes.wait_verdict = SHOWN
    jobs.add("other", CLAIM)
    withdraw_wait_verdicts(jobs)  # type: ignore[arg-type]
    assert jobs.shown == [("digits", "", -1)]


def test_a_wait_whose_text_is_redacted_otherwise_during_its_diagnosis_is_diagnosed_again(jobs: Jobs) -> None:
    """A namespace that the text names gets its first job meanwhile."""
    jobs.add("digits", CLAIM)
    engine, diagnose = Engine(), Engine.diagnose

    async def hide_and_diagnose(request: EvidenceRequest) -> DiagnosedCause:
        jobs.redaction.message = lambda text, _namespace: text.replace("datasets", "hidden")
        return await diagnose(engine, request)

    engine.diagnose = hide_and_diagnose  # type: ignore[method-assign]
    look(jobs, engine, (0, as_it_is), (30, as_it_is), (32, as_it_is))
    assert (len(engine.asked), jobs.shown) == (2, [("digits", "volume-claim", 0)])
