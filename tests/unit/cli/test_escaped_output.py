"""Text of other users and tenants in every field: no verb lets it control the terminal."""

from __future__ import annotations

import gc
import json
import re
import sys
from pathlib import Path

import pytest
import yaml
from test_listings import NODES
from test_planning_verbs import EXAM
from test_status_and_why import EXPLANATION, TASKS, TWICE, story

import windlass as package
from windlass.backends.local.logs import LogFile, LogLine
from windlass.backends.local.paths import StatePaths
from windlass.cli.terminal.escaped_stream import escaped_output, unescaped
from windlass.cli.terminal.screen import Screen
from windlass.server.errors import ApiError, ErrorCode
from windlass.wire import escape_controls, escape_line

NOW = 1_700_000_000_000
HOSTILE = (
    "\x1b]0;title\x07\x1b[2J\x1b[1A\x1b[8mhidden\x1b(0\x00\x08\x0b\x0c\x0e\x7f\x80\x85\x9b2J\x9d"
    "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\r"
)
COLOURED = "\x1b[1;31mred\x1b[38;5;208mx\x1b[48;2;1;2;3my\x1b[0m\x1b[m"
_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_FIXED = frozenset({"phase", "kind", "certainty", "decided_by", "event", "before", "after"})
"""Fields whose values come from a closed set of Windlass."""


