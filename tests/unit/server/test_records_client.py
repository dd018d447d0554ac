"""Queries without a controller have the answers of the daemon."""

from __future__ import annotations

import json
import os
from contextlib import closing

import pytest

from windlass.backends.local.state_reader import Task
from windlass.backends.local.state_store import Notes
from windlass.backends.local.supervisor import proc
from windlass.core.lifecycle.events import Cancel, Exit, GangGone
from windlass.jobs.description.submission import Submission
from windlass.server.discovery import open_state
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.records_client import RecordsClient


@pytest.fixture
def records(daemon, job):
    """A daemon with jobs of every kind, and its records."""
    daemon.submit(job("done"), job("one", gpu=3, replicas=2), job("two", gpu=2, user="bob"))
    daemon.submit(Submission(job("sweep"), array=(0, 1)))
    daemon.end("done-1", Exit(4))
    daemon.happen("sweep-4_1", Cancel("ada"), GangGone(1))
    verdicts = daemon.controller.plan.verdicts
    daemon.backend.store.note(Notes(verdicts={name: (daemon.backend.clock, verdicts[name]) for name in verdicts}))
    offline = RecordsClient.open(daemon.backend.paths.root)
    assert offline is not None
    with closing(offline):
        yield daemon, offline


def plain(row):
    """The JSON of an answer, without the position in the queue, which needs a plan."""
    return {name: value for name, value in json.loads(json.dumps(row)).items() if name != "position"}


@pytest.mark.parametrize("name", ["done", "one-2", "two", "sweep-4_0"])
def test_job_details_are_those_of_the_daemon(records, name):
    daemon, offline = records
    answer = daemon.get(f"/v1/jobs/{name}").json
    assert plain(offline.job(name)) == plain({**answer, "rank_resources": []})


def test_the_time_of_the_records_is_that_of_the_last_event(records):
    daemon, offline = records
    daemon.backend.clock += 60_000
    daemon.happen("sweep-4_0", Cancel("ada"), GangGone(1))
    assert offline.as_of() == daemon.backend.clock


def test_processes_that_outlive_their_daemon_are_known(records):
    daemon, offline = records
    pid, found = os.getpid(), proc.stat(os.getpid())
    ticks = found.started
    daemon.backend.store.note(
        Notes(tasks=[Task("one-2", 1, 0, "worker", 0, "n1"), Task("one-2", 1, 1, "worker", 1, "n1")])
    )
    daemon.backend.store.note(Notes(started=[(pid, ticks, "one-2", 1, 0), (pid, ticks + 1, "one-2", 1, 1)]))
    living = offline.living()
    assert living.pop("one-2") == [pid]
    assert not any(living.values())


def test_an_array(records):
    daemon, offline = records
    online = daemon.get("/v1/jobs/sweep").json
    members = [[plain(each) for each in asked["members"]] for asked in (offline.job("sweep"), online)]
    assert members[0] == members[1]
    assert len(members[0]) == 2


def test_history(records):
    daemon, offline = records
    answer = daemon.get("/v1/history").json["jobs"]
    assert offline.history(name="", user="", since=0, limit=100) == answer
    assert {row["id"] for row in answer} == {"done-1", "sweep-4_1"}
    assert offline.history(user="bob") == []


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"user": "bob"},
        {"name": "one,two"},
        {"phase": "Queued"},
        {"all": True},
        {"all": True, "limit": 3},
        {"all": True, "phase": "Cancelled"},
        {"phase": "Cancelled"},
        {"phase": "Queued,Cancelled"},
        {"phase": "Failed"},
        {"phase": "Failed", "name": "done", "limit": 1},
    ],
)
def test_listings_have_the_same_jobs(records, filters):
    daemon, offline = records
    query = "&".join(f"{key}={value}" for key, value in filters.items())
    answered_ids = {row["id"] for row in daemon.get(f"/v1/jobs?{query}").json["jobs"]}
    listed = [row["id"] for row in offline.jobs(**filters)]
    assert set(listed) == answered_ids
    assert listed == [name for name in ("one-2", "sweep-4_0", "two-3", "sweep-4_1", "done-1") if name in answered_ids]
    assert answered_ids


def test_the_explanation_is_the_last_saved_verdict(records):
    daemon, offline = records
    answer = daemon.get("/v1/jobs/two/why").json["job"]
    assert plain(offline.explain("two")["job"]) == plain(answer)
    assert offline.explain("sweep")["job"]["array"] == "sweep-4"


def test_an_unknown_job(records):
    _, offline = records
    with pytest.raises(ApiError, match="did you mean sweep") as caught:
        offline.job("sweeep")
    assert caught.value.code is ErrorCode.NO_SUCH_JOB


def test_an_empty_folder_has_no_jobs(tmp_path):
    assert RecordsClient.open(tmp_path / "nowhere") is None
    with pytest.raises(ApiError) as caught:
        open_state(tmp_path / "nowhere")
    assert caught.value.code is ErrorCode.NO_DAEMON
