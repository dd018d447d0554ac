"""`status`, `why`, and the output of verbs that change jobs or the daemon."""

from __future__ import annotations

import json

import msgspec
import pytest
import yaml

from windlass.backends.local.state_reader import Task
from windlass.backends.port import Transition
from windlass.core.model.diagnosed_cause import CERTAIN, DiagnosedCause
from windlass.server import views
from windlass.server.errors import ApiError, ErrorCode
from windlass.server.job_lines import NOT_PENDING

NOW = 1_700_000_000_000


def story(state, tasks=(), transitions=(), **more):
    details = views.job_details(state, NOT_PENDING, tasks, transitions, ["4 threads a rank"])
    return {**json.loads(json.dumps(details)), **more}


def step(at: int, before: str, after: str, message: str = "") -> Transition:
    return Transition("digits-1", NOW + at, "Event", before, after, message)


TWICE = (
    step(0, "", "Created"),
    step(0, "Created", "Queued"),
    step(1_000, "Queued", "Admitted"),
    step(1_100, "Admitted", "Running"),
    step(1_100, "Admitted", "Admitted", "starting"),
    step(5_000, "Running", "Restarting", "NodeLost: n1 went away"),
    step(6_000, "Restarting", "Queued"),
    step(9_000, "Queued", "Admitted"),
    step(69_000, "Running", "Failed", "ExitCode: rank 0 (worker/0) on n2 exited with code 3"),
)
TASKS = (
    Task("digits-1", 1, 0, "worker", 0, "n1", signal=9, detail="rank 0 (worker/0) on n1 was killed"),
    Task("digits-1", 1, 1, "worker", 1, "n2", code=0, detail="rank 1 ended"),
    Task("digits-1", 2, 0, "worker", 0, "n2", code=3, detail="rank 0 (worker/0) on n2 exited with code 3"),
)


# --- status -------------------------------------------------------------------------------------------


def test_status_shows_every_attempt_and_its_cause(daemon, windlass, made):
    daemon.says["/v1/jobs/digits"] = story(made.failed(), TASKS, TWICE)
    ran = windlass("status", "digits")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == "digits-1 Failed: ExitCode: rank 0 (worker/0) on n1 exited with code 3"
    assert lines[1] == "  worker: 2×2 ranks, 1 gpu, 3Gi memory each: python träin.py"
    assert lines[2] == "  queue research, priority 0, user zoë, in /w"
    assert lines[4] == "  4 threads a rank"
    assert lines[5] == "  attempt 1 on n1,n2, ran 4.0 s: NodeLost: n1 went away"
    assert lines[6] == "  attempt 2 on n2, ran 1m00s: ExitCode: rank 0 (worker/0) on n2 exited with code 3"
    assert len(lines) == 7


@pytest.mark.parametrize("verb", ["status", "why"])
def test_a_job_that_waits_for_a_person_shows_the_verdict_on_its_wait(daemon, windlass, made, verb):
    cause = DiagnosedCause(1, "The image x:1 cannot be pulled.", "image-pull", CERTAIN, fix="Correct its name.")
    job = story(made.running(), wait_diagnosis=msgspec.to_builtins(cause))
    daemon.says["/v1/jobs/digits"] = job
    daemon.says["/v1/jobs/digits/why"] = {"job": job, "now": NOW}
    lines = windlass(verb, "digits").out.splitlines()
    told = "waits: verdict: The image x:1 cannot be pulled. (certain, image-pull); fix: Correct its name."
    assert told in [line.strip() for line in lines]


def test_wide_status_adds_failed_ranks_and_transitions(daemon, windlass, made):
    daemon.says["/v1/jobs/digits"] = story(made.failed(), TASKS, TWICE)
    wide = windlass("status", "digits", "-o", "wide").out
    assert "    rank 0 (worker/0) on n1 was killed\n" in wide
    assert [line for line in wide.splitlines() if line != line.rstrip()] == []
    assert "rank 1 ended" not in wide
    assert "Event: new → Created" in wide
    assert "Event: Running → Restarting  NodeLost: n1 went away" in wide


