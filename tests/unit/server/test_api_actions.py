"""Submit, cancel, suspend, resume: all or nothing, and durable before the answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from windlass.backends.local.submission_origins import clients_of_living_jobs, environment_of
from windlass.core.lifecycle.commands import Launch, Stop
from windlass.core.lifecycle.events import Exit, GangGone, Started
from windlass.core.model.job import Condition, Dependency, Job, Role
from windlass.core.model.resources import CPU
from windlass.jobs.description.submission import Submission
from windlass.server.errors import ApiError
from windlass.server.job_update import JobUpdate

FULL = "windlass.db: the disk is full; nothing was changed, free some space"


def on_record(daemon) -> list[str]:
    return [state.id for state in reversed(daemon.backend.store.jobs())]


# --- submitting ---------------------------------------------------------------------------------------


def test_a_job_is_on_disk_and_started_when_its_id_is_returned(daemon, job):
    answer = daemon.hand_in(job(), environment={"PATH": "/bin", "NAME": "größe"}, owner="12:34:boot")
    assert (answer.status, answer.json) == (201, {"ids": ["digits-1"]})
    assert environment_of(daemon.backend.store, "digits-1") == {"PATH": "/bin", "NAME": "größe"}
    assert clients_of_living_jobs(daemon.backend.store) == {"digits-1": "12:34:boot"}
    assert [(c.job_id, c.generation) for c in daemon.backend.performed if isinstance(c, Launch)] == [("digits-1", 1)]


def test_several_jobs_are_numbered_in_order_and_an_array_has_one_id(daemon, job):
    ids = daemon.submit(job("prep"), Submission(job("sweep"), array=(0, 2), array_limit=1), job("report"))
    assert ids == ["prep-1", "sweep-2", "report-3"]
    assert on_record(daemon) == ["prep-1", "sweep-2_0", "sweep-2_2", "report-3"]
    assert daemon.submit(job("next")) == ["next-4"]


def test_a_job_with_too_many_cores_is_refused_with_a_hint_to_share_them(daemon):
    plain = Job("plain", (Role(replicas=1, resources={CPU: 8_000_000}, command=("true",)),), user="ada")
    answer = daemon.hand_in(plain)
    assert answer.error[:2] == (422, "refused")
    assert "--cpus 0" in answer.json["error"]["fix"]


def test_a_job_of_an_unknown_queue_is_refused_without_a_hint_about_cores(daemon):
    plain = Job("plain", (Role(replicas=1, resources={CPU: 1_000}, command=("true",)),), queue="nowhere")
    answer = daemon.hand_in(plain)
    assert answer.error[:2] == (422, "refused")
    assert "nowhere" in answer.json["error"]["message"]
    assert not answer.json["error"].get("fix")


def test_an_impossible_job_refuses_the_whole_request(daemon, job):
    status, code, message = daemon.hand_in(job("fits"), job("never", gpu=5)).error
    assert (status, code) == (422, "refused")
    assert message.startswith("never can never run here: ")
    assert "4" in message  # the largest job that would fit
    assert on_record(daemon) == []
    assert daemon.backend.performed == []


def test_refused_requests_use_up_no_job_numbers(daemon, job):
    (first,) = daemon.submit(job("fits"))
    assert daemon.hand_in(job("fits"), job("never", gpu=5)).status == 422
    assert daemon.hand_in(replace(job(), after=(Dependency("unknown"),))).status == 404
    assert (first, *daemon.submit(job("fits"))) == ("fits-1", "fits-2")


@pytest.mark.parametrize(
    ("array", "owner", "expected"),
    [
        ((), "me", "owner is 'pid:start ticks:boot id', not 'me'"),
        (tuple(range(10_001)), "", "an array has at most 10000 indexes, each once, from 0 to 999999"),
        ((1, 1), "", "an array has at most 10000 indexes, each once"),
        ((-1,), "", "an array has at most 10000 indexes, each once"),
    ],
)
def test_invalid_requests_are_refused_before_any_job_is_accepted(daemon, job, array, owner, expected):
    status, code, message = daemon.hand_in(Submission(job(), array=array), owner=owner).error
    assert (status, code) == (400, "bad_request")
    assert expected in message
    assert on_record(daemon) == []


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ({"replicas": 0}, "role 'worker' has from 0 over 0 to 0 replicas"),
        ({"replicas": 2, "min_replicas": 3}, "role 'worker' has from 3 over 2 to 2 replicas"),
        ({"replicas": 2, "max_replicas": 1}, "role 'worker' has from 2 over 2 to 1 replicas"),
        ({"procs": 0}, "role 'worker' requests a negative amount"),
        ({"resources": {"gpu": -1}}, "role 'worker' requests a negative amount"),
    ],
)
def test_invalid_counts_of_a_role_are_refused(daemon, numbers, expected):
    status, code, message = daemon.hand_in(Job("x", (Role(command=("true",), **numbers),))).error
    assert (status, code) == (400, "bad_request")
    assert expected in message


def test_an_unknown_dependency_refuses_the_whole_request(daemon, job):
    after = (Dependency("prepp"),)
    status, code, message = daemon.hand_in(job("prep"), job("train", after=after)).error
    assert (status, code) == (404, "no_such_job")
    assert "'prepp'" in message
    assert on_record(daemon) == []


def test_a_name_in_after_means_a_job_of_the_same_request_first(daemon, job):
    daemon.submit(job("prep"), job("lonely"))
    waits = (Dependency("prep", Condition.FINISHED), Dependency("lonely"))
    daemon.submit(Submission(job("prep"), array=(0, 1)), job("train", after=waits))
    assert daemon.backend.store.job("train-4").job.after == (
        Dependency("prep-3_0", Condition.FINISHED),
        Dependency("prep-3_1", Condition.FINISHED),
        Dependency("lonely-2"),
    )


def test_a_repeated_request_finds_its_jobs(daemon, job):
    both = job("one"), Submission(job("sweep"), array=(0, 1))
    first = daemon.submit(*both, key="k1")
    daemon.end("one-1", Exit(0))
    assert daemon.submit(*both, key="k1", again=True) == first
    assert daemon.submit(*both, key="k2", again=True) == ["one-3", "sweep-4"]  # this request never arrived
    assert daemon.submit(*both, key="k1") == ["one-5", "sweep-6"]  # the same text in a new request


def test_a_job_without_an_owner_needs_a_daemon(open_daemon, job):
    daemon = open_daemon(kind="run")
    answer = daemon.hand_in(job())
    assert answer.error[:2] == (503, "no_daemon")
    assert "windlass up -d" in answer.json["error"]["fix"]
    assert daemon.submit(job(), owner="12:34:boot") == ["digits-1"]


# --- cancel, suspend, resume --------------------------------------------------------------------------


def test_cancelling_a_pending_job_ends_it_at_once(daemon, job):
    daemon.submit(job("one", gpu=4, replicas=2), job("two"))
    assert [each["id"] for each in daemon.post("/v1/jobs/two/cancel", {"by": "ada"}).json["jobs"]] == ["two-2"]
    story = daemon.get("/v1/jobs/two").json
    assert (story["phase"], story["reason"], story["message"]) == ("Failed", "Cancelled", "cancelled by ada")


@pytest.mark.parametrize("verb", ["cancel", "suspend"])
def test_an_action_on_a_name_means_the_living_job_and_not_an_ended_later_one(daemon, job, verb):
    daemon.submit(job(), job())
    daemon.end("digits-2", Exit(0))
    assert [each["id"] for each in daemon.post(f"/v1/jobs/digits/{verb}").json["jobs"]] == ["digits-1"]


def test_cancelling_a_running_job_gives_it_its_grace(daemon, job):
    daemon.submit(job(grace=7_000))
    daemon.happen("digits-1", Started(1))
    daemon.post("/v1/jobs/digits/cancel")
    assert daemon.backend.performed[-1] == Stop("digits-1", 1, 7_000)
    daemon.post("/v1/jobs/digits/cancel", {"now": True})
    assert daemon.backend.performed[-1] == Stop("digits-1", 1, 0)
    daemon.happen("digits-1", GangGone(1))
    assert daemon.phase("digits") == "Failed"


def test_cancelling_a_job_at_once_stops_it_once_and_without_grace(daemon, job):
    daemon.submit(job(grace=7_000))
    daemon.happen("digits-1", Started(1))
    daemon.post("/v1/jobs/digits/cancel", {"now": True})
    assert [c for c in daemon.backend.performed if isinstance(c, Stop)] == [Stop("digits-1", 1, 0)]
    assert daemon.backend.store.transitions("digits-1")[-1].event == "Kill"


def test_a_job_is_suspended_and_resumed(daemon, job):
    daemon.submit(job())
    daemon.happen("digits-1", Started(1))
    assert daemon.post("/v1/jobs/digits/suspend").status == 200
    assert daemon.post("/v1/jobs/digits/resume").status == 200  # before its processes are gone
    daemon.post("/v1/jobs/digits/suspend")
    daemon.happen("digits-1", GangGone(1))
    assert daemon.phase("digits") == "Suspended"
    daemon.post("/v1/jobs/digits/resume")
    assert daemon.phase("digits") == "Admitted"
    assert daemon.get("/v1/jobs/digits").json["attempts"] == 2


@pytest.mark.parametrize("verb", ["cancel", "suspend", "resume"])
@pytest.mark.parametrize(("exit", "phase"), [(Exit(0), "Succeeded"), (Exit(1), "Failed")])
def test_an_ended_job_refuses_every_action(daemon, job, verb, exit, phase):
    daemon.submit(job())
    daemon.end("digits-1", exit)
    error = daemon.post(f"/v1/jobs/digits/{verb}").error
    assert error == (409, "wrong_state", f"digits has ended already ({phase})")


@pytest.mark.parametrize("verb", ["cancel", "suspend", "resume"])
def test_a_cancelled_job_is_not_shown_as_failed(daemon, job, verb):
    daemon.submit(job(suspend=True))
    daemon.post("/v1/jobs/digits/cancel", {"by": "ada"})
    error = daemon.post(f"/v1/jobs/digits/{verb}").error
    assert error == (409, "wrong_state", "digits has ended already: cancelled by ada")
    why = daemon.get("/v1/jobs/digits/why?what_if=-N%201").error
    assert why[2] == "digits-1 is not pending but Cancelled"


def test_only_suspended_jobs_can_be_resumed_and_only_others_suspended(daemon, job):
    daemon.submit(job(), job("held", suspend=True))
    assert daemon.post("/v1/jobs/digits/resume").error[2] == "digits is not suspended but Admitted"
    assert daemon.post("/v1/jobs/held/suspend").error[2] == "held is suspended already"


def test_an_action_on_an_array_changes_the_members_whose_state_allows_it(daemon, job):
    daemon.submit(Submission(job("sweep"), array=(0, 1, 2)))
    daemon.end("sweep-1_1", Exit(0))
    cancelled = daemon.post("/v1/jobs/sweep/cancel").json["jobs"]
    assert [each["id"] for each in cancelled] == ["sweep-1_0", "sweep-1_2"]


def test_an_unknown_job_or_verb_is_refused(daemon, job):
    daemon.submit(job())
    assert daemon.post("/v1/jobs/nonesuch/cancel").error[:2] == (404, "no_such_job")
    status, code, message = daemon.post("/v1/jobs/digits/polish").error
    assert (status, code, message) == (400, "bad_request", "polish is not an action on jobs")


# --- down ---------------------------------------------------------------------------------------------


def test_down_cancels_living_jobs_and_waits_for_their_end(daemon, job):
    daemon.submit(job("runs"), job("done"), job("held", suspend=True))
    daemon.end("done-2", Exit(0))
    daemon.happen("runs-1", Started(1))
    leaving = daemon.start(daemon.actions.down({"keep_jobs": False}))
    assert not leaving.done()
    daemon.happen("runs-1", GangGone(1))
    daemon.settle()
    assert leaving.result()["jobs"] == ["runs-1", "held-3"]
    assert daemon.phase("held") == daemon.phase("runs") == "Failed"


def test_down_can_keep_living_jobs(daemon, job):
    daemon.submit(job())
    assert daemon.post("/v1/down", {"keep_jobs": True}).json["jobs"] == ["digits-1"]
    assert daemon.phase("digits") == "Admitted"


def test_an_ending_daemon_accepts_no_jobs(daemon, job):
    daemon.submit(job())
    daemon.feed.close()
    assert daemon.hand_in(job()).error == (503, "no_daemon", "the daemon is ending")
    assert daemon.post("/v1/jobs/digits/cancel").error[:2] == (503, "no_daemon")


# --- a full disk ------------------------------------------------------------------------


def test_a_job_that_cannot_be_saved_is_not_accepted(daemon, job):
    daemon.backend.full = FULL
    assert daemon.hand_in(job()).error == (507, "disk", FULL)
    assert daemon.get("/v1/ping").json["trouble"] == FULL
    assert daemon.hand_in(job("next")).error == (507, "disk", FULL)
    assert daemon.backend.performed == []


def test_a_job_refused_on_a_full_disk_is_cancelled_when_there_is_space(daemon, job):
    daemon.backend.full = FULL
    daemon.hand_in(job())
    daemon.backend.mend()
    daemon.settle()
    daemon.happen("digits-1", GangGone(1))
    assert daemon.get("/v1/ping").json["trouble"] == ""
    assert daemon.get("/v1/jobs").json["jobs"] == []
    assert daemon.get("/v1/jobs/digits").json["reason"] == "Cancelled"
    assert daemon.submit(job("next")) == ["next-2"]


def test_a_cancel_that_cannot_be_saved_is_an_error(daemon, job):
    daemon.submit(job())
    daemon.backend.full = FULL
    assert daemon.post("/v1/jobs/digits/cancel").error == (507, "disk", FULL)


def test_an_unreadable_database_is_an_error(daemon, job):
    daemon.submit(job())
    daemon.backend.store._connection.execute("DROP TABLE tasks")
    status, code, message = daemon.get("/v1/jobs/digits").error
    assert (status, code) == (507, "disk")
    assert "no such table: tasks" in message


# --- invalid requests ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "missing required field `submissions`"),
        (b"{", "the request is not JSON: Expecting property name"),
        (b"\xff", "the request is not JSON: "),
        (b"[" * 100_000, "the request is not JSON: maximum recursion depth"),
        (b"[1]", "Expected `object`, got `array`"),
        (b'{"submissions": []}', "the request contains no job"),
        (b'{"submissions": [{"job": {"name": "x"}}]}', "`roles` - at `$.submissions[0].job`"),
        (b'{"submissions": [{"job": {"name": "x", "roles": [{"replicas": "2"}]}}]}', "Expected `int`, got `str`"),
        (b'{"submissions": [{"job": {"name": "../x", "roles": [{}]}}]}', "'../x' is not a valid name of a job"),
        (b'{"submissions": [{"job": {"name": "x", "roles": [{"procs": 99999999}]}}]}', "99999999 ranks are more than"),
        (b'{"submissions": [{"job": {"name": "x", "roles": [{"command": ["\\ud800"]}]}}]}', "surrogates not allowed"),
        (b'{"submissions": [{"job": {"name": "x", "roles": [{}], "priority": 1e99}}]}', "Expected `int`, got `float`"),
        (
            b'{"submissions": [{"job": {"name": "x", "roles": [{}], "ttl": 99999999999999999999}}]}',
            "9999 is more than",
        ),
        (b'{"submissions": [{"job": {"name": "x", "roles": [{"resources": {"gpu": -1e30}}]}}]}', "Expected `int`"),
    ],
)
def test_an_invalid_submission_is_one_clear_error_and_the_daemon_lives(daemon, job, body, message):
    status, code, text = daemon.send("/v1/jobs", body).error
    assert (status, code) == (400, "bad_request")
    assert message in text
    assert daemon.submit(job()) == ["digits-1"]


@pytest.mark.parametrize("path", ["/v1/jobs/digits/cancel", "/v1/down"])
@pytest.mark.parametrize("body", [b"[1]", b"null", b"3", b"{"])
def test_the_body_of_an_action_must_be_an_object(daemon, job, path, body):
    daemon.submit(job())
    assert daemon.send(path, body).error[:2] == (400, "bad_request")
    assert daemon.phase("digits") == "Admitted"


def test_an_endless_request_is_cut_off(daemon, monkeypatch):
    monkeypatch.setattr("windlass.server.app._MAX_BODY", 1 << 20)
    answer = daemon.send("/v1/jobs", b" " * ((1 << 20) + 1))
    assert answer.error == (400, "bad_request", "the request is larger than 1 MiB")


def test_unknown_paths_and_methods_are_refused(daemon):
    assert daemon.get("/v2/jobs").error == (404, "bad_request", "GET /v2/jobs is not part of this API")
    assert daemon.get("/v1/down").error == (405, "bad_request", "GET /v1/down is not part of this API")
    assert daemon.post("/v1/nodes").error[0] == 405


def test_an_internal_error_is_one_line(daemon, broken, monkeypatch):
    monkeypatch.setattr(daemon.service, "nodes", broken)
    answer = daemon.get("/v1/nodes")
    assert answer.error == (500, "internal", "UnforeseenError: the roof is leaking")
    assert answer.json["error"]["fix"] == "see the daemon's log"


# --- priorities ---------------------------------------------------------------------------------------


def test_a_priority_is_on_disk_and_changes_the_order_of_the_queue(daemon, job):
    daemon.submit(job("holder", replicas=8), job("first", replicas=8), job("second", replicas=8))
    answer = daemon.runner.run(daemon.actions.update("second-3", JobUpdate(priority=5)))
    assert answer["jobs"][0]["priority"] == 5
    assert daemon.backend.store.job("second-3").job.priority == 5
    assert list(daemon.controller.plan.order) == ["second-3", "first-2"]


def test_a_job_that_holds_nodes_is_only_given_a_lower_priority(daemon, job):
    daemon.submit(job("holder", replicas=8))
    with pytest.raises(ApiError, match="can only become lower than 0"):
        daemon.runner.run(daemon.actions.update("holder-1", JobUpdate(priority=1)))
    daemon.runner.run(daemon.actions.update("holder-1", JobUpdate(priority=-1)))
    assert daemon.backend.store.job("holder-1").job.priority == -1


def test_the_time_limit_of_a_running_job_only_becomes_lower(daemon, job):
    daemon.submit(replace(job("holder", replicas=8), walltime=3_600_000))
    assert daemon.post("/v1/jobs/holder-1/update", {"walltime": 60_000}).json["jobs"][0]["walltime"] == 60_000
    refused = daemon.post("/v1/jobs/holder-1/update", {"walltime": 0})
    assert refused.error == (409, "wrong_state", "holder-1 holds nodes: its time limit can only become lower")
    wrong = daemon.post("/v1/jobs/holder-1/update", {"colour": 1})
    assert wrong.error == (400, "bad_request", "an update of a job has priority or walltime or begin, and nothing else")


def test_the_begin_time_of_a_waiting_job_can_be_changed_until_it_starts(daemon, job):
    late = daemon.backend.now() + 3_600_000
    daemon.submit(replace(job("late"), begin=late))
    path = "/v1/jobs?all=True&fields=id,reason,gate,eta,begin"
    [line] = daemon.get(path).json["jobs"]
    assert line == {"id": "late-1", "reason": "AdmissionGated", "gate": "BeginTime", "eta": late, "begin": late}
    daemon.post("/v1/jobs/late-1/update", {"begin": late + 60_000})
    assert daemon.get(path).json["jobs"][0]["eta"] == late + 60_000
    daemon.post("/v1/jobs/late-1/update", {"begin": 0})
    assert daemon.get(path).json["jobs"][0]["reason"] != "AdmissionGated"
    refused = daemon.post("/v1/jobs/late-1/update", {"begin": late})
    assert refused.error == (409, "wrong_state", "late-1 holds nodes: its begin time has passed")
    wrong = daemon.post("/v1/jobs/late-1/update", {"begin": -1})
    assert wrong.error == (400, "bad_request", "begin is a number of milliseconds from 0 to 253402300799000")


def test_a_changed_priority_is_a_line_of_the_history(daemon, job):
    daemon.submit(job("holder", replicas=8))
    daemon.runner.run(daemon.actions.update("holder-1", JobUpdate(priority=-1)))
    last = daemon.backend.store.transitions("holder-1")[-1]
    assert (last.event, last.message) == ("Changed", "priority 0 → -1")


def test_an_update_of_an_array_changes_all_members_that_have_not_ended(daemon, job):
    daemon.submit(Submission(job("long", gpu=4), array=(0, 1, 2)))
    daemon.end("long-1_0", Exit(0))
    answer = daemon.post("/v1/jobs/long-1/update", {"priority": -5}).json["jobs"]
    assert [each["id"] for each in answer] == ["long-1_1", "long-1_2"]
    priorities = [daemon.get(f"/v1/jobs/long-1_{index}").json["priority"] for index in range(3)]
    assert priorities == [0, -5, -5]


def waits_of(daemon, name):
    return [f"{each.condition.value}:{each.job_id}" for each in daemon.controller.states[name].job.after]


def test_a_member_waits_for_the_member_of_its_index(daemon, job):
    matching = replace(job("train"), after=(Dependency("prep", Condition.MATCHING),))
    daemon.submit(Submission(job("prep"), array=(0, 1)), Submission(matching, array=(0, 1)))
    assert waits_of(daemon, "train-2_1") == ["matching:prep-1_1"]
    refused = daemon.hand_in(Submission(matching, array=(1, 7)))
    assert (refused.status, "prep has no member of index 7" in refused.raw.decode()) == (400, True)


def test_a_job_waits_for_the_earlier_jobs_of_its_name_and_user(daemon, job):
    single = replace(job("train"), after=(Dependency("train", Condition.EARLIER),))
    daemon.submit(single, replace(single, user="bob"))
    daemon.submit(single)
    assert waits_of(daemon, "train-1") == []
    assert waits_of(daemon, "train-3") == ["earlier:train-1"]
