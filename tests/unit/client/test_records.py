from __future__ import annotations

import pytest

from windlass.client.errors import InternalError
from windlass.client.records import NodeInfo, checked, explanation_of, job_of

LINE = {"id": "digits-1", "name": "digits", "phase": "Running", "nodes": ["n1"], "position": 0, "elastic": None}


def test_a_line_becomes_a_job_with_all_details():
    job = job_of(LINE)
    assert (job.id, job.phase, job.nodes, job.has_ended) == ("digits-1", "Running", ("n1",), False)
    assert job.details is LINE


@pytest.mark.parametrize("bad", [{}, {**LINE, "nodes": 3}, {**LINE, "phase": None}, {**LINE, "position": "first"}])
def test_an_answer_of_another_shape_is_refused(bad):
    with pytest.raises(InternalError, match=r"the answer is no JobInfo.*\nuse the same version on both sides"):
        job_of(bad)
    with pytest.raises(InternalError, match="the answer is no NodeInfo"):
        checked(bad, NodeInfo)


@pytest.mark.parametrize(
    ("phases", "phase", "ended"),
    [
        (["Succeeded", "Succeeded"], "Succeeded", True),
        (["Succeeded", "Failed"], "Failed", True),
        (["Failed", "Queued"], "Queued", False),
        (["Queued", "Running"], "Running", False),
    ],
)
def test_an_array_sums_up_its_members(phases: list[str], phase: str, ended: bool):
    members = [{**LINE, "id": f"digits-1_{index}", "phase": each} for index, each in enumerate(phases)]
    array = job_of({"id": "digits-1", "members": members})
    assert (array.id, array.name, array.phase, array.has_ended) == ("digits-1", "digits", phase, ended)
    assert [each.id for each in array.members] == ["digits-1_0", "digits-1_1"]


def test_an_explanation_is_readable():
    found = explanation_of({"job": {**LINE, "phase": "Queued", "message": "needs 4 gpu", "reason": "WaitingForQuota"}})
    assert str(found) == "digits-1 Queued: needs 4 gpu"
    assert found.reason == "WaitingForQuota"
