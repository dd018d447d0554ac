"""States are written conditionally into their objects; a state of another writer there is replaced."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import replace
from typing import Any, cast

import pytest

from windlass.backends.kubernetes.client.api_errors import ApiError, Unreachable
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.object_reference import reference_to
from windlass.backends.kubernetes.client.resources import named
from windlass.backends.kubernetes.gangs.gang import Gang, ObjectVersion
from windlass.backends.kubernetes.gangs.stored_state import FIELD, Stored, read, to_patch
from windlass.backends.kubernetes.status import state_writes
from windlass.core.model.status import JobState, Phase, Placement, Status
from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.settings import Settings

TRAINING = named("windlass.dev/v1alpha1", "trainingjobs", "TrainingJob")
QUEUED, RUNNING = Status(phase=Phase.QUEUED), Status(phase=Phase.RUNNING)


class Server:
    """One object. It accepts a status that names its version, except for the fields of `refuses`."""

    def __init__(self, refuses: tuple[str, ...] = ()) -> None:
        metadata = {"name": "digits", "namespace": "ml", "uid": "u1", "resourceVersion": "1", "generation": 1}
        spec = {"image": "x", "command": "python train.py"}
        self.object: dict[str, Any] = {
            "apiVersion": "windlass.dev/v1alpha1",
            "kind": "TrainingJob",
            "metadata": metadata,
            "spec": spec,
        }
        self.refuses = refuses
        self.asked: list[str] = []

    def change(self, **status: Any) -> None:
        version = str(int(self.object["metadata"]["resourceVersion"]) + 1)
        self.object["metadata"] = {**self.object["metadata"], "resourceVersion": version}
        before = self.object.get("status", {})
        merged = {name: {**before.get(name, {}), **value} for name, value in status.items() if name == FIELD}
        self.object["status"] = {**before, **status, **merged}

    async def get(self, *_: object, **_limits: Any) -> dict[str, Any]:
        self.asked.append("get")
        return copy.deepcopy(self.object)

    async def patch(self, *about: Any, subresource: str, **_limits: Any) -> dict[str, Any]:
        assert subresource == "status"
        body = about[-1]
        self.asked.append("patch")
        if body["metadata"]["resourceVersion"] != self.object["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict")
        if any(field in body["status"] for field in self.refuses):
            raise ApiError(422, "Invalid")
        self.change(**body["status"])
        return copy.deepcopy(self.object)


def gang_of(server: Server) -> Gang:
    parsed = registry.read(copy.deepcopy(server.object), Settings())
    assert isinstance(parsed, ParsedJob)
    return Gang(reference_to(TRAINING, server.object), parsed, parsed.job, 7, version=ObjectVersion(1))


def write(server: Server, gang: Gang, status: Status, **status_fields: Any) -> bool:
    state = JobState(gang.id, gang.number, gang.job, status)
    return asyncio.run(state_writes.write_state(cast("Connection", server), gang, state, status_fields))


def test_a_state_is_written_once() -> None:
    server = Server()
    gang = gang_of(server)
    write(server, gang, QUEUED)
    write(server, gang, QUEUED)
    assert server.asked == ["patch"]
    assert server.object["status"][FIELD]["revision"] == 1


def test_a_change_by_another_writer_does_not_prevent_the_write() -> None:
    server = Server()
    gang = gang_of(server)
    server.change(replicas=3)
    write(server, gang, QUEUED)
    assert server.asked == ["patch", "get", "patch"]
    assert server.object["status"]["replicas"] == 3


PLACED = Status(phase=Phase.RUNNING, generation=1, placement=Placement({"worker": ("n1",)}))
FOREIGN = [
    to_patch(Stored(7, 2, RUNNING)),
    to_patch(Stored(7, 1, RUNNING)),
    to_patch(Stored(99, 10**9, Status(placement=Placement({"worker": ("n9",)})))),
    {"revision": "?"},
    {"revision": 2**63 - 1},
    {"state": "["},
    {"placements": "{}", "number": 8},
    {"number": None, "state": None},
]


@pytest.mark.parametrize("watched", [False, True], ids=["unseen", "seen by the watch"])
@pytest.mark.parametrize("foreign", FOREIGN, ids=str)
@pytest.mark.parametrize("first", [QUEUED, PLACED], ids=["without a placement", "placed"])
def test_a_state_of_another_writer_is_replaced(watched: bool, foreign: dict[str, Any], first: Status) -> None:
    server = Server()
    gang = gang_of(server)
    write(server, gang, first)
    server.change(**{FIELD: foreign})
    if watched:
        gang.learn(server.object)
    last = replace(first, message="later")
    assert write(server, gang, last)
    found = read(server.object["status"][FIELD])
    assert found is not None
    assert (found.number, found.status) == (7, last)
    assert gang.takes_known_state()
    assert not write(server, gang, QUEUED), "it is replaced once"


@pytest.mark.parametrize("foreign", FOREIGN, ids=str)
def test_a_state_of_another_writer_is_replaced_also_where_the_job_does_not_change(foreign: dict[str, Any]) -> None:
    server = Server()
    gang = gang_of(server)
    write(server, gang, PLACED)
    server.change(**{FIELD: foreign})
    gang.learn(server.object)
    asyncio.run(state_writes.write_status(cast("Connection", server), gang, lambda: {"replicas": 1}))
    found = read(server.object["status"][FIELD])
    assert found is not None
    assert (found.number, found.status, server.object["status"]["replicas"]) == (7, PLACED, 1)


def test_a_state_that_stands_in_a_new_object_is_replaced_by_the_first_one() -> None:
    server = Server()
    gang = gang_of(server)
    server.change(**{FIELD: to_patch(Stored(1, 5, PLACED))})
    assert write(server, gang, QUEUED)
    assert read(server.object["status"][FIELD]) == Stored(7, 1, QUEUED)


def test_a_writer_that_changes_the_state_again_and_again_fails_the_write_of_this_job_only() -> None:
    server = Server()
    gang = gang_of(server)
    write(server, gang, QUEUED)
    read_object = server.get

    async def changes(*about: Any, within: float) -> dict[str, Any]:
        if within < 0.01:
            raise Unreachable("no answer in time")
        found = await read_object(*about)
        server.change(**{FIELD: {"revision": 5}})
        await asyncio.sleep(0.5)
        return found

    server.get = changes  # type: ignore[method-assign, assignment]
    server.change(replicas=1)
    with pytest.raises(Unreachable):
        write(server, gang, RUNNING)


def test_an_attempt_whose_answer_was_lost_counts() -> None:
    server = Server()
    gang = gang_of(server)
    server.change(**{FIELD: to_patch(Stored(7, 1, QUEUED))})
    write(server, gang, QUEUED)
    assert gang.stored == Stored(7, 1, QUEUED)
    write(server, gang, RUNNING)
    assert server.asked == ["patch", "get", "patch"]


def test_a_state_whose_write_failed_and_was_carried_out_is_followed_by_the_next() -> None:
    server = Server()
    gang = gang_of(server)
    patch = server.patch

    async def fails(*about: Any, subresource: str, **_limits: Any) -> dict[str, Any]:
        await patch(*about, subresource=subresource)
        raise ApiError(500, "InternalError")

    server.patch = fails  # type: ignore[method-assign]
    with pytest.raises(ApiError):
        write(server, gang, QUEUED)
    server.patch = patch  # type: ignore[method-assign]
    write(server, gang, RUNNING)
    assert (gang.stored.revision, gang.stored.status.phase) == (2, Phase.RUNNING) if gang.stored else False
    assert server.object["status"][FIELD]["phase"] == "Running"


def test_the_state_is_written_also_where_the_rest_of_the_status_is_refused() -> None:
    server = Server(refuses=("conditions",))
    write(server, gang_of(server), QUEUED, conditions=[{"type": "Odd"}])
    assert server.object["status"][FIELD]["phase"] == "Queued"
    assert "conditions" not in server.object["status"]
