"""The limit of a wait in the queue: when its clock runs, what explains the wait, and the error at its end."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from windlass.cli.errors import describe_error
from windlass.cli.exit_codes import ExitCode
from windlass.cli.queue_limit import QueueLimit
from windlass.server.errors import ApiError, ErrorCode

WAITING = {"id": "test-2", "phase": "Queued", "reason": "WaitingForQuota", "message": "needs 2 nodes: 0 of 2 empty"}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Controller:
    def explain(self, name: str) -> dict:
        return {"job": {"id": name}}


class Lost:
    def explain(self, _name: str) -> dict:
        raise ApiError(ErrorCode.GONE, "the daemon went away")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limit(clock: Clock) -> QueueLimit:
    return QueueLimit(60_000, lambda answer: f"why {answer['job']['id']}", "wait longer: --timeout 1h", clock)


def test_the_clock_runs_from_the_submission_until_the_job_has_nodes(limit: QueueLimit, clock: Clock):
    clock.now = 100
    assert not limit.is_over()
    limit.begin()
    clock.now = 159
    assert not limit.is_over()
    clock.now = 160
    assert limit.is_over()
    limit.note_transition({"after": "Admitted"})
    assert not limit.is_over()


def test_the_clock_starts_anew_when_the_job_loses_its_nodes(limit: QueueLimit, clock: Clock):
    limit.begin()
    limit.note_transition({"after": "Running"})
    clock.now = 500
    limit.note_transition({"after": "Queued"})
    assert not limit.is_over()
    clock.now = 560
    assert limit.is_over()


def test_the_wait_is_explained_once(limit: QueueLimit):
    assert [limit.explain(WAITING, Controller()) for _ in range(2)] == ["why test-2", ""]


def test_without_an_explanation_the_line_of_the_job_is_left(limit: QueueLimit):
    assert limit.explain(WAITING, Lost()) == ""


def test_the_error_states_the_reason_and_the_fix(limit: QueueLimit):
    limit.explain(WAITING, Controller())
    text, code = describe_error(limit.error("test-2", Lost()))
    assert code is ExitCode.BUSY
    assert text.splitlines() == [
        "test-2 got no nodes within 1m00s and is cancelled: needs 2 nodes: 0 of 2 empty",
        "wait longer: --timeout 1h",
    ]


def test_a_job_whose_reason_was_never_reported_is_asked_for_it(limit: QueueLimit):
    unseen = {"id": "test-2", "phase": "Created", "reason": "NotSeen", "message": "the operator has not seen it yet"}
    asked = SimpleNamespace(explain=lambda name: {"job": {**unseen, "id": name}})
    assert "is cancelled: NotSeen: the operator has not seen it yet\n" in str(limit.error("test-2", asked))
    assert "is cancelled: the daemon went away\n" in str(limit.error("test-2", Lost()))
