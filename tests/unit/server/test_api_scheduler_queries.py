"""Queries of the scheduler as a whole: reservations, shares, snapshots, and hypothetical jobs."""

from __future__ import annotations

import pytest
from tests.unit.server.conftest import NOON

from windlass.core.cycle.scheduler import schedule
from windlass.core.lifecycle.events import Started
from windlass.jobs.cluster.snapshot_file import decisions_of, from_plain

HOUR = 3_600_000


def reserve(daemon, name="exam", **asked):
    given = {"start": NOON + HOUR, "end": NOON + 2 * HOUR, "queues": ["research"], **asked}
    if "nodes" not in given and "count" not in given:
        given["count"] = 1
    return daemon.post("/v1/reservations", {"name": name, **given})


def reserved(daemon):
    return {each["name"]: each for each in daemon.get("/v1/reservations").json["reservations"]}


# --- reservations -------------------------------------------------------------------------------------


def test_named_nodes_are_kept_for_a_queue(daemon):
    made = reserve(daemon, nodes=["n2"])
    assert made.status == 201
    assert (made.json["nodes"], made.json["queues"], made.json["state"]) == (["n2"], ["research"], "to come")
    assert list(reserved(daemon)) == ["exam"]
    assert daemon.controller.snapshot().reservations[0].nodes == ("n2",)


def test_nodes_are_chosen_where_the_fewest_jobs_would_still_run(daemon, job):
    daemon.submit(job("long", gpu=3))
    daemon.happen("long-1", Started(1))
    assert reserve(daemon, count=1, gpus=4).json["nodes"] == ["n2"]


