"""Answers about checkpoints of a cluster's jobs, which the operator does not read."""

from types import SimpleNamespace
from typing import Any

import pytest

from windlass.core.model.job import Job, Role
from windlass.server.operator.dashboard.cluster_checkpoints import describe_checkpoints

VARIABLE = "WINDLASS_CHECKPOINTS"


def job(**env: str) -> Job:
    return Job("digits", (Role("worker", env=env),))


def gang_with(*containers: Any) -> Any:
    template = {"spec": {"containers": list(containers)}}
    return SimpleNamespace(parsed=SimpleNamespace(replicas=[SimpleNamespace(type="Worker", template=template)]))


@pytest.mark.parametrize(("place", "is_folder"), [("/data/digits", True), ("s3://bucket/digits", False), ("", False)])
def test_the_place_is_that_of_the_environment(place: str, is_folder: bool):
    found = describe_checkpoints(job(**{VARIABLE: place}), None, None)
    assert (found["place"], found["is_folder"], found["newest_at"]) == (place, is_folder, None)


def test_the_place_of_other_kinds_is_in_their_pod_templates():
    named = {"name": "pytorch", "env": [{"name": "A", "value": "b"}, {"name": VARIABLE, "value": "/data"}]}
    assert describe_checkpoints(job(), gang_with({"name": "log"}, named), None)["place"] == "/data"
    secret = {"name": "pytorch", "env": [{"name": VARIABLE, "valueFrom": {"secretKeyRef": {}}}]}
    assert describe_checkpoints(job(), gang_with(secret), None)["place"] == ""


def test_a_password_in_the_place_is_hidden():
    found = describe_checkpoints(job(**{VARIABLE: "https://ada:s3cret@store/run"}), None, None)
    assert found["place"] == "https://ada:***@store/run"


def test_the_newest_one_is_that_of_the_reports():
    assert describe_checkpoints(job(), None, {"checkpoint_at": 1_000.4})["newest_at"] == 1_000
    assert describe_checkpoints(job(), None, {"checkpoint_at": None})["newest_at"] is None
