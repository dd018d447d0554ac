"""Listings in every format: on a terminal, in a pipe, and for programs."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from windlass.backends.simulator.traces.jsonl import job_of
from windlass.cli.terminal.output import Column, Format, Listing, show

NOW = 1_700_000_000_000
LONG = "needs 8 gpu on one node: 3 free on 2 nodes (3 in pieces of the right size); " * 4
NODES = [
    {
        "name": "n1",
        "state": "ready",
        "cordoned": "",
        "capacity": {"cpu": 4_000, "memory": 8 << 30, "gpu": 4},
        "used": {"cpu": 500, "memory": 3 << 29, "gpu": 3},
        "jobs": [{"id": f"j-{number}", "holds": {"gpu": 1}} for number in range(6)],
        "labels": {"zone": "a"},
        "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
        "place": [],
        "reservations": [{"name": "exam", "start": NOW, "end": NOW + 60_000, "maintenance": False}],
    },
    {
        "name": "n2",
        "state": "cordoned",
        "cordoned": "Xid 79",
        "capacity": {"cpu": 4_000},
        "used": {"cpu": 0},
        "jobs": [],
        "labels": {},
        "taints": [],
        "place": [],
        "reservations": [],
    },
]


@pytest.fixture
def listed(daemon, lines):
    """A daemon in which one job runs, one waits and two have ended."""
    waits = {"position": 1, "reason": "WaitingForQuota", "message": LONG}
    daemon.says["/v1/jobs"] = {"jobs": [*lines("running"), *lines("running", "queued", **waits)[1:]]}
    daemon.says["/v1/history"] = {"jobs": lines("failed", "succeeded")}
    daemon.says["/v1/nodes"] = {"nodes": NODES}
    return daemon


def table(text: str) -> list[list[str]]:
    return [row.split() for row in text.splitlines()]


def test_the_queue(listed, windlass):
    ran = windlass("queue")
    assert (ran.code, ran.err) == (0, "")
    head, first, second = table(ran.out)
    assert head == ["JOB", "QUEUE", "PRIO", "STATE", "FOR", "GANG", "ATTEMPT", "POS", "NODES", "(WHY)"]
    assert [*first[:4], *first[5:]] == ["digits-1", "research", "0", "Running", "2×2", "1", "-", "n1,n2"]
    assert [*second[:4], *second[5:9]] == ["digits-2", "research", "0", "Queued", "2×2", "0", "1", "needs"]


def test_an_elastic_job_is_shown_with_its_range_and_size(daemon, made, windlass):
    for nodes, shown in (([], "1–4×2"), (["n1"], "1–4×2, now 3")):
        row = made.line(made.queued(), elastic=[1, 4], replicas=3, ranks=6, nodes=nodes)
        daemon.says["/v1/jobs"] = {"jobs": [row]}
        assert f"  {shown}  " in windlass("queue").out


def test_history(listed, windlass):
    ran = windlass("history")
    head, first, second = table(ran.out)
    assert head == ["JOB", "STATE", "EXIT", "SUBMITTED", "ENDED", "WAITED", "RAN", "ATTEMPTS", "REASON", "VERDICT"]
    assert [first[0], first[1], first[2], *first[-5:]] == [
        "digits-1",
        "Failed",
        "3",
        "s",
        "1m04s",
        "1",
        "ExitCode",
        "-",
    ]
    assert [second[2], *second[-6:]] == ["0", "40", "ms", "1h00m", "1", "Succeeded", "-"]


def test_a_job_that_was_preempted_ran_only_while_it_held_nodes(daemon, made, windlass):
    hours = {"attempts": 2, "finished_at": NOW + 10 * 3_600_000, "run_time": 3 * 3_600_000}
    daemon.says["/v1/history"] = {"jobs": [made.line(made.succeeded(), **hours)]}
    assert "  7h00m  3h00m         2  Succeeded" in windlass("history").out
    assert job_of(windlass("history", "-o", "jsonl").out, 1).duration == 3 * 3_600_000


@pytest.mark.parametrize("how", ["table", "jsonl", "name"])
def test_a_truncated_listing_is_noted_on_stderr(listed, windlass, how):
    cut, whole = windlass("history", "--limit", "2", "-o", how), windlass("history", "--limit", "3", "-o", how)
    assert (cut.err, whole.err) == ("only 2 are shown; --limit shows more\n", "")
    assert cut.out == whole.out


def test_nodes(listed, windlass):
    _, first, second = table(windlass("nodes").out)
    assert first == ["n1", "ready", "3/4", "500m/4", "1.5Gi/8Gi", "j-0,j-1,j-2,j-3", "and", "2", "more"]
    assert second == ["n2", "Xid", "79", "-", "0/4", "-", "-"]


@pytest.mark.parametrize("state", ["maintenance", "reserved"])
def test_a_reserved_node_shows_the_end_of_its_reservation(daemon, windlass, state):
    repair = {"name": "repair", "start": NOW - 60_000, "end": NOW + 60_000, "maintenance": True}
    daemon.says["/v1/nodes"] = {"nodes": [{**NODES[0], "state": state, "reservations": [repair]}]}
    assert f"n1    {state} until 2023-11-14 22:14 (repair)  " in windlass("nodes").out


@pytest.mark.parametrize(
    ("verb", "more"),
    [
        ("queue", {"USER": "zoë", "REQUESTS": "2 gpu, 6Gi memory", "STARTS": "-", "REASON": "Running"}),
        ("history", {"USER": "zoë", "REQUESTED": "2 gpu", "MESSAGE": "rank 0 (worker/0) on n1 exited with code 3"}),
        ("nodes", {"RESERVED": "exam 2023-11-14 22:13 to 2023-11-14 22:14", "LABELS": "zone=a"}),
        ("nodes", {"TAINTS": "gpu=yes:NoSchedule"}),
    ],
)
def test_wide_listings_have_more_columns(listed, windlass, verb, more):
    narrow, wide = windlass(verb).out, windlass(verb, "-o", "wide").out
    for title, cell in more.items():
        assert title in wide.splitlines()[0]
        assert title not in narrow.splitlines()[0].replace("SUBMITTED", "")
        assert cell in wide.splitlines()[1]


@pytest.mark.parametrize("verb", ["queue", "history", "nodes"])
def test_json_and_yaml_are_the_answer_of_the_daemon(listed, windlass, verb):
    answer = next(iter(listed.says[{"queue": "/v1/jobs"}.get(verb, f"/v1/{verb}")].values()))
    as_json, as_yaml = windlass(verb, "-o", "json").out, windlass(verb, "-o", "yaml").out
    assert json.loads(as_json) == yaml.safe_load(as_yaml) == answer
    assert "\\u" not in as_json + as_yaml


@pytest.mark.parametrize(
    ("verb", "names"), [("queue", "digits-1\ndigits-2\n"), ("history", "digits-1\ndigits-2\n"), ("nodes", "n1\nn2\n")]
)
def test_a_listing_of_names_has_only_names(listed, windlass, verb, names):
    assert windlass(verb, "-o", "name").out == names


@pytest.mark.parametrize(
    ("verb", "message"), [("queue", "no job waits or runs"), ("history", "no job has ended yet"), ("nodes", "no nodes")]
)
def test_notes_are_not_printed_to_stdout(listed, windlass, verb, message):
    listed.says |= {"/v1/jobs": {"jobs": []}, "/v1/history": {"jobs": []}, "/v1/nodes": {"nodes": []}}
    ran = windlass(verb)
    assert (ran.code, ran.out) == (0, "")
    assert message in ran.err
    assert windlass(verb, "-o", "json") == (0, "[]\n", "")
    assert windlass(verb, "-o", "yaml") == (0, "[]\n", "")
    assert windlass(verb, "-o", "name") == (0, "", "")


def test_an_unknown_state_is_refused(listed, windlass):
    ran = windlass("queue", "--phase", "Queued,Runing")
    assert (ran.code, ran.err) == (2, "windlass: --phase: there is no state 'Runing'; did you mean 'Running'?\n")


def test_filters_are_applied_by_the_daemon(listed, windlass):
    windlass("queue", "-a", "--phase", "Queued,Running", "--name", "x", "-u", "ada", "--queue", "q", "--limit", "5")
    asked = {"phase": ["Queued,Running"], "name": ["x"], "user": ["ada"], "queue": ["q"], "limit": ["5"]}
    method, path, filters, _ = listed.asked[-1]
    assert (method, path) == ("GET", "/v1/jobs")
    assert filters.pop("all")
    assert filters == asked
    windlass("history", "--since", "2h", "--user", "ada")
    filters = listed.asked[-1][2]
    assert (filters["user"], filters["limit"], len(filters["since"][0])) == (["ada"], ["100"], 13)


# --- tables -------------------------------------------------------------------------------------------

LISTING = Listing(
    (
        Column("NAME", lambda row: row["name"], style=lambda _row: "red"),
        Column("N", lambda row: str(row["n"]), right=True),
        Column("WHY", lambda row: row["why"]),
    ),
    key="name",
    empty="none",
)
ROWS = [
    {"name": "größe", "n": 7, "why": LONG},
    {"name": "漢字", "n": 12, "why": ""},
    {"name": "e\u0301", "n": 1, "why": "a\nb"},
]


def test_columns_are_aligned_for_any_characters(capsys):
    show(LISTING, ROWS, Format.TABLE, paint=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "NAME    N  WHY"
    assert lines[1] == f"größe   7  {' '.join(LONG.split())}"  # a pipe has no width: nothing is cut
    assert lines[2] == "漢字   12  -"  # each of the two is two columns wide
    assert lines[3] == "e\u0301       1  a b"  # one column, two characters; a cell stays on its line


@pytest.fixture
def painted(capsys, monkeypatch):
    """`painted(width)` returns the table on a terminal of this width, with and without its colors."""

    def paint(width: int) -> tuple[list[str], list[str]]:
        for name, value in {"COLUMNS": str(width), "TERM": "xterm-256color", "FORCE_COLOR": "1"}.items():
            monkeypatch.setenv(name, value)
        show(LISTING, ROWS, Format.TABLE, paint=True)
        coloured = capsys.readouterr().out.splitlines()
        return coloured, [re.sub(r"\x1b\[[0-9;]*m", "", each).rstrip() for each in coloured]

    return paint


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_last_cell_is_cut_at_the_width_of_the_terminal(painted, width):
    coloured, plain = painted(width)
    assert "\x1b[31mgröße" in coloured[1]
    assert plain[0] == "NAME    N  WHY"
    assert plain[1] == f"größe   7  {' '.join(LONG.split())}"[: width - 1] + "…"
    assert plain[2:] == ["漢字   12  -", "e\u0301       1  a b"]


def test_a_narrow_terminal_loses_no_column(painted):
    _, plain = painted(12)
    assert plain[1] == "größe   7  needs 8 gpu on one …"
    assert painted(1)[1] == plain


@pytest.mark.parametrize(
    ("words", "environment", "tty", "painted"),
    [
        ((), {}, True, True),
        ((), {}, False, False),
        (("--no-color",), {}, True, False),
        ((), {"NO_COLOR": "1"}, True, False),
        ((), {"NO_COLOR": ""}, True, True),
        ((), {"TERM": "dumb"}, True, False),
    ],
)
def test_colors_depend_on_terminal_option_and_environment(
    listed, windlass, monkeypatch, words, environment, tty, painted
):
    for name, value in ({"TERM": "xterm", "FORCE_COLOR": "1", "COLUMNS": "300"} | environment).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: tty)
    assert ("\x1b[" in windlass("queue", *words).out) is painted
    assert "\x1b[" not in windlass("queue", *words, "-o", "json").out


def test_watch_prints_again_on_a_change(daemon, lines, windlass, monkeypatch):
    looks = [{"jobs": lines("queued")}, {"jobs": lines("queued")}, {"jobs": lines("running")}]
    monkeypatch.setattr(
        "time.sleep", lambda _seconds: daemon.says.update({"/v1/jobs": looks.pop(0)} if looks else gone())
    )
    daemon.says["/v1/jobs"] = {"jobs": lines("queued")}

    def gone():
        raise KeyboardInterrupt

    ran = windlass("queue", "--watch", "-o", "name")
    assert (ran.code, ran.out) == (130, "digits-1\ndigits-1\n")
