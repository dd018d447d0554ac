"""`share`, `reserve`, `snapshot`, `replay` and `why` without a job, on the answers of a daemon."""

from __future__ import annotations

import gzip
import json

import msgspec
import pytest
import yaml
from gangs import ledger_of, nodes

from windlass.backends.simulator.traces.jsonl import job_of
from windlass.cli import option_values
from windlass.cli.errors import UsageError
from windlass.core.cycle.scheduler import schedule
from windlass.core.explain.node_choice import node_candidates
from windlass.core.ledger import Ledger
from windlass.core.model.gang import Demand, pending_of
from windlass.core.model.node import Node
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.jobs.cluster.snapshot_file import SnapshotRecord, decisions_of, to_plain

NOW = 1_700_000_000_000
HOUR = 3_600_000
EXAM = {
    "name": "exam",
    "nodes": ["n1", "n2"],
    "start": NOW + HOUR,
    "end": NOW + 2 * HOUR,
    "queues": ["research"],
    "users": [],
    "reason": "",
    "state": "to come",
    "source": "reserve",
    "running": [{"id": "long-3", "ends_by": None, "nodes": ["n1"]}],
}


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


# --- share --------------------------------------------------------------------------------------------


@pytest.fixture
def shares(daemon):
    def queue(name, depth, **more):
        amounts = {part: {} for part in ("quota", "target", "held", "borrowed", "lent", "past")}
        plain = {"parent": "", "weight": 1, "share": 0, "running": 0, "waiting": 0, "next": ""}
        return {"queue": name, "depth": depth, **plain, **amounts, **more}

    held = {"gpu": 6, "cpu": 1_500}
    lab = queue("lab", 0, quota={"gpu": 8}, target={"gpu": 8}, held=held, share=750_000, running=1)
    vision = queue("vision", 1, quota={"gpu": 4}, held=held, borrowed={"gpu": 2}, past={"gpu": 3}, next="big-2")
    daemon.says["/v1/shares"] = {"queues": [lab, vision], "warnings": ["default has no quota"], "now": NOW}


@pytest.mark.usefixtures("shares")
def test_share_shows_the_queue_tree_with_usage(windlass):
    ran = windlass("share")
    assert ran.err == "default has no quota\n"
    head, lab, vision = ran.out.splitlines()
    assert head.split()[:4] == ["QUEUE", "WEIGHT", "GPU", "QUOTA"]
    assert lab.split() == ["lab", "1", "8", "8", "6", "0", "0", "0", "75.0", "%", "1", "0", "-"]
    assert vision.split() == ["·", "vision", "1", "4", "0", "6", "2", "0", "3", "0.0", "%", "0", "0", "big-2"]


@pytest.mark.usefixtures("shares")
def test_share_counts_the_given_resource(windlass):
    assert rows(windlass("share", "--resource", "cpu").out)[1][:5] == ["lab", "1", "-", "0", "1500m"]
    assert windlass("share", "-o", "name").out == "lab\nvision\n"
    assert json.loads(windlass("share", "-o", "json").out)[1]["borrowed"] == {"gpu": 2}


# --- reserve ------------------------------------------------------------------------------------------


def test_reserve_lists_reservations(daemon, windlass):
    daemon.says["/v1/reservations"] = {"reservations": [EXAM]}
    head, exam = windlass("reserve").out.splitlines()
    assert head.split()[0] == "RESERVATION"
    assert exam.split()[0] == "exam"
    assert exam.endswith("n1,n2  queue research  long-3")


def test_reserve_prints_the_reservation_and_its_conflicts(daemon, windlass):
    daemon.says["/v1/reservations"] = EXAM
    ran = windlass("reserve", "exam", "-N", "2", "-G", "4", "--from", "1h", "--for", "1h", "--queue", "research")
    assert ran.out.startswith("reserved 2 nodes (n1,n2) from ")
    assert ran.out.endswith("for queue research: exam\n  long-3 is on n1 and has no time limit\n")
    asked = daemon.asked[-1][3]
    assert asked["end"] - asked["start"] == HOUR
    assert (asked["count"], asked["gpus"], asked["nodes"], asked["queues"]) == (2, 4, [], ["research"])


def test_reserve_deletes(daemon, windlass):
    daemon.says["/v1/reservations/exam"] = {"name": "exam"}
    assert windlass("reserve", "exam", "--delete").out == "reservation exam is deleted\n"
    assert daemon.asked[-1][0] == "DELETE"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "a reservation needs an end\nadd either --for 2h or --until 18:00"),
        (("--for", "soon"), "--for expects a duration such as 90s, 10m, 1h30m or 1-12:00:00, not 'soon'"),
        (("--for", "1h", "--from", "soon"), "--from expects now, 2h, 22:00 or 2026-11-22T08:00, not 'soon'"),
    ],
)
def test_a_reservation_without_an_end_is_refused(daemon, windlass, words, message):
    ran = windlass("reserve", "exam", "-N", "2", *words)
    assert (ran.code, ran.err) == (2, f"windlass: {message}\n")
    assert daemon.asked == []


