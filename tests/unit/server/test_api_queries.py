"""Queries of a daemon on a real database."""

from __future__ import annotations

import os

import pytest

import windlass
from windlass.backends.local.state_reader import Task
from windlass.backends.local.state_store import Notes
from windlass.core.lifecycle.events import Cancel, Exit, GangGone, MemberExited, Started, Suspend
from windlass.core.model.job import ArrayMember, Job, Role
from windlass.jobs.description.submission import Submission
from windlass.server.job_lines import job_line
from windlass.server.local_data_source import LocalDataSource


@pytest.fixture
def crowded(daemon, job):
    """A daemon where `one` holds all but one slot of each node, and `two` and `three` need more, in this order."""
    daemon.submit(job("one", gpu=3, replicas=2, queue="research"))
    daemon.submit(job("two", gpu=2, user="bob"), job("three", gpu=2, queue="research"))
    return daemon


def ids(answer) -> list[str]:
    assert answer.status == 200
    return [each["id"] for each in answer.json["jobs"]]


def test_ping_describes_the_daemon_and_its_cluster(crowded):
    facts = crowded.get("/v1/ping").json
    assert facts["version"] == windlass.__version__
    assert facts["pid"] == os.getpid()
    assert (facts["kind"], facts["trouble"]) == ("up", "")
    assert (facts["nodes"], facts["capacity"]["gpu"]) == (2, 8)
    assert (facts["holding"], facts["waiting"]) == (1, 2)


def test_jobs_that_hold_nodes_come_first_then_the_queue(crowded, job):
    crowded.submit(job("urgent", gpu=4, priority=9))
    crowded.happen("three-3", Suspend("ada"))
    assert ids(crowded.get("/v1/jobs")) == ["one-1", "urgent-4", "two-2", "three-3"]
    rows = crowded.get("/v1/jobs").json["jobs"]
    assert [row["position"] for row in rows] == [0, 1, 2, 0]
    assert rows[0]["nodes"] == ["n1", "n2"]
    assert (rows[2]["reason"], rows[2]["message"][:7]) == ("TopologyPlacementFailed", "needs 2")
    assert rows[2]["eta"] is None  # the total of free slots would suffice


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("user=bob", ["two-2"]),
        ("queue=research", ["one-1", "three-3"]),
        ("name=one,three", ["one-1", "three-3"]),
        ("phase=Queued", ["two-2", "three-3"]),
        ("phase=Admitted,Running", ["one-1"]),
        ("phase=Queued&user=ada", ["three-3"]),
        ("limit=1", ["one-1"]),
        ("user=nobody", []),
        ("name=", ["one-1", "two-2", "three-3"]),
    ],
)
def test_filters(crowded, query, found):
    assert ids(crowded.get(f"/v1/jobs?{query}")) == found


def test_lines_have_the_fields_that_are_asked_for(crowded):
    rows = crowded.get("/v1/jobs?fields=id,phase,workdir").json["jobs"]
    assert rows[0] == {"id": "one-1", "phase": "Admitted", "workdir": ""}
    refused = crowded.get("/v1/jobs?fields=id,colour")
    assert (refused.status, refused.json["error"]["message"]) == (400, "no field of a job is named 'colour'")


def test_a_kept_line_follows_its_job(crowded):
    def phases():
        return {row["id"]: row["phase"] for row in crowded.get("/v1/jobs?fields=id,phase").json["jobs"]}

    before = phases()
    crowded.happen("two-2", Suspend("ada"))
    assert phases() == {**before, "two-2": "Suspended"}


def test_ended_jobs_are_listed_on_request(crowded):
    crowded.happen("two-2", Cancel("ada"))
    assert ids(crowded.get("/v1/jobs")) == ["one-1", "three-3"]
    assert ids(crowded.get("/v1/jobs?all=1")) == ["one-1", "three-3", "two-2"]
    assert ids(crowded.get("/v1/jobs?all=1&user=bob")) == ["two-2"]
    assert ids(crowded.get("/v1/jobs?all=1&limit=1")) == ["one-1"]
    assert ids(crowded.get("/v1/jobs?all=1&phase=Cancelled")) == ["two-2"]
    assert ids(crowded.get("/v1/jobs?all=1&phase=Failed,Running")) == ["two-2"]


