"""Schedules of a daemon: created, listed, run when due, suspended, run at once, deleted, and kept over a restart."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict

import pytest

from windlass.backends.local.submission_origins import environment_of
from windlass.backends.port import BackendError
from windlass.core.lifecycle.commands import Stop
from windlass.core.lifecycle.events import Exit, GangGone, Started
from windlass.jobs.description.submission import Submission
from windlass.jobs.kubernetes.labels import SCHEDULED_AT
from windlass.jobs.schedules.schedule import ConcurrencyPolicy, Schedule
from windlass.server.records_client import RecordsClient

HOUR = 3_600_000
FIRST = 1_700_002_800_000
"""The first full hour after the daemon's noon."""


def hourly(job, policy=ConcurrencyPolicy.SKIP, **fields):
    return Submission(job("nightly"), schedule=Schedule("0 * * * *", policy=policy, **fields))


def advance(daemon, to: int = 0) -> None:
    """Let the schedules see the clock at `to`."""
    daemon.backend.clock = to or daemon.backend.clock
    daemon.runner.run(daemon.schedules.advance_all())
    daemon.settle()


def line(daemon):
    (only,) = daemon.get("/v1/schedules").json["schedules"]
    return only


def ids(daemon) -> list[str]:
    return [state.id for state in reversed(daemon.backend.store.jobs())]


def told(daemon) -> list[str]:
    return [f"{note['kind']}: {note['message']}" for note in line(daemon)["notes"]]


def test_a_schedule_is_on_disk_when_its_name_is_returned_and_runs_at_its_time(daemon, job):
    answer = daemon.hand_in(hourly(job), environment={"PATH": "/bin"})
    assert (answer.status, answer.json) == (201, {"ids": ["nightly"]})
    advance(daemon)
    assert (ids(daemon), line(daemon)["next"]) == ([], FIRST)
    advance(daemon, FIRST + 5)
    assert ids(daemon) == ["nightly-1"]
    assert environment_of(daemon.backend.store, "nightly-1") == {"PATH": "/bin"}
    assert daemon.backend.store.job("nightly-1").job.labels[SCHEDULED_AT] == str(FIRST)
    assert told(daemon) == ["Started: nightly-1 for 2023-11-14 23:00 UTC"]


def test_a_daemon_that_starts_again_runs_no_time_twice_and_makes_up_for_the_latest_missed_one(open_daemon, job):
    first = open_daemon()
    first.submit(hourly(job))
    advance(first, FIRST)
    first.end("nightly-1", Exit(0))
    first.backend.store.close()  # as a kill: nothing is written at the end
    second = open_daemon()
    advance(second, FIRST + 1)
    assert ids(second) == ["nightly-1"]
    advance(second, FIRST + 4 * HOUR + 7)
    assert ids(second) == ["nightly-1", "nightly-2"]
    assert (line(second)["missed"], second.backend.store.job("nightly-2").job.labels[SCHEDULED_AT]) == (
        3,
        str(FIRST + 4 * HOUR),
    )


def test_a_full_disk_delays_a_run_and_starts_it_once(daemon, job):
    daemon.submit(hourly(job))
    daemon.backend.clock, daemon.backend.full = FIRST, "the disk is full; free some space"
    waiting = daemon.start(daemon.schedules.advance_all())
    assert (ids(daemon), waiting.done()) == ([], False)
    daemon.backend.mend()
    daemon.settle()
    advance(daemon, FIRST + 1_000)
    assert ids(daemon) == ["nightly-1"]


@pytest.mark.parametrize("policy", list(ConcurrencyPolicy))
def test_the_policy_decides_while_a_run_is_active(daemon, job, policy):
    daemon.submit(hourly(job, policy))
    advance(daemon, FIRST)
    daemon.happen("nightly-1", Started(1))
    advance(daemon, FIRST + HOUR)
    assert ids(daemon) == ["nightly-1"], "never two at once"
    stops = [command.job_id for command in daemon.backend.performed if isinstance(command, Stop)]
    assert stops == (["nightly-1"] if policy is ConcurrencyPolicy.REPLACE else [])
    daemon.end("nightly-1", Exit(0))
    advance(daemon, FIRST + HOUR + 60_000)
    assert ids(daemon) == (["nightly-1"] if policy is ConcurrencyPolicy.SKIP else ["nightly-1", "nightly-2"])


def test_a_suspended_schedule_starts_nothing_until_it_is_resumed(daemon, job):
    daemon.submit(hourly(job))
    answer = daemon.post("/v1/suspend", {"jobs": ["nightly"]}).json
    assert [each["suspended"] for each in answer["schedules"]] == [True]
    advance(daemon, FIRST + 2 * HOUR)
    assert (ids(daemon), line(daemon)["next"]) == ([], None)
    assert daemon.post("/v1/suspend", {"jobs": ["nightly"]}).json["errors"][0]["message"] == (
        "the schedule nightly is suspended already"
    )
    daemon.post("/v1/resume", {"jobs": ["nightly"]})
    advance(daemon, FIRST + 2 * HOUR + 1)
    assert ids(daemon) == [], "times of the suspension are not made up for"
    advance(daemon, FIRST + 3 * HOUR)
    assert ids(daemon) == ["nightly-1"]