@pytest.fixture(autouse=True)
def _collector():
    """The verb `simulate` changes the collector of the process."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def poison(value, key=""):
    """Appends controls to every text of an answer."""
    if isinstance(value, dict):
        return {name: poison(each, name) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [poison(each, key) for each in value]
    return value + HOSTILE if isinstance(value, str) and key not in _FIXED else value


@pytest.fixture
def hostile(daemon, made, lines):
    """A daemon all of whose texts contain controls."""
    job = made.line(made.queued(), position=8, reason="WaitingForQuota", message="needs 2 gpu")
    nodes = [{**NODES[0], "capacity": {f"x.y/{HOSTILE}": 4}, "labels": {HOSTILE: "a"}}, NODES[1]]
    amounts = {part: {"gpu": 1} for part in ("quota", "target", "held", "borrowed", "lent", "past")}
    plain = {"parent": "", "depth": 0, "weight": 1, "share": 0, "running": 0, "waiting": 0, "next": "big-2"}
    for path, answer in {
        "/v1/ping": {"trouble": "full", "version": "1", "cluster": "2 nodes", "state": "/state"},
        "/v1/jobs": {
            "jobs": [{**line, "progress": None} for line in lines("running", "queued", "failed", "succeeded")]
        },
        "/v1/history": {"jobs": lines("failed", "succeeded")},
        "/v1/nodes": {"nodes": nodes},
        "/v1/jobs/digits": story(made.failed(), TASKS, TWICE),
        "/v1/jobs/digits/why": {"job": job, "now": NOW, "explanation": EXPLANATION},
        "/v1/why": {"jobs": [{**job, "would_start": ["1 replica instead of 2"]}], "now": NOW},
        "/v1/shares": {"queues": [{"queue": "lab", **plain, **amounts}], "warnings": ["no quota"], "now": NOW},
        "/v1/reservations": {"reservations": [EXAM]},
        "/v1/cancel": {"jobs": lines("running"), "errors": [{"code": "no_such_job", "message": "none", "fix": "x"}]},
    }.items():
        known = daemon.says[path] if path == "/v1/ping" else {}
        daemon.says[path] = known | json.loads(json.dumps(poison(answer)))
    daemon.says["/v1/jobs/none"] = ApiError(ErrorCode.NO_SUCH_JOB, f"no job{HOSTILE}", f"try{HOSTILE}")
    return daemon


def assert_harmless(ran):
    for text in (ran.out, ran.err):
        assert not _HARMFUL.search(text), repr(text)
    assert ran.out or ran.err


LISTINGS = [("queue",), ("nodes",), ("history",), ("why",), ("share",), ("reserve",)]
DETAILS = [("status",), ("status", "digits"), ("why", "digits"), ("top",)]


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize("form", ["table", "wide", "json", "jsonl", "yaml", "name"])
@pytest.mark.parametrize("words", [*LISTINGS, *DETAILS], ids=" ".join)
def test_listings_and_details_are_harmless_in_every_format(windlass, words, form):
    ran = windlass(*words, "-o", form)
    assert ran.code in (0, 2), ran.err
    assert_harmless(ran)


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize("words", [("queue",), ("nodes",), ("history",), ("status", "digits")], ids=" ".join)
def test_programs_read_the_text_as_it_was(windlass, hostile, words):
    path = {"queue": "/v1/jobs", "status": "/v1/jobs/digits"}.get(words[0], f"/v1/{words[0]}")
    answer = hostile.says[path]
    expected = answer if words[0] == "status" else next(iter(answer.values()))
    assert json.loads(windlass(*words, "-o", "json").out) == expected
    assert yaml.safe_load(windlass(*words, "-o", "yaml").out) == expected


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize(
    "words",
    [
        ("status", "none"),
        ("logs", "none"),
        ("cancel", "digits", HOSTILE),
        ("explain", HOSTILE),
        ("render", HOSTILE),
        ("run", "-f", HOSTILE.replace("\0", "")),
        ("simulate", HOSTILE.replace("\0", "")),
        ("replay", HOSTILE.replace("\0", "")),
        ("checkpoint", "ls", HOSTILE.replace("\0", "")),
        ("logs", "digits", "--grep", f"[{HOSTILE}"),
        (HOSTILE,),
        ("queue", f"--{HOSTILE}"),
        ("queue", "-o", HOSTILE),
    ],
    ids=lambda words: words[0] if words[0] != HOSTILE else "verb",
)
def test_errors_are_harmless(windlass, words):
    ran = windlass(*words)
    assert ran.code
    assert_harmless(ran)


def test_errors_in_files_are_harmless(windlass, tmp_path):
    safe = HOSTILE.replace("\r", "").replace("\0", "")
    for name, text in {
        "job.yaml": f"name: a\nqueeue{safe}: {safe}\n",
        "trace.jsonl": json.dumps({"id": HOSTILE, "submit": HOSTILE, HOSTILE: 1}),
        "trace.csv": f"timestamp,duration,num_gpus\n{safe},{safe},{safe}\n",
        "snapshot.json": json.dumps({"version": HOSTILE}),
    }.items():
        (tmp_path / name).write_text(text)
        for words in (("render", "-f"), ("simulate",), ("replay",)):
            ran = windlass(*words, str(tmp_path / name))
            assert ran.code
            assert_harmless(ran)


def test_output_of_ranks_is_harmless_and_coloured_unless_it_is_bare(windlass, daemon, made, tmp_path):
    folder = StatePaths(tmp_path / "state").generation_logs("digits-1", 1)
    folder.mkdir(parents=True)
    (folder / "0.out").write_text(f"{HOSTILE}{COLOURED}\n[r1 n2] forged\r[r0\n", newline="")
    tasks = [{"generation": 1, "rank": 0, "node": f"n1{HOSTILE}"}]
    daemon.says["/v1/jobs/digits"] = daemon.says["/v1/jobs/digits-1"] = made.line(made.running()) | {"tasks": tasks}

    shown = windlass("logs", "digits").out
    assert COLOURED in shown
    assert not _HARMFUL.search(shown.replace(COLOURED, ""))
    assert [line[:3] for line in shown.splitlines()] == ["[r0", "[r0"]
    assert HOSTILE[:-1] in windlass("logs", "digits", "--bare").out


def _line(text: str) -> LogLine:
    return LogLine(LogFile("job-1", 1, 0, "out", Path("0.out")), 0, text)


def test_a_progress_bar_is_shown_as_a_terminal_would(capsys):
    Screen(no_color=True).rank(_line("10%\r20%\r30%\r"), {})
    assert capsys.readouterr().out == "[r0] 30%\n"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_all_that_is_printed_is_escaped_and_the_streams_are_restored(capsys, stream):
    before = sys.stdout, sys.stderr
    with escaped_output():
        print(f"a{HOSTILE}b", file=getattr(sys, stream))
        getattr(sys, stream).writelines([HOSTILE])
        with escaped_output():
            assert unescaped(sys.stdout) is before[0]
        print("\x1b[2J", end="", file=unescaped(getattr(sys, stream)))
    assert (sys.stdout, sys.stderr) == before
    text = getattr(capsys.readouterr(), stream[3:])
    assert text.count("\\u001b]0;title\\u0007\\u001b[2J") == 2
    assert not _HARMFUL.search(text.replace("\x1b[2J", "", 1))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain größe\t\n", "plain größe\t\n"),
        (COLOURED, COLOURED),
        ("\x1b[8mx", "\\u001b[8mx"),
        ("\x1b[5mx\x1b[1;8mx", "\\u001b[5mx\\u001b[1;8mx"),
        ("\x1b[38;5;8m", "\x1b[38;5;8m"),
        ("\x1b[31", "\\u001b[31"),
        ("\x9b31m", "\\u009b31m"),
        ("a\rb", "a\\u000db"),
        ("\u202eexe.txt", "\\u202eexe.txt"),
    ],
)
def test_controls_are_escaped_as_in_json_and_colours_are_left(text, shown):
    assert escape_controls(text) == shown


def test_a_line_of_a_program_starts_over_at_a_carriage_return():
    assert escape_line("abc\rde\x1b[K\r") == "de\\u001b[K"


def test_no_other_code_of_the_command_line_writes_past_the_escaping():
    folder = Path(package.__file__).parent / "cli"
    past = re.compile(r"\.buffer\b|__std(out|err)__|\bos\.write\(|\bunescaped\(")
    found = {path.name for path in folder.rglob("*.py") if past.search(path.read_text())}
    assert found == {"escaped_stream.py", "output.py", "progress.py", "screen.py", "pod_exec.py", "lint.py"}