def test_ended_jobs_of_a_requested_phase_are_listed_however_many_ended_since(crowded):
    crowded.happen("two-2", Cancel("ada"))
    crowded.happen("three-3", Cancel("ada"))
    crowded.happen("one-1", Started(1), MemberExited(1, 0, Exit(1)), GangGone(1))
    assert ids(crowded.get("/v1/jobs?phase=Cancelled&user=bob&limit=1")) == ["two-2"]
    assert ids(crowded.get("/v1/jobs?phase=Failed")) == ["three-3", "two-2", "one-1"]
    assert ids(crowded.get("/v1/jobs?phase=Succeeded")) == []
    assert ids(crowded.get("/v1/jobs")) == []


@pytest.mark.parametrize(
    "path", ["/v1/jobs?limit=ten", "/v1/history?since=-1", "/v1/history?limit=1.5", f"/v1/history?since={10**30}"]
)
def test_an_invalid_number_is_refused(daemon, path):
    status, code, message = daemon.get(path).error
    assert (status, code) == (400, "bad_request")
    assert "is a number, not" in message


def test_history_lists_the_last_to_end_first(daemon, job):
    daemon.submit(job("a"), job("b", user="bob"), job("c"))
    for minute, (job_id, code) in enumerate((("b-2", 0), ("a-1", 3))):
        daemon.backend.clock += 60_000 * minute
        daemon.end(job_id, Exit(code))
    assert ids(daemon.get("/v1/history")) == ["a-1", "b-2"]
    assert [row["exit_code"] for row in daemon.get("/v1/history").json["jobs"]] == [3, 0]
    assert ids(daemon.get("/v1/history?user=bob")) == ["b-2"]
    assert ids(daemon.get("/v1/history?name=a")) == ["a-1"]
    assert ids(daemon.get("/v1/history?limit=1")) == ["a-1"]
    assert ids(daemon.get(f"/v1/history?since={daemon.backend.clock}")) == ["a-1"]


# --- one job ------------------------------------------------------------------------------------------


def test_a_job_is_found_by_id_and_by_name_and_the_latest_ended_wins(daemon, job):
    for number in (1, 2):
        daemon.submit(job())
        daemon.end(f"digits-{number}", Exit(0))
    assert daemon.get("/v1/jobs/digits").json["id"] == "digits-2"
    assert daemon.get("/v1/jobs/digits-1").json["id"] == "digits-1"


def test_a_name_of_several_living_jobs_is_an_error_that_lists_their_ids(daemon, job):
    daemon.submit(job(), job())
    status, code, message = daemon.get("/v1/jobs/digits").error
    assert (status, code) == (404, "no_such_job")
    assert message == "'digits' may be any of 2 living jobs: digits-1, digits-2; use an id"


@pytest.mark.parametrize("path", ["/v1/jobs/digts", "/v1/jobs/digts/why", "/v1/events?job=digts"])
def test_an_unknown_job_is_refused_with_the_nearest_names(daemon, job, path):
    daemon.submit(job())
    status, code, message = daemon.get(path).error
    assert (status, code) == (404, "no_such_job")
    assert message.startswith("no job is called 'digts'; did you mean digits")


def test_job_details_contain_spec_ranks_transitions_and_rank_resources(daemon, job):
    daemon.submit(job(gpu=2, labels={"größe": "漢字"}))
    daemon.backend.store.note(Notes(tasks=[Task("digits-1", 1, 0, "worker", 0, "n1")]))
    daemon.end("digits-1", Exit(3))
    story = daemon.get("/v1/jobs/digits").json
    assert story["spec"]["labels"] == {"größe": "漢字"}
    assert [task["node"] for task in story["tasks"]] == ["n1"]
    way = dict.fromkeys(step["after"] for step in story["transitions"])
    assert list(way) == ["Created", "Queued", "Admitted", "Running", "Failed"]
    assert "2 CPU slots stand in for GPUs" in story["rank_resources"]
    assert story["status"]["last_failure"]["exit_code"] == story["exit_code"] == 3