def test_status_of_a_running_job_and_of_one_that_never_ran(daemon, windlass, made):
    daemon.says["/v1/jobs/digits"] = story(made.running(), TASKS[:2], TWICE[:4])
    output = windlass("status", "digits").out
    assert output.startswith("digits-1 Running on n1,n2\n")
    assert "  attempt 1 on n1,n2: runs\n" in output
    daemon.says["/v1/jobs/digits"] = story(made.queued(), position=3, reason="WaitingForQuota", message="needs 2 gpu")
    output = windlass("status", "digits").out
    assert output.startswith("digits-1 Queued, position 3: needs 2 gpu (WaitingForQuota)\n")
    assert "attempt" not in output
    assert "started -, ended -" in output


def test_json_status_is_complete(daemon, windlass, made):
    message = daemon.says["/v1/jobs/digits"] = story(made.failed(), TASKS, TWICE)
    assert json.loads(windlass("status", "digits", "-o", "json").out) == message
    assert yaml.safe_load(windlass("status", "digits", "-o", "yaml").out) == message
    assert windlass("status", "digits", "-o", "name").out == "digits-1\n"


def test_an_array_is_a_table_of_its_members(daemon, windlass, made):
    cancelled = made.failed(4, reason="Cancelled")
    members = [
        made.line(state) for state in (made.running(1), made.failed(2, reason="Lost"), made.succeeded(3), cancelled)
    ]
    daemon.says["/v1/jobs/sweep"] = {"id": "sweep-1", "members": members}
    rows = [row.split() for row in windlass("status", "sweep").out.splitlines()]
    assert [row[:4] for row in rows[1:]] == [
        ["digits-1", "Running", "1", "n1,n2"],
        ["digits-2", "Failed", "1", "Lost:"],
        ["digits-3", "Succeeded", "1", "Succeeded"],
        ["digits-4", "Cancelled", "1", "rank"],
    ]


def test_status_without_a_job_shows_the_controller(daemon, windlass):
    daemon.says["/v1/ping"] |= {"waiting": 2, "holding": 1}
    assert windlass("status").out.splitlines() == [
        "windlass up (pid 7, version 0) for 1m30s",
        "cluster: 2 nodes with 4 CPU slots each: 4 cpu, 8 gpu in all",
        "jobs: 1 holds nodes, 2 wait",
        "state: /state",
    ]
    daemon.says["/v1/ping"] |= {"kind": "run", "trouble": "the disk is full"}
    output = windlass("status").out
    assert output.startswith("a `windlass run` (pid 7, ")
    assert output.endswith("trouble: the disk is full\n")


def test_an_unknown_job_is_reported_in_the_words_of_the_daemon(daemon, windlass):
    daemon.says["/v1/jobs/digts"] = ApiError(ErrorCode.NO_SUCH_JOB, "no job is called 'digts'; did you mean digits?")
    for verb in ("status", "logs"):
        assert windlass(verb, "digts") == (4, "", "windlass: no job is called 'digts'; did you mean digits?\n")


# --- why ----------------------------------------------------------------------------------------------

VERDICT = {
    "reason": "WaitingForQuota",
    "message": "needs 2 gpu on one node",
    "eta": NOW + 600_000,
    "certainty": "bound",
}
EXPLANATION = {
    "resource": "gpu",
    "verdict": VERDICT,
    "ahead": [f"j-{number}" for number in range(7)],
    "not_before": None,
    "expected": NOW + 600_000,
    "nodes": [
        {"node": "n9", "fits": 0, "free": 4, "capacity": 4, "cause": "label zone=a", "held_for": ""},
        {"node": "n1", "fits": 0, "free": 1, "capacity": 4, "cause": "", "held_for": "j-0"},
        {"node": "n2", "fits": 1, "free": 2, "capacity": 4, "cause": "", "held_for": ""},
    ],
    "frees": [
        {"job_id": "r-1", "amount": 3, "ends_by": NOW + 600_000, "nodes": [["n1", 3]]},
        {"job_id": "r-2", "amount": 6, "ends_by": None, "nodes": [[f"m{number}", 1] for number in range(6)]},
    ],
    "would_start": [{"change": "-N 1"}, {"change": "--time 5m"}],
}