def test_a_schedule_that_is_resumed_at_a_time_of_its_suspension_does_not_run_it(daemon, job):
    daemon.submit(hourly(job))
    daemon.post("/v1/suspend", {"jobs": ["nightly"]})
    daemon.backend.clock = FIRST + 1  # the daemon has not looked at the clock yet
    daemon.post("/v1/resume", {"jobs": ["nightly"]})
    advance(daemon, FIRST + 2)
    assert ids(daemon) == []


def test_a_run_that_is_due_when_its_schedule_is_suspended_is_told_as_skipped(daemon, job):
    daemon.submit(hourly(job))
    daemon.backend.clock = FIRST + 1
    daemon.post("/v1/suspend", {"jobs": ["nightly"]})
    assert (line(daemon)["last_run"], line(daemon)["skipped"]) == (None, 1)
    assert told(daemon) == ["Skipped: 2023-11-14 23:00 UTC: the schedule was suspended"]


def test_a_job_that_is_submitted_suspended_is_a_suspended_schedule(daemon, job):
    daemon.submit(Submission(job("nightly", suspend=True), schedule=Schedule("0 * * * *")))
    assert line(daemon)["suspended"]
    assert daemon.post("/v1/schedules/nightly/run").json == {"ids": ["nightly-1"]}
    assert daemon.phase("nightly-1") == "Admitted"


def test_a_run_is_started_at_once_and_counts_as_active(daemon, job):
    daemon.submit(hourly(job))
    assert daemon.post("/v1/schedules/nightly/run").json == {"ids": ["nightly-1"]}
    assert (line(daemon)["active"], told(daemon)) == (["nightly-1"], ["Started: nightly-1 was started by a user"])
    advance(daemon, FIRST)
    assert (ids(daemon), line(daemon)["skipped"]) == (["nightly-1"], 1)


def test_its_name_means_the_schedule_and_the_id_of_a_run_the_run(daemon, job):
    daemon.submit(hourly(job))
    advance(daemon, FIRST)
    assert daemon.get("/v1/jobs/nightly").json == line(daemon)
    assert daemon.get("/v1/jobs/nightly/why").json == {"schedule": line(daemon)}
    assert daemon.get("/v1/jobs/nightly-1").json["phase"] == "Admitted"
    with closing(RecordsClient.open(daemon.backend.paths.root)) as offline:
        assert json.loads(json.dumps(offline.job("nightly"))) == line(daemon)
        assert json.loads(json.dumps(offline.explain("nightly"))) == {"schedule": line(daemon)}


def test_cancel_deletes_the_schedule_and_lets_its_run_go_on(daemon, job):
    daemon.submit(hourly(job))
    advance(daemon, FIRST)
    assert daemon.post("/v1/cancel", {"jobs": ["nightly"]}).json["errors"] == []
    assert daemon.get("/v1/schedules").json == {"schedules": []}
    assert daemon.phase("nightly-1") == "Admitted"
    advance(daemon, FIRST + HOUR)
    assert ids(daemon) == ["nightly-1"]


def test_ended_runs_beyond_the_history_limits_are_removed(daemon, job):
    daemon.submit(hourly(job, kept_succeeded=2, kept_failed=1))
    for number in range(1, 7):
        advance(daemon, FIRST + number * HOUR)
        daemon.end(f"nightly-{number}", Exit(number % 2))
        advance(daemon)
    assert ids(daemon) == ["nightly-4", "nightly-5", "nightly-6"]


def test_an_array_is_submitted_whole_and_is_one_run(daemon, job):
    daemon.submit(Submission(job("nightly"), array=(0, 1), schedule=Schedule("0 * * * *")))
    advance(daemon, FIRST)
    assert ids(daemon) == ["nightly-1_0", "nightly-1_1"]
    daemon.end("nightly-1_0", Exit(0))
    advance(daemon, FIRST + HOUR)
    assert line(daemon)["skipped"] == 1, "a member of the previous run has not ended"


def test_a_job_that_can_no_longer_run_is_told_and_does_not_stop_other_schedules(daemon, job):
    daemon.submit(hourly(job), Submission(job("small", gpu=0), schedule=Schedule("0 * * * *")))
    daemon.shrink(0)
    advance(daemon, FIRST)
    assert ids(daemon) == ["small-1"]
    nightly = daemon.get("/v1/schedules").json["schedules"][0]
    assert nightly["notes"][-1]["message"].startswith("2023-11-14 23:00 UTC: the job can never run here: ")
    assert nightly["last_run"] is None


def test_a_repeated_request_finds_the_schedule_that_it_made(daemon, job):
    daemon.submit(hourly(job), key="a1b2")
    again = daemon.hand_in(hourly(job), key="a1b2", again=True)
    assert (again.status, again.json) == (201, {"ids": ["nightly"]})