def test_the_share_of_cores_is_shown_of_the_cluster_that_the_job_ran_on(daemon, job):
    daemon.submit(job(gpu=2))
    daemon.backend.store.note(Notes(tasks=[Task("digits-1", 1, 0, "worker", 0, "n1")]))
    lines = daemon.get("/v1/jobs/digits").json["rank_resources"]
    assert [line.partition("=")[0] for line in lines] == ["OMP_NUM_THREADS", "2 CPU slots stand in for GPUs"]
    daemon.end("digits-1", Exit(0))
    assert daemon.get("/v1/jobs/digits").json["rank_resources"] == lines
    daemon.backend.clock += 1
    later, store = LocalDataSource(daemon.backend), daemon.backend.store
    assert later.rank_resources(store.job("digits-1"), store.tasks("digits-1")) == ["2 CPU slots stand in for GPUs"]


def test_an_array_is_listed_by_its_members(daemon, job):
    daemon.submit(Submission(job("sweep", gpu=4), array=(0, 1, 5)))
    found = daemon.get("/v1/jobs/sweep").json
    assert found["id"] == "sweep"
    assert [(each["id"], each["index"], each["phase"]) for each in found["members"]] == [
        ("sweep-1_0", 0, "Admitted"),
        ("sweep-1_1", 1, "Admitted"),
        ("sweep-1_5", 5, "Queued"),
    ]
    assert daemon.get("/v1/jobs/sweep-1_5").json["array"] == "sweep-1"


def test_an_explanation_counts_missing_resources_and_names_jobs_that_free_them(crowded):
    answer = crowded.get("/v1/jobs/three/why").json
    assert (answer["job"]["id"], answer["job"]["position"]) == ("three-3", 2)
    found = answer["explanation"]
    assert found["ahead"] == ["two-2"]
    assert [node["free"] for node in found["nodes"]] == [1, 1]
    assert found["verdict"]["reason"] == answer["job"]["reason"]


def test_every_listing_and_the_explanation_name_the_same_start(daemon, job):
    daemon.submit(job("half", gpu=3, replicas=2, walltime=3_600_000), job("whole", gpu=4, replicas=2))
    daemon.submit(job("next", gpu=4, walltime=600_000))
    daemon.backend.clock += 90_000  # since the plan was made
    for name in ("whole", "next"):
        listed = next(row for row in daemon.get("/v1/jobs").json["jobs"] if row["name"] == name)
        all_that_wait = next(row for row in daemon.get("/v1/why").json["jobs"] if row["name"] == name)
        answer = daemon.get(f"/v1/jobs/{name}/why").json
        found = answer["explanation"]
        starts = {listed["eta"], all_that_wait["eta"], answer["job"]["eta"], found["expected"], found["verdict"]["eta"]}
        assert len(starts - {None}) == 1
        assert len(starts) == 1
        assert listed["certainty"] == found["verdict"]["certainty"]


def test_a_pending_job_that_no_longer_fits_gets_the_largest_job_that_would(crowded):
    assert crowded.get("/v1/prospects/two").json == {"id": "two-2", "never": ""}

    crowded.shrink(to=1)  # GPU on each node, one fewer than each replica needs

    never = crowded.get("/v1/prospects/two").json["never"]
    assert never.startswith("can never run on the existing nodes and queues: needs 2")
    assert never.endswith("; largest gang that fits: 1 replica of 1 gpu")
    assert crowded.get("/v1/jobs/two/why").json["explanation"]["never"] == never


def test_a_running_job_is_not_impossible(crowded):
    crowded.shrink(to=1)
    assert crowded.get("/v1/prospects/one").json == {"id": "one-1", "never": ""}


def test_the_explanation_of_a_running_job_is_only_its_line(crowded):
    answer = crowded.get("/v1/jobs/one/why").json
    assert answer["job"]["phase"] == "Admitted"
    assert "explanation" not in answer


