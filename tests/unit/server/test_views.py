from __future__ import annotations

from dataclasses import replace

import pytest
from still import job

from windlass.core.cluster import Node
from windlass.core.gang import running_of
from windlass.core.status import Failure, FailureClass, Phase, Placement, Status
from windlass.core.transitions import created
from windlass.server import views
from windlass.server.errors import ApiError, Code, from_json


def failed(reason: str, **how: int) -> Status:
    failure = Failure(FailureClass.USER, "ExitCode", "rank 0 failed", at=0, **how)
    return Status(phase=Phase.FAILED, reason=reason, last_failure=failure)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (Status(phase=Phase.SUCCEEDED), 0),
        (failed("ExitCode", exit_code=7), 7),
        (failed("ExitCode", signal=11), 139),
        (failed("Cancelled", exit_code=7), None),
        (Status(phase=Phase.RUNNING), None),
    ],
)
def test_a_jobs_exit_code_is_that_of_the_rank_that_ended_it(status: Status, code: int | None):
    state = replace(created("job-1", 1, job(), 0), status=status)
    assert views.exit_code(state) == code


def test_a_node_adds_up_what_every_replica_on_it_holds():
    placement = Placement({"worker": ("n1", "n2", "n1")})
    state = created("job-1", 1, job(replicas=3, gpus=2), 0)
    seen = views.node(Node("n1", {"gpu": 8, "cpu": 1000}), [running_of(state, placement)])
    assert seen["used"] == {"gpu": 4, "cpu": 0}
    assert seen["jobs"] == [{"id": "job-1", "holds": {"gpu": 4}}]


def test_an_error_is_the_same_on_both_sides():
    told = ApiError(Code.REFUSED, "too large", "ask for less")
    assert from_json(told.as_json(), 422) == told
    assert from_json({"error": "what?"}, 500).code is Code.INTERNAL
    assert from_json(None, 502).code is Code.INTERNAL