def test_times_are_relative_or_clock_times_or_dates(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    option_values.time.tzset()
    ten = NOW - NOW % 86_400_000 + 10 * HOUR  # a day's ten o'clock
    assert option_values.parse_time_option("--from", "now", ten) == ten
    assert (
        option_values.parse_time_option("--from", "+90m", ten)
        == option_values.parse_time_option("--from", "1h30m", ten)
        == ten + 5_400_000
    )
    assert option_values.parse_time_option("--from", "10:30", ten) == ten + 1_800_000
    assert option_values.parse_time_option("--from", "9:30", ten) == ten + 24 * HOUR - 1_800_000
    assert option_values.parse_time_option("--from", "2023-11-14T22:13:20Z", ten) == NOW
    with pytest.raises(UsageError, match="not '25:00'"):
        option_values.parse_time_option("--from", "25:00", ten)
    monkeypatch.undo()
    option_values.time.tzset()


# --- snapshots ----------------------------------------------------------------------------------------


@pytest.fixture
def taken(made):
    """A snapshot with two jobs that wait for a node of two GPUs, and a plan that starts the first of them."""
    ledger = Ledger([Node("n1", {"gpu": 2, "memory": 2**40})], [Queue("research")])
    for number in (1, 2):
        ledger.add_pending(pending_of(made.queued(number)))
    plan = schedule(ledger.snapshot(), NOW)
    return SnapshotRecord(ledger.snapshot(), NOW, decisions_of(plan))


def test_a_snapshot_is_written_and_replayed(daemon, windlass, taken, tmp_path):
    daemon.says["/v1/snapshot"] = to_plain(taken)
    file = tmp_path / "s.json.gz"
    wrote = windlass("snapshot", "--planned", str(file))
    assert (wrote.code, wrote.out) == (0, "")
    assert wrote.err.startswith(f"{file}: 1 node, 0 running jobs, 2 waiting, at ")
    assert json.loads(gzip.decompress(file.read_bytes())) == json.loads(json.dumps(to_plain(taken)))
    ran = windlass("replay", str(file))
    assert (ran.code, ran.err) == (0, "same plan as recorded\n")
    assert [row[:4] for row in rows(ran.out)[1:]] == [
        ["digits-1", "-", "starts", "n1"],
        ["digits-2", "1", "waits", "-"],
    ]
    assert "needs 2×1 gpu" in ran.out


def test_a_different_plan_sets_the_exit_code(windlass, taken, tmp_path):
    file = tmp_path / "s.json"
    other = to_plain(taken)
    other["plan"]["admissions"] = {}
    file.write_text(json.dumps(other))
    ran = windlass("replay", str(file))
    assert (ran.code, ran.err) == (1, "not the recorded plan\n")
    assert windlass("replay", str(file), "--policy", "fifo").code == 0


def test_a_snapshot_without_a_file_goes_to_standard_output(daemon, windlass, taken):
    daemon.says["/v1/snapshot"] = to_plain(taken)
    assert json.loads(windlass("snapshot").out) == json.loads(json.dumps(to_plain(taken)))
    assert daemon.asked[-1][2] == {}
    assert yaml.safe_load(windlass("snapshot", "-o", "yaml").out) == json.loads(windlass("snapshot", "-o", "json").out)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("replay", "{folder}/none.json"), "windlass: {folder}/none.json: no such file\n"),
        (("replay", "{folder}/bad.json"), "windlass: {folder}/bad.json: is no snapshot; make one with: "),
        (("replay", "{folder}/good.json", "--policy", "best"), "windlass: --policy: there is no policy 'best'"),
        (("snapshot", "{folder}/none/s.json"), "windlass: {folder}/none/s.json cannot be written: No such file"),
    ],
)
def test_an_unreadable_or_unwritable_file_is_an_error(daemon, windlass, taken, tmp_path, words, message):
    daemon.says["/v1/snapshot"] = to_plain(taken)
    (tmp_path / "bad.json").write_text("{}")
    (tmp_path / "good.json").write_text(json.dumps(to_plain(taken)))
    ran = windlass(*(word.format(folder=tmp_path) for word in words))
    assert ran.code == 2
    assert ran.err.startswith(message.format(folder=tmp_path))


# --- why ----------------------------------------------------------------------------------------------


