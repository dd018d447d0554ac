"""The first page: what changed since an hour ago, the last first."""

from dataclasses import replace

from windlass.core.ledger import Ledger
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.diagnosed_cause import DiagnosedCause
from windlass.core.model.job import Job, Role
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue
from windlass.core.model.reasons import Reason, Verdict
from windlass.core.model.status import Failure, FailureClass, JobState, Phase
from windlass.server.dashboard.overview import RECENT_MS, overview

NOW = 10 * RECENT_MS
SNAPSHOT = Ledger([Node("a", {"gpu": 4})], [Queue("default")]).snapshot()


def job(number: int, **status: object) -> JobState:
    state = create_state(f"job-{number}", number, Job("job", (Role(),)), 0)
    return replace(state, status=replace(state.status, **status))


def changes(living: list[JobState], ended: list[JobState]) -> list[tuple[str, str]]:
    return [(each["job"], each["change"]) for each in overview(SNAPSHOT, living, ended, {}, NOW)["changes"]]


def test_starts_survived_failures_and_ends_are_listed_the_last_first() -> None:
    lost = Failure(FailureClass.INFRASTRUCTURE, "NodeLost", "node b was lost", NOW - 20)
    living = job(1, phase=Phase.RUNNING, started_at=NOW - 50, last_failure=lost)
    ended = job(2, phase=Phase.SUCCEEDED, started_at=NOW - 40, finished_at=NOW - 10)
    assert changes([living], [ended]) == [
        ("job-2", "succeeded"),
        ("job-1", "lost members"),
        ("job-2", "started"),
        ("job-1", "started"),
    ]


def test_changes_older_than_an_hour_are_left_out() -> None:
    assert changes([job(1, phase=Phase.RUNNING, started_at=NOW - 2 * RECENT_MS)], []) == []


def test_a_failed_job_is_shown_with_the_verdict_on_its_last_attempt() -> None:
    cause = DiagnosedCause(1, "Rank 0 ran out of GPU memory", rule="gpu.memory")
    end = {"phase": Phase.FAILED, "finished_at": NOW - 5, "message": "exited with code 1", "generation": 1}
    failed = job(1, **end, diagnosis=cause)
    found = overview(SNAPSHOT, [], [failed], {}, NOW)
    assert found["findings"] == [{"kind": "job", "name": "job-1", "text": "failed: Rank 0 ran out of GPU memory"}]
    assert found["changes"][0]["message"] == "Rank 0 ran out of GPU memory"


def test_a_waiting_job_that_can_never_start_needs_a_person() -> None:
    waiting = [job(1, phase=Phase.QUEUED), job(2, phase=Phase.QUEUED)]
    verdicts = {
        "job-1": Verdict(Reason.NO_MATCHING_FLAVOR, "4 nodes too small"),
        "job-2": Verdict(Reason.WAITING_FOR_QUOTA, "2 of 4 gpu are free"),
    }
    found = overview(SNAPSHOT, waiting, [], verdicts, NOW)["findings"]
    assert found == [{"kind": "job", "name": "job-1", "text": "cannot start as it is: 4 nodes too small"}]


def test_only_what_gangs_compete_for_has_a_capacity() -> None:
    sizes = {"gpu": 4, "cpu": 8_000, "memory": 1 << 30, "pods": 110, "ephemeral-storage": 1 << 40}
    snapshot = Ledger([Node("a", sizes)], [Queue("default")]).snapshot()
    assert [row["resource"] for row in overview(snapshot, [], [], {}, NOW)["capacity"]] == ["gpu"]
