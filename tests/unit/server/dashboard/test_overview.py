"""The first page: what changed since an hour ago, the last first."""

from dataclasses import replace

from windlass.core.ledger import Ledger
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.job import Job, Role
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue
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