def test_the_explanation_without_a_job_has_a_line_for_each_waiting_job(daemon, windlass, made):
    first, second = (made.line(made.queued(number), message="needs 2 gpu") for number in (1, 2))
    jobs = [{**first, "would_start": ["1 replica instead of 2"]}, {**second, "would_start": []}]
    daemon.says["/v1/why"] = {"jobs": jobs, "now": NOW}
    _, one, two = windlass("why").out.splitlines()
    assert one.split()[0] == "digits-1"
    assert "with 1 replica instead of 2" in one
    assert two.split()[3:6] == ["-", "-", "needs"]
    assert windlass("why", "-o", "name").out == "digits-1\ndigits-2\n"


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (None, "digits-1 with gpus=1 would start now"),
        (
            {"reason": "WaitingForQuota", "message": "needs 1 gpu", "eta": None, "certainty": ""},
            "digits-1 with gpus=1 would wait: needs 1 gpu (WaitingForQuota)",
        ),
    ],
)
def test_a_what_if_query_answers_whether_the_job_would_start(daemon, windlass, made, verdict, expected):
    found = {"ahead": [], "not_before": None, "expected": NOW, "resource": "gpu", "nodes": [], "frees": []}
    explanation = {**found, "would_start": [], "verdict": verdict}
    daemon.says["/v1/jobs/digits/why"] = {"job": made.line(made.queued()), "now": NOW, "explanation": explanation}
    first, *rest = windlass("why", "digits", "--what-if", "gpus=1").out.splitlines()
    assert first == expected
    assert bool(rest) == bool(verdict), "the details of the wait are printed only if it would wait"
    assert daemon.asked[-1][2] == {"what_if": ["gpus=1"]}


@pytest.mark.parametrize(
    ("compared", "criterion"),
    [
        ([("n2", "", None)], "; no other node fits"),
        ([("n2", "", None), ("n3", "row", None)], "; no other node fits"),
        ([("n2", "", None), ("n4", "replicas", None)], "; n4 takes fewer replicas than n2"),
        ([("n2", "", None), ("n4", "cpu", None)], "; n4 has more cpu free than n2; the tightest fit is taken"),
        ([("n2", "", 7), ("n4", "score", 9)], "; n4 has the score 9, n2 7; the lowest is taken"),
        ([("n2", "", 7), ("n4", "row", 7)], "; n4 is equal to n2 and comes after it by topology and name"),
        (
            [("n2", "", 7), ("n3", "score", 8), ("n4", "cpu", 8)],
            "; n4 has more cpu free than n3; the tightest fit is taken",
        ),
        ([("n2", "", 7), ("n4", "score", 9), ("n3", "replicas", 1)], "; n4 has the score 9, n2 7; the lowest is taken"),
        ([], ""),
    ],
)
def test_a_what_if_query_names_the_nodes_and_the_criterion(daemon, windlass, made, compared, criterion):
    candidates = [{"node": node, "decided_by": by, "score": score} for node, by, score in compared]
    daemon.says["/v1/jobs/digits/why"] = starting(made, [["n2", 2], ["n3", 1]], candidates)
    assert windlass("why", "digits", "--what-if", "gpus=1").out.splitlines()[1:] == [f"on n2 ×2,n3{criterion}"]


def test_truncated_candidates_do_not_claim_that_no_other_node_fits(daemon, windlass, made):
    demand = Demand("worker", 12, {"gpu": 8})
    snapshot = ledger_of(nodes(20)).snapshot()
    candidates = msgspec.to_builtins(node_candidates(snapshot.free, snapshot.table, demand, Policy()))
    daemon.says["/v1/jobs/digits/why"] = starting(made, [[one.name, 1] for one in nodes(20)[:12]], candidates)
    (line,) = windlass("why", "digits", "--what-if", "gpus=1").out.splitlines()[1:]
    assert ";" not in line


def starting(made, on, compared):
    """Returns the answer of a daemon about a gang that would start."""
    explanation = {"verdict": None, "chosen": [{"role": "worker", "nodes": on, "candidates": compared}]}
    return {"job": made.line(made.queued()), "now": NOW, "explanation": explanation}


def test_a_what_if_query_without_a_job_is_refused(windlass):
    assert windlass("why", "--what-if", "gpus=1").err == "windlass: --what-if is about one job; name it\n"


# --- listings -----------------------------------------------------------------------------------------


def test_history_as_json_lines_is_a_trace(daemon, windlass, lines):
    daemon.says["/v1/history"] = {"jobs": lines("succeeded", "failed")}
    printed = windlass("history", "-o", "jsonl").out.splitlines()
    jobs = [job_of(line, row) for row, line in enumerate(printed, start=1)]
    assert [(job.id, job.submit, job.duration) for job in jobs] == [
        ("digits-1", NOW, HOUR),
        ("digits-2", NOW, 64_000),
    ]
    assert [(job.replicas, job.gpus, job.user, job.queue) for job in jobs] == [(2, 1, "zoë", "research")] * 2