@pytest.fixture
def explain(daemon, windlass, made):
    def run(*words: str, **more) -> list[str]:
        job = made.line(made.queued(), position=8, reason="WaitingForQuota", message="needs 2 gpu on one node")
        daemon.says["/v1/jobs/digits/why"] = {"job": job, "now": NOW, "explanation": {**EXPLANATION, **more}}
        ran = windlass("why", "digits", *words)
        assert (ran.code, ran.err) == (0, "")
        return ran.out.splitlines()

    return run


def test_an_explanation_has_reason_nodes_and_holders(explain):
    lines = explain()
    assert lines[0] == "digits-1 Queued, position 8: needs 2 gpu on one node (WaitingForQuota)"
    assert lines[1] == "queued behind: j-0,j-1,j-2,j-3,j-4 and 2 more"
    assert lines[2].startswith("starts: by ")
    assert lines[2].endswith("(in 10m00s), unless a job is put ahead of it")
    assert [row.split() for row in lines[3:7]] == [
        ["NODE", "FREE", "GPU", "FITS", "REASON"],
        ["n2", "2/4", "1", "replica", "-"],
        ["n1", "1/4", "0", "replicas", "held", "for", "j-0"],
        ["n9", "4/4", "0", "replicas", "label", "zone=a"],
    ]
    assert lines[7] == "held by:"
    assert lines[8].startswith("  r-1: 3 gpu (3 on n1), by ")
    assert lines[9] == "  r-2: 6 gpu (1 on m0, 1 on m1, 1 on m2, 1 on m3 and 2 more nodes), has no time limit"
    assert lines[10:] == ["would start now: -N 1 | --time 5m"]


def test_an_explanation_without_a_reservation_an_end_and_a_resource(explain):
    assert explain(verdict={**VERDICT, "certainty": "expected"})[2].startswith("starts: ~ ")
    assert explain(expected=None)[2].startswith("NODE")
    assert explain(verdict=None, expected=None, ahead=[])[1].split() == ["NODE", "FREE", "GPU", "FITS", "REASON"]
    assert explain(not_before=NOW + 1)[2].startswith("not before: ")
    assert explain(never="can never run: needs 9 gpu")[2] == "can never run: needs 9 gpu"
    assert explain(keeps_its_size="role worker is not resized")[2] == "size: role worker is not resized"
    free = [{**node, "free": 0, "capacity": 0} for node in EXPLANATION["nodes"]]
    assert "FREE  FITS" in explain(resource="", nodes=free, frees=[], ahead=[], would_start=[])[2]


def test_an_explanation_shows_the_best_of_many_nodes(explain):
    many = [{**EXPLANATION["nodes"][1], "node": f"m{number}", "free": number} for number in range(30)]
    lines = explain(nodes=many, frees=[], would_start=[])
    assert lines[4].split()[0] == "m29"
    assert lines[-1] == "and 10 more nodes (-o json has all)"
    assert len(json.loads("\n".join(explain("-o", "json", nodes=many)))["explanation"]["nodes"]) == 30


def test_the_explanation_of_a_running_job(daemon, windlass, made):
    daemon.says["/v1/jobs/digits/why"] = {"job": made.line(made.running()), "now": NOW}
    assert windlass("why", "digits").out == "digits-1 Running on n1,n2\n"


def test_the_restarts_of_containers_that_run_are_counted(daemon, windlass, made):
    waits = {"reason": "CrashLoopBackOff", "message": "container main of digits-0: back-off 40s"}
    answer = {"job": made.line(made.running()), "now": NOW, "members": waits, "container_restarts": 5}
    daemon.says["/v1/jobs/digits/why"] = answer
    assert windlass("why", "digits").out.splitlines() == [
        "digits-1 Running on n1,n2",
        "restarts in place: container main of digits-0: back-off 40s (CrashLoopBackOff)",
        "kubelets have restarted its containers 5 times",
    ]