def test_the_explanation_of_an_array_is_of_a_pending_member(daemon, job):
    daemon.submit(Submission(job("sweep", gpu=4), array=(0, 1, 5)))
    assert daemon.get("/v1/jobs/sweep/why").json["job"]["id"] == "sweep-1_5"


# --- nodes and queues ---------------------------------------------------------------------------------


def test_nodes_list_capacity_and_the_jobs_that_hold_it(crowded):
    n1, n2 = crowded.get("/v1/nodes").json["nodes"]
    assert (n1["name"], n1["state"], n1["capacity"]["gpu"], n1["used"]["gpu"]) == ("n1", "ready", 4, 3)
    assert n1["jobs"] == n2["jobs"] == [{"id": "one-1", "holds": {"gpu": 3}}]


def test_a_node_that_shares_gpus_counts_whole_and_partial_ones_together(open_daemon, job):
    daemon = open_daemon(sharing="milli")
    half = Role(resources={"gpu-milli": 500}, command=("true",))
    daemon.submit(job("whole", gpu=2), Job("half", (half,)))
    nodes = daemon.get("/v1/nodes").json["nodes"]
    assert {node["capacity"]["gpu-milli"] for node in nodes} == {4_000}
    assert sorted(node["used"]["gpu-milli"] for node in nodes) in ([0, 2_500], [500, 2_000])


def test_queues_list_quota_and_usage(crowded):
    found = {each["name"]: each for each in crowded.get("/v1/queues").json["queues"]}
    assert list(found) == ["default", "idle", "research"]
    assert (found["research"]["running"], found["research"]["waiting"], found["research"]["used"]) == (1, 1, {"gpu": 6})
    assert (found["default"]["running"], found["default"]["waiting"]) == (0, 1)
    assert found["idle"]["quota"] == {"gpu": 1}


# --- exit codes ---------------------------------------------------------------------------------------


def test_the_exit_code_of_a_job_is_that_of_the_rank_that_ended_it(daemon, job):
    daemon.submit(job("good"), job("bad"), job("killed"), job("cancelled"), job("runs"))
    daemon.end("good-1", Exit(0))
    daemon.end("bad-2", Exit(41))
    daemon.end("killed-3", Exit(signal=11))
    daemon.happen("cancelled-4", Cancel("ada"))
    codes = {row["name"]: row["exit_code"] for row in daemon.get("/v1/jobs?all=1").json["jobs"]}
    assert codes == {"good": 0, "bad": 41, "killed": 139, "cancelled": None, "runs": None}


def test_a_line_of_an_elastic_job_has_its_bounds(daemon, job):
    role = Role(replicas=2, min_replicas=1, max_replicas=9, resources={"gpu": 1}, command=("true",))
    daemon.submit(Job("elastic", (role,)), job("plain"))
    rows = daemon.get("/v1/jobs").json["jobs"]
    assert [row["elastic"] for row in rows] == [[1, 9], None]


def test_a_line_has_the_same_fields_for_every_job(daemon, job):
    daemon.submit(job("plain"), Submission(job("sweep"), array=(3,)))
    rows = daemon.get("/v1/jobs").json["jobs"]
    state = daemon.backend.store.job("plain-1")
    assert list(rows[0]) == list(rows[1]) == list(job_line(state))
    assert state.job.array is None
    assert daemon.backend.store.job("sweep-2_3").job.array == ArrayMember("sweep-2", 3)


def test_a_listing_has_the_last_nodes_of_ended_jobs_on_request(daemon, job):
    daemon.submit(job("one"))
    daemon.backend.store.note(Notes(tasks=[Task("one-1", 1, 0, "worker", 0, "n2")]))
    daemon.happen("one-1", Cancel("ada"))
    daemon.happen("one-1", GangGone(1))
    [line] = daemon.get("/v1/jobs?all=1&last_nodes=1&fields=id,nodes").json["jobs"]
    assert line == {"id": "one-1", "nodes": [], "last_nodes": ["n2"]}