def test_a_reservation_lists_the_jobs_that_would_still_run(daemon, job):
    daemon.submit(job("short", walltime=HOUR // 2), job("long", gpu=1))
    made = reserve(daemon, nodes=["n1", "n2"]).json
    assert [run["id"] for run in made["running"]] == ["long-2"]


def test_a_reservation_outlives_a_crash_until_it_is_deleted(daemon, open_daemon):
    reserve(daemon, nodes=["n2"])
    again = open_daemon()
    assert list(reserved(again)) == ["exam"]
    assert again.delete("/v1/reservations/exam").json == {"name": "exam"}
    assert reserved(again) == {}
    assert again.controller.snapshot().reservations == ()


def test_a_reservation_that_is_over_is_not_listed(daemon):
    reserve(daemon, nodes=["n2"])
    daemon.backend.clock += 2 * HOUR
    assert reserved(daemon) == {}
    assert reserve(daemon, nodes=["n2"], start=daemon.backend.clock, end=daemon.backend.clock + 1).status == 201


@pytest.mark.parametrize(
    ("asked", "status", "message"),
    [
        ({"nodes": ["n2"]}, 409, "there is a reservation 'exam' already"),
        ({"name": "b", "nodes": ["n1", "n2"]}, 409, "n2: reserved as 'exam' at that time already"),
        ({"name": "b", "count": 2}, 409, "1 node could be reserved for that time, not 2"),
        ({"name": "b", "count": 1, "gpus": 9}, 409, "0 nodes with 9 GPUs could be reserved for that time, not 1"),
        ({"name": "b", "nodes": ["n9"]}, 400, "there is no node 'n9'; valid are n1, n2"),
        ({"name": "b", "queues": ["reserch"]}, 400, "there is no queue 'reserch'; did you mean 'research'?"),
        ({"name": "b", "queues": []}, 400, "a reservation is either for queues or users, or for maintenance"),
        ({"name": "b", "maintenance": True}, 400, "a reservation is either for queues or users, or for maintenance"),
        ({"name": "b", "end": NOON}, 400, "the reservation ends before it begins"),
        ({"name": "b", "start": 1, "end": 2}, 400, "the reservation is over already"),
        ({"name": "b", "nodes": ["n1"], "count": 1}, 400, "either nodes or their number must be given"),
        ({"name": "B!"}, 400, "'B!' is not a valid name of a reservation"),
        ({"name": "b", "start": "soon"}, 400, "this is not a reservation: Expected `int`, got `str` - at `$.start`"),
    ],
)
def test_an_impossible_reservation_is_refused_with_a_reason(daemon, asked, status, message):
    reserve(daemon, nodes=["n2"])
    refused = reserve(daemon, **{"name": "exam", **asked})
    assert refused.error[0] == status
    assert refused.error[2].startswith(message)
    assert list(reserved(daemon)) == ["exam"]


def test_an_unknown_reservation_cannot_be_deleted(daemon):
    assert daemon.delete("/v1/reservations/exam").error[0] == 404


# --- shares and snapshots -----------------------------------------------------------------------------


def test_shares_list_the_usage_and_next_job_of_every_queue(daemon, job):
    daemon.submit(job("one", gpu=4, replicas=2), job("two", queue="research"))
    found = {each["queue"]: each for each in daemon.get("/v1/shares").json["queues"]}
    assert list(found) == ["default", "idle", "research"]
    assert (found["default"]["held"], found["default"]["running"]) == ({"gpu": 8}, 1)
    assert (found["research"]["next"], found["research"]["waiting"]) == ("two-2", 1)


def test_a_snapshot_reproduces_its_plan(daemon, job):
    daemon.submit(job("one", gpu=3, replicas=2), job("two", gpu=2), job("three"))
    taken = from_plain(daemon.get("/v1/snapshot?planned=1").json)
    assert list(taken.plan.admissions) == ["one-1", "three-3"]
    assert decisions_of(schedule(taken.snapshot, taken.now)) == taken.plan
    now = from_plain(daemon.get("/v1/snapshot").json)
    assert (now.plan, sorted(now.snapshot.running)) == (None, ["one-1", "three-3"])


# --- explanations ----------------------------------------------------------------------------------------------


def test_the_explanation_of_all_has_a_line_for_each_pending_job(daemon, job):
    daemon.submit(job("one", gpu=3, replicas=2), job("two", gpu=2), job("three", gpu=2, replicas=2))
    found = daemon.get("/v1/why").json["jobs"]
    assert sorted(each["id"] for each in found) == ["three-3", "two-2"]
    assert all(each["reason"] and each["message"] for each in found)
    assert {each["id"]: each["would_start"] for each in found} == {"two-2": ["as 2×1 gpu"], "three-3": []}


def test_a_node_lists_its_reservations(daemon):
    end = NOON + 3_600_000
    for name, node, start, whom in (
        ("repair", "n1", NOON, {"maintenance": True}),
        ("exam", "n2", NOON + 60_000, {"queues": ["research"]}),
    ):
        body = {"name": name, "nodes": [node], "start": start, "end": end, **whom}
        assert daemon.post("/v1/reservations", body).status == 201
    assert [node["state"] for node in daemon.get("/v1/nodes").json["nodes"]] == ["maintenance", "ready"]
    daemon.backend.clock += 60_000
    nodes = daemon.get("/v1/nodes").json["nodes"]
    assert [node["state"] for node in nodes] == ["maintenance", "reserved"]
    assert [kept["name"] for node in nodes for kept in node["reservations"]] == ["repair", "exam"]
    daemon.backend.clock = end
    assert [node["state"] for node in daemon.get("/v1/nodes").json["nodes"]] == ["ready", "ready"]


@pytest.mark.parametrize(("what_if", "starts"), [("gpus=1", True), ("gpus=2 queue=research", False)])
def test_a_hypothetical_job_is_explained_with_its_start(daemon, job, what_if, starts):
    daemon.submit(job("one", gpu=3, replicas=2), job("two", gpu=2))
    found = daemon.get(f"/v1/jobs/two/why?what_if={what_if.replace(' ', '%20')}").json
    assert found["supposed"]
    assert (found["explanation"]["verdict"] is None) == starts
    assert (found["explanation"]["expected"] == NOON) == starts
    assert daemon.phase("two") == "Queued"


@pytest.mark.parametrize(
    ("what_if", "status", "message"),
    [
        ("gpus=9", 422, "such a job could never run here: "),
        ("color=red", 400, "--what-if 'color' is nothing that could be asked for otherwise"),
        ("gpus", 400, "--what-if 'gpus' is no change; write for example gpus=2"),
        ("gpus=two", 400, "--what-if gpus is a number, not 'two'"),
        ("time=0s", 400, "--what-if expects more than no time at all"),
    ],
)
def test_an_impossible_hypothetical_job_is_refused(daemon, job, what_if, status, message):
    daemon.submit(job("one", gpu=4, replicas=2), job("two"))
    refused = daemon.get(f"/v1/jobs/two/why?what_if={what_if}").error
    assert refused[0] == status
    assert refused[2].startswith(message)


def test_only_pending_jobs_can_be_hypothetical(daemon, job):
    daemon.submit(job("one"))
    assert daemon.get("/v1/jobs/one/why?what_if=gpus=2").error == (
        409,
        "wrong_state",
        "one-1 is not pending but Admitted",
    )


def test_the_explanation_names_the_reservation_of_a_node(daemon, job):
    reserve(daemon, nodes=["n1"])
    daemon.submit(job("one", gpu=4), job("two", gpu=4))
    nodes = daemon.get("/v1/jobs/two/why").json["explanation"]["nodes"]
    assert [(node["node"], node["held_for"]) for node in nodes] == [("n1", "reservation exam"), ("n2", "")]


# --- several jobs at once ----------------------------------------------------------------------------------


def test_several_jobs_are_cancelled_by_one_request(daemon, job):
    daemon.submit(job("one", gpu=4, replicas=2), job("two"), job("three"))
    answer = daemon.post("/v1/cancel", {"jobs": ["two", "nobody", "three", "two-2"], "by": "ada"}).json
    assert [line["id"] for line in answer["jobs"]] == ["two-2", "three-3"]
    assert [error["code"] for error in answer["errors"]] == ["no_such_job"]
    assert daemon.post("/v1/cancel", {"jobs": ["two"]}).json["errors"][0]["code"] == "wrong_state"
    assert daemon.post("/v1/cancel", {"jobs": "two"}).error[0] == 400


def test_a_job_cancelled_with_the_job_before_it_never_starts(daemon, job):
    daemon.submit(job("one", gpu=4))
    daemon.submit(job("two", gpu=4, replicas=2), job("three", gpu=4))
    assert [daemon.phase(name) for name in ("one", "two", "three")] == ["Admitted", "Queued", "Queued"]
    daemon.post("/v1/cancel", {"jobs": ["two", "three"]})
    steps = daemon.get("/v1/jobs/three").json["transitions"]
    assert [step["after"] for step in steps] == ["Created", "Queued", "Failed"]