# --- what is done -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "expected"),
    [("cancel", "is being cancelled"), ("suspend", "is being suspended"), ("resume", "is back in the queue")],
)
def test_each_job_has_its_own_answer_and_the_last_error_its_code(daemon, windlass, made, verb, expected):
    errors = [("no_such_job", "no job is called 'nonesuch'"), ("wrong_state", "done has ended already (Failed)")]
    daemon.says[f"/v1/{verb}"] = {
        "jobs": [made.line(made.running(1)), made.line(made.running(2))],
        "errors": [{"code": code, "message": message, "fix": ""} for code, message in errors],
    }
    ran = windlass(verb, "sweep", "nonesuch", "done")
    assert ran.code == 5
    assert ran.out == f"digits-1 {expected}\ndigits-2 {expected}\n"
    assert ran.err.splitlines() == [f"windlass: {message}" for _, message in errors]
    assert [(method, body["jobs"]) for method, _, _, body in daemon.asked] == [("POST", ["sweep", "nonesuch", "done"])]


def test_cancel_now(daemon, windlass):
    daemon.says["/v1/cancel"] = {"jobs": [], "errors": []}
    windlass("cancel", "x", "--now")
    assert daemon.asked[-1][3]["now"] is True
    windlass("cancel", "x")
    assert daemon.asked[-1][3]["now"] is False


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        ((), "one-1\ntwo-2\n"),
        (("-o", "name"), "one-1\ntwo-2\n"),
        (("-o", "json"), '[\n  "one-1",\n  "two-2"\n]\n'),
        (("-o", "yaml"), "- one-1\n- two-2\n"),
    ],
)
def test_submit_prints_ids(daemon, windlass, tmp_path, words, printed):
    daemon.says["/v1/jobs"] = {"ids": ["one-1", "two-2"]}
    file = tmp_path / "jobs.yaml"
    file.write_text("name: one\ncommand: 'true'\n---\nname: two\ncommand: 'true'\n")
    assert windlass("submit", str(file), *words) == (0, printed, "")
    body = daemon.asked[-1][3]
    assert [each["job"]["name"] for each in body["submissions"]] == ["one", "two"]
    assert len(body["key"]) == 32
    assert "WINDLASS_STATE" in body["environment"]


def test_variables_that_are_not_text_are_left_out(daemon, windlass, monkeypatch):
    daemon.says["/v1/jobs"] = {"ids": ["x-1"]}
    monkeypatch.setenv("BYTES", "\udcff")
    monkeypatch.setenv("GRÖSSE", "größe")
    windlass("submit", "--", "true")
    assert daemon.asked[-1][3]["environment"]["GRÖSSE"] == "größe"
    assert "BYTES" not in daemon.asked[-1][3]["environment"]


def test_run_detached_prints_the_id(daemon, windlass):
    daemon.says["/v1/jobs"] = {"ids": ["x-1"]}
    assert windlass("run", "--detach", "--", "true") == (0, "x-1\n", "")


# --- down ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "living", "message"),
    [
        (("--yes",), ["a-1"], "windlass is down (pid 7); 1 job cancelled\n"),
        (("--keep-jobs",), ["a-1", "b-2"], "windlass is down (pid 7); 2 jobs keep running\n"),
        (("--keep-jobs",), ["a-1"], "windlass is down (pid 7); 1 job keeps running\n"),
        ((), [], "windlass is down (pid 7)\n"),
    ],
)
def test_down_prints_the_fate_of_the_jobs(daemon, windlass, words, living, message):
    daemon.says["/v1/ping"] |= {"waiting": len(living)}
    daemon.says["/v1/down"] = {"pid": 7, "jobs": living}
    assert windlass("down", *words) == (0, message, "")
    assert daemon.asked[-1][3] == {"keep_jobs": words == ("--keep-jobs",)}


def test_down_without_a_terminal_needs_an_option(daemon, windlass, monkeypatch):
    daemon.says["/v1/ping"] |= {"waiting": 2}
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    ran = windlass("down")
    assert (ran.code, ran.err) == (
        5,
        "windlass: 2 jobs would be cancelled\nadd --yes, or --keep-jobs to leave them running\n",
    )
    assert daemon.asked == []


# --- version ------------------------------------------------------------------------------------------


def test_version(windlass):
    assert windlass("version").out.startswith("windlass ")
    assert windlass("--version") == windlass("version")
    assert list(json.loads(windlass("version", "-o", "json").out)) == ["version", "python", "platform", "installed"]
    assert windlass("version", "-o", "name").out.strip() == windlass("version").out.split()[1]
    assert "python: 3." in windlass("version", "-o", "wide").out