def test_several_schedules_are_created_together_or_not_at_all(open_daemon, job, monkeypatch):
    first = open_daemon()
    store, written = first.backend.store, []
    monkeypatch.setattr(store, "note", lambda notes: written.append(list(notes.schedules)))
    first.submit(hourly(job), Submission(job("weekly"), schedule=Schedule("0 0 * * 0")), key="a1b2")
    assert written == [["nightly", "weekly"]], "one commit, so that a kill leaves both or none"


def waiting(daemon, *requests) -> list:
    """The answers to POST requests that all arrive while a decision is carried out."""
    daemon.runner.run(daemon.schedules.lock.acquire())
    asked = [daemon.start(daemon._ask("POST", path, json.dumps(body).encode(), {})) for path, body in requests]
    daemon.settle()
    assert not any(each.done() for each in asked)
    daemon.schedules.lock.release()
    daemon.settle()
    return [each.result() for each in asked]


def test_of_two_requests_for_one_name_the_second_is_refused_though_both_waited(daemon, job):
    body = {"submissions": [asdict(hourly(job))]}
    first, second = waiting(daemon, ("/v1/jobs", body), ("/v1/jobs", body))
    assert first.status == 201
    assert second.error[2].startswith("there is a schedule 'nightly' already")


@pytest.mark.parametrize("change", ["/v1/schedules/nightly/run", "/v1/suspend"])
def test_a_change_that_waits_while_its_schedule_is_deleted_gets_a_clear_error(daemon, job, change):
    daemon.submit(hourly(job))
    deleted, changed = waiting(daemon, ("/v1/cancel", {"jobs": ["nightly"]}), (change, {"jobs": ["nightly"]}))
    assert deleted.status == 200
    assert "there is no schedule 'nightly'" in changed.raw.decode()


@pytest.mark.parametrize(
    ("submission", "error"),
    [
        ({"cron": "0 3 * *"}, "expects five fields"),
        ({"cron": "0 3 * * *", "time_zone": "Mars"}, "expects a name of the time zone database"),
        ({"cron": "0 3 * * *", "kept_failed": -1}, "no negative numbers"),
        ({"cron": "0 3 * * *", "policy": "both"}, "Invalid enum value 'both'"),
        ({}, "missing required field `cron`"),
    ],
)
def test_a_schedule_that_is_not_valid_gets_one_clear_error(daemon, job, submission, error):
    given = {"job": {"name": "nightly", "roles": [{"name": "worker", "command": ["true"]}]}, "schedule": submission}
    status, code, message = daemon.post("/v1/jobs", {"submissions": [given]}).error
    assert (status, code) == (400, "bad_request")
    assert error in message


def test_names_are_unique_and_jobs_with_and_without_cron_do_not_mix(daemon, job):
    daemon.submit(hourly(job))
    assert daemon.hand_in(hourly(job)).error[2].startswith("there is a schedule 'nightly' already")
    assert daemon.hand_in(hourly(job), job("once")).error[2] == "some jobs have cron and others have not"
    assert daemon.post("/v1/schedules/weekly/run").error[2].startswith("there is no schedule 'weekly'")


def test_without_a_daemon_no_schedule_is_accepted_and_records_show_those_that_exist(open_daemon, job):
    open_daemon().submit(hourly(job))
    foreground = open_daemon(kind="run")
    assert foreground.hand_in(hourly(job)).error[1] == "no_daemon"
    with closing(RecordsClient.open(foreground.backend.paths.root)) as offline:
        assert json.loads(json.dumps(offline.schedules())) == foreground.get("/v1/schedules").json["schedules"]


def test_a_stopped_run_that_is_gone_leaves_the_schedule_free(daemon, job):
    daemon.submit(hourly(job))
    advance(daemon, FIRST)
    daemon.happen("nightly-1", Started(1))
    daemon.post("/v1/cancel", {"jobs": ["nightly-1"]})
    daemon.happen("nightly-1", GangGone(1))
    advance(daemon, FIRST + HOUR)
    assert ids(daemon) == ["nightly-1", "nightly-2"]


@pytest.mark.parametrize("write", range(5))
def test_a_daemon_killed_before_any_write_runs_each_time_once(open_daemon, job, monkeypatch, write):
    first = open_daemon()
    first.submit(hourly(job))
    store, writes = first.backend.store, []
    commit = store.commit

    def commit_until_killed(changes, notes):
        writes.append(changes)
        if len(writes) > write:
            raise BackendError("nothing is written after a kill")
        commit(changes, notes)

    monkeypatch.setattr(store, "commit", commit_until_killed)
    for time in (FIRST, FIRST + HOUR):
        first.backend.clock = time
        first.start(first.schedules.advance_all())  # in the background: it may wait for a commit that never comes
    store.close()
    second = open_daemon()
    advance(second, FIRST + HOUR + 1)
    for run in second.schedules.runs("nightly"):
        second.end(run.id, Exit(0))
    advance(second, FIRST + HOUR + 2)
    times = [state.job.labels[SCHEDULED_AT] for state in second.backend.store.jobs()]
    assert len(times) == len(set(times)), "no time runs twice"
    decided = len(times) + line(second)["missed"] + line(second)["skipped"]
    assert decided == 2, "no time is lost silently"
