"""The API, asked without a socket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from still import NOW, Still, handed, job

from windlass.core.job import Condition, Dependency
from windlass.jobs.submission import Submission


@pytest.fixture
def still(tmp_path: Path) -> Still:
    return Still(tmp_path / "state")


def error(answer: tuple[int, Any]) -> tuple[int, str]:
    status, body = answer
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message", "fix"}
    return status, body["error"]["code"]


def events(raw: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in raw.decode().splitlines() if line.startswith("data: ")]


def test_ping_says_who_answers_and_for_what(still: Still):
    still.submit(job(), job("big", replicas=2, gpus=4))
    status, facts = still.ask("GET", "/v1/ping")
    assert status == 200
    assert (facts["kind"], facts["nodes"], facts["capacity"]["gpu"]) == ("up", 2, 8)
    assert (facts["holding"], facts["waiting"], facts["trouble"]) == (1, 1, "")


# --- handing in -----------------------------------------------------------------------------------------------


def test_jobs_get_ids_in_order(still: Still):
    assert still.submit(job("a"), job("b"), job("a")) == ["a-1", "b-2", "a-3"]
    _, story = still.ask("GET", "/v1/jobs/a")
    assert (story["id"], story["phase"]) == ("a-3", "Admitted")


def test_an_array_has_one_id_and_its_members_their_indexes(still: Still):
    assert still.submit(Submission(job("sweep"), array=(0, 2), array_limit=1), job("b")) == ["sweep-1", "b-2"]
    _, story = still.ask("GET", "/v1/jobs/sweep")
    assert [(each["id"], each["index"], each["phase"]) for each in story["members"]] == [
        ("sweep-1_0", 0, "Admitted"),
        ("sweep-1_2", 2, "Queued"),
    ]


def test_after_means_jobs_of_the_same_request_first_then_those_on_record(still: Still):
    still.submit(job("prep"), job("old"))
    ran = Condition.FINISHED
    dependent = job("train", after=(Dependency("prep"), Dependency("old", ran)))
    still.submit(Submission(job("prep"), array=(0, 1)), dependent)
    after = still.world.controller.states["train-4"].job.after
    assert after == (Dependency("prep-3_0"), Dependency("prep-3_1"), Dependency("old-2", ran))


def test_one_job_that_can_never_run_refuses_the_whole_request(still: Still):
    status, answer = still.ask("POST", "/v1/jobs", handed(job("fits"), job("never", replicas=3, gpus=4)))
    assert status == 422
    assert answer["error"]["message"].startswith("never can never run here: needs 3×4 gpu as one gang")
    assert "largest gang that fits: 2 replicas of 4 gpu" in answer["error"]["message"]
    assert not still.world.controller.states
    assert still.submit(job("next"))  # and the next request is not hurt


def test_an_unknown_dependency_refuses_it_too(still: Still):
    still.submit(job("prepare"))
    status, answer = still.ask("POST", "/v1/jobs", handed(job("train", after=(Dependency("prepair"),))))
    assert status == 404
    assert "prepare" in answer["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b'{"submissions": []}',
        b'{"submissions": [{"job": {"name": 7}}]}',
        b'{"submissions": [{"job": {"name": "x", "roles": [{"replicas": "many"}]}}]}',
        b'{"submissions": {}, "environment": []}',
        bytes(range(256)),
    ],
)
def test_nonsense_is_a_400_with_words(still: Still, body: bytes):
    status, raw = still.ask_raw("POST", "/v1/jobs", body)
    assert error((status, json.loads(raw))) == (400, "bad_request")


def test_a_request_repeated_after_a_lost_answer_is_the_same_request(still: Still):
    first = still.submit(job("a"), Submission(job("b"), array=(0, 1)), key="k1")
    assert still.submit(job("a"), Submission(job("b"), array=(0, 1)), key="k1", again=True) == first
    assert still.submit(job("a"), key="k2", again=True) == ["a-3"]  # that one never arrived


def test_a_full_disk_is_a_507_and_the_next_request_says_so_at_once(still: Still):
    still.world.full = True
    assert error(still.ask("POST", "/v1/jobs", handed(job()))) == (507, "disk")
    assert error(still.ask("POST", "/v1/jobs", handed(job()))) == (507, "disk")
    still.world.full = False
    still.feed.announce()
    assert still.submit(job("later"))


def test_a_foreground_controller_takes_only_jobs_that_end_with_their_client(tmp_path: Path):
    still = Still(tmp_path / "state", kind="run")
    status, code = error(still.ask("POST", "/v1/jobs", handed(job())))
    assert (status, code) == (503, "no_daemon")
    assert still.submit(job(), owner="1:2:boot") == ["job-1"]
    assert still.world.store.owners() == {"job-1": "1:2:boot"}


def test_one_that_is_leaving_sends_clients_on(still: Still):
    still.submit(job())
    still.feed.close()
    assert error(still.ask("POST", "/v1/jobs", handed(job()))) == (503, "no_daemon")
    assert error(still.ask("POST", "/v1/jobs/job/cancel")) == (503, "no_daemon")


# --- asking ---------------------------------------------------------------------------------------------------


def test_listing_holders_first_then_the_line_then_the_rest(still: Still):
    still.submit(job("held", suspend=True), job("big", 2, 4), job("low", 2, 4), job("high", 2, 4, priority=5))
    _, answer = still.ask("GET", "/v1/jobs")
    assert [(each["id"], each["position"]) for each in answer["jobs"]] == [
        ("big-2", 0),
        ("high-4", 1),
        ("low-3", 2),
        ("held-1", 0),
    ]
    assert answer["jobs"][1]["reason"] == "WaitingForQuota"


def test_listing_by_filters(still: Still):
    still.submit(job("a", user="ann"), job("b", user="bob"), job("c", 2, 4, user="ann"))
    still.world.run_to_end("b-2")

    def ids(query: str) -> list[str]:
        return [each["id"] for each in still.ask("GET", f"/v1/jobs?{query}")[1]["jobs"]]

    assert ids("user=ann") == ["a-1", "c-3"]
    assert ids("phase=Queued,Running") == ["c-3"]
    assert ids("all=1") == ["a-1", "c-3", "b-2"]
    assert ids("limit=1") == ["a-1"]
    assert error(still.ask("GET", "/v1/jobs?limit=few")) == (400, "bad_request")


def test_the_story_of_a_job_that_failed(still: Still):
    still.submit(job())
    still.world.run_to_end("job-1", code=7)
    _, story = still.ask("GET", "/v1/jobs/job")
    assert (story["phase"], story["exit_code"], story["attempts"]) == ("Failed", 7, 1)
    assert [step["after"] for step in story["transitions"]][-1] == "Failed"
    assert story["spec"]["roles"][0]["command"] == ["true"]


def test_why_explains_who_waits_and_only_that(still: Still):
    still.submit(job("big", 2, 4), job("next", gpus=3))
    _, answer = still.ask("GET", "/v1/jobs/next/why")
    explanation = answer["explanation"]
    assert explanation["verdict"]["reason"] == "WaitingForQuota"
    assert [(node["node"], node["free"], node["capacity"]) for node in explanation["nodes"]] == [
        ("n1", 0, 4),
        ("n2", 0, 4),
    ]
    assert [each["job_id"] for each in explanation["frees"]] == ["big-1"]
    assert "explanation" not in still.ask("GET", "/v1/jobs/big/why")[1]


def test_nodes_and_queues_say_what_is_used(still: Still):
    still.submit(job("a", gpus=3), job("b", 2, 4, queue="default"))
    nodes = still.ask("GET", "/v1/nodes")[1]["nodes"]
    assert [(node["name"], node["used"]["gpu"], [held["id"] for held in node["jobs"]]) for node in nodes] == [
        ("n1", 3, ["a-1"]),
        ("n2", 0, []),
    ]
    (queue,) = still.ask("GET", "/v1/queues")[1]["queues"]
    assert (queue["name"], queue["used"]["gpu"], queue["running"], queue["waiting"]) == ("default", 3, 1, 1)


def test_history_is_of_those_that_ended(still: Still):
    still.submit(job("a"), job("b"))
    still.world.run_to_end("a-1")
    assert [each["id"] for each in still.ask("GET", "/v1/history")[1]["jobs"]] == ["a-1"]
    assert still.ask("GET", f"/v1/history?since={NOW + 1}")[1]["jobs"] == []


@pytest.mark.parametrize(
    ("method", "path", "told"),
    [
        ("GET", "/v1/jobs/nonesuch", (404, "no_such_job")),
        ("GET", "/v1/jobs/nonesuch/why", (404, "no_such_job")),
        ("POST", "/v1/jobs/nonesuch/cancel", (404, "no_such_job")),
        ("GET", "/v1/events?job=nonesuch", (404, "no_such_job")),
        ("GET", "/v2/jobs", (404, "bad_request")),
        ("DELETE", "/v1/jobs", (405, "bad_request")),
    ],
)
def test_what_is_not_there_is_told_as_json(still: Still, method: str, path: str, told: tuple[int, str]):
    assert error(still.ask(method, path)) == told


# --- changing -------------------------------------------------------------------------------------------------


def test_cancel_suspend_resume_and_what_cannot_be(still: Still):
    still.submit(job("a"), job("b", suspend=True))
    status, answer = still.ask("POST", "/v1/jobs/b/resume", {"by": "ann"})
    assert (status, answer["jobs"][0]["phase"]) == (200, "Admitted")
    assert error(still.ask("POST", "/v1/jobs/b/resume")) == (409, "wrong_state")
    still.ask("POST", "/v1/jobs/a/cancel", {"by": "ann"})
    assert still.world.controller.states["a-1"].status.message == "cancelled by ann"
    still.world.run_to_end("a-1")
    assert error(still.ask("POST", "/v1/jobs/a/cancel")) == (409, "wrong_state")
    assert error(still.ask("POST", "/v1/jobs/b/explode")) == (400, "bad_request")


def test_cancel_now_cuts_the_grace_short(still: Still):
    still.submit(job(grace=3_600_000))
    still.ask("POST", "/v1/jobs/job/cancel", {"now": True})
    assert [(command.job_id, command.grace) for command in still.world.performed] == [("job-1", 0)]


def test_an_array_is_cancelled_as_one(still: Still):
    still.submit(Submission(job("sweep", gpus=4), array=(0, 1, 2)))
    _, answer = still.ask("POST", "/v1/jobs/sweep-1/cancel")
    assert [each["id"] for each in answer["jobs"]] == ["sweep-1_0", "sweep-1_1", "sweep-1_2"]


# --- following ------------------------------------------------------------------------------------------------


def test_events_tell_a_life_and_end_with_it(still: Still):
    still.submit(job("a"), job("b"))
    still.world.run_to_end("a-1")
    status, raw = still.ask_raw("GET", "/v1/events?job=a")
    told = events(raw)
    assert status == 200
    assert [each["after"] for each in told if each["type"] == "transition"][:4] == [
        "Created",
        "Queued",
        "Admitted",
        "Running",
    ]
    assert {each["job_id"] for each in told if each["type"] == "transition"} == {"a-1"}
    assert [each["type"] for each in told[-2:]] == ["end", "all ended"]
    assert told[-2]["job"]["exit_code"] == 0


def test_events_go_on_where_a_follower_was_cut_off(still: Still):
    still.submit(job("a"))
    still.world.run_to_end("a-1")
    whole = [each for each in events(still.ask_raw("GET", "/v1/events?job=a")[1]) if each["type"] == "transition"]
    seen = whole[1]["number"]
    rest = events(still.ask_raw("GET", "/v1/events?job=a", last_event_id=str(seen))[1])
    assert [each["number"] for each in rest if each["type"] == "transition"] == [each["number"] for each in whole[2:]]
    assert error(still.ask("GET", "/v1/events?job=a", last_event_id="x")) == (400, "bad_request")


def test_down_tells_who_goes_on(still: Still):
    still.submit(job())
    assert still.ask("POST", "/v1/down", {"keep_jobs": True})[1]["jobs"] == ["job-1"]
