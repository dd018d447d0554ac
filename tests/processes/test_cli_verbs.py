"""Every other verb against a real daemon: its output for people and for programs, and its errors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from ast import literal_eval
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from terminal import daemon, environment, facts, ok, phase, start, start_daemon, terminal, until, windlass

import strays

SLEEPS = ("--", "sleep", "100")


@pytest.fixture
def up(state: Path) -> Iterator[Path]:
    """A daemon with one node of four slots."""
    with daemon(state, "--local-nodes", "1", "--local-gpus", "4"):
        yield state


@pytest.fixture
def crowded(up: Path) -> Path:
    """Three jobs that each request three of the four slots."""
    return crowd(up)


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A running, a waiting and a cancelled job, for tests that change nothing."""
    state = tmp_path_factory.mktemp("listed") / "state"
    with daemon(state, "--local-nodes", "1", "--local-gpus", "4"):
        ok(crowd(state), "cancel", "three")
        yield state
    strays.assert_none_left([state])


def crowd(state: Path) -> Path:
    for name in ("one", "two", "three"):
        ok(state, "submit", "--name", name, "-G", "3", *SLEEPS)
    phase(state, "one", "Running")
    return state


def test_the_verb_why_prints_exact_counts_and_holders(crowded: Path):
    output = ok(crowded, "why", "two")
    assert "two-2 Queued, position 1: needs 3 gpu on one node: 1 free on 1 node" in output
    assert re.search(r"^n1 +1/4 +0 replicas", output, re.MULTILINE)
    assert "one-1: 3 gpu (3 on n1), has no time limit" in output

    behind = ok(crowded, "why", "three")
    assert "position 2" in behind
    assert "behind: two-2" in behind

    answer = facts(crowded, "why", "two")
    assert (answer["explanation"]["verdict"]["free"], answer["explanation"]["verdict"]["fits"]) == (1, 0)
    assert [each["job_id"] for each in answer["explanation"]["frees"]] == ["one-1"]
    assert ok(crowded, "why", "one").startswith("one-1 Running on n1")


def test_the_queue_lists_running_jobs_before_waiting_ones(crowded: Path):
    ok(crowded, "cancel", "three")
    table = ok(crowded, "queue").splitlines()
    assert table[0].split() == ["JOB", "QUEUE", "PRIO", "STATE", "FOR", "GANG", "ATTEMPT", "POS", "NODES", "(WHY)"]
    assert [line.split()[0] for line in table[1:]] == ["one-1", "two-2"]
    assert ok(crowded, "queue", "--phase", "Queued", "-o", "name") == "two-2\n"
    assert "USER" in ok(crowded, "queue", "-o", "wide").splitlines()[0]


@pytest.mark.parametrize(
    "words", [("queue",), ("nodes",), ("history",), ("status",), ("status", "one"), ("why", "two"), ("version",)]
)
def test_every_listing_is_json_and_yaml_alike(listed: Path, words: tuple[str, ...]):
    as_json = json.loads(ok(listed, *words, "-o", "json"))
    as_yaml = yaml.safe_load(ok(listed, *words, "-o", "yaml"))
    assert type(as_json) is type(as_yaml)
    if isinstance(as_json, list):
        assert as_json
        assert [list(row) for row in as_json] == [list(row) for row in as_yaml]
    ok(listed, *words, "-o", "wide")
    ok(listed, *words, "-o", "name")


def test_a_table_has_colors_only_on_a_terminal_and_not_with_no_color(crowded: Path):
    for words, env, painted in (
        (["queue"], {}, True),
        (["queue", "--no-color"], {}, False),
        (["queue"], {"NO_COLOR": "1"}, False),
    ):
        with terminal(crowded, *words, env=env) as screen:
            screen.expect("two-2")
            assert screen.wait() == 0
            assert (b"\x1b[" in screen.raw) is painted
    assert "\x1b" not in ok(crowded, "queue")


def test_watch_shows_changes_until_ctrl_c(crowded: Path):
    with terminal(crowded, "queue", "--watch", "--no-color") as screen:
        screen.expect("two-2")
        ok(crowded, "cancel", "one")
        screen.expect(r"two-2 +default +0 +Running")
        screen.ctrl_c()
        assert screen.wait() == 130


def test_cancel_suspend_resume(crowded: Path):
    assert ok(crowded, "suspend", "one") == "one-1 is being suspended\n"
    phase(crowded, "one", "Suspended")
    phase(crowded, "two", "Running")
    assert ok(crowded, "resume", "one") == "one-1 is back in the queue\n"

    ran = windlass(crowded, "cancel", "two", "nonesuch", "three")
    assert ran.returncode == 4
    assert ran.stdout == "two-2 is being cancelled\nthree-3 is being cancelled\n"
    assert "no job is called 'nonesuch'" in ran.stderr

    phase(crowded, "two", "Failed")
    again = windlass(crowded, "cancel", "two")
    assert again.returncode == 5
    assert again.stderr.startswith("windlass: two has ended already: cancelled by ")
    assert windlass(crowded, "resume", "one-1").returncode == 5


def test_status_lists_every_attempt_with_its_cause(up: Path):
    ok(up, "submit", "--name", "twice", "--restarts", "1", "--", "sh", "-c", "exit $((4 + WINDLASS_GENERATION))")
    phase(up, "twice", "Failed")
    output = ok(up, "status", "twice")
    assert re.search(r"attempt 1 on n1, ran .*: ExitCode: rank 0 \(worker/0\) on n1 exited with code 5", output)
    assert re.search(r"attempt 2 on n1, ran .*: ExitCode: rank 0 \(worker/0\) on n1 exited with code 6", output)
    assert "Queued → Admitted" in ok(up, "status", "twice", "-o", "wide")


# --- logs -----------------------------------------------------------------------------------------------------


def test_logs_by_rank_attempt_stream_pattern_and_tail(up: Path, tmp_path: Path):
    marker = f"{tmp_path}/$WINDLASS_GENERATION"
    script = (
        f"echo a$WINDLASS_GENERATION; echo b >&2; echo c; touch {marker}.$RANK; "
        f"until test -e {marker}.0 -a -e {marker}.1; do sleep 0.01; done; test $WINDLASS_GENERATION = 2"
    )
    ok(up, "submit", "--name", "said", "--procs", "2", "--restarts", "1", "--", "sh", "-c", script)
    phase(up, "said", "Succeeded")

    def lines(*words: str) -> list[str]:
        ran = windlass(up, "logs", "said", *words)
        assert ran.returncode == 0, ran.stderr
        return sorted((ran.stdout + ran.stderr).splitlines())

    assert lines("--rank", "1") == ["[r1 n1] a2", "[r1 n1] b", "[r1 n1] c"]
    assert lines("--rank", "0", "--attempt", "1", "--stdout") == ["[r0 n1] a1", "[r0 n1] c"]
    assert lines("--attempt", "all", "--grep", "^a") == ["[r0 n1] a1", "[r0 n1] a2", "[r1 n1] a1", "[r1 n1] a2"]
    assert lines("--stderr", "--bare") == ["b", "b"]
    assert lines("--rank", "0", "--stdout", "--tail", "1") == ["[r0 n1] c"]
    assert lines("--since", "1h", "--rank", "0", "--stdout") == ["[r0 n1] a2", "[r0 n1] c"]

    missing = windlass(up, "logs", "said", "--attempt", "7")
    assert missing.returncode == 2
    assert "there are: 1, 2" in missing.stderr


def test_logs_f_waits_for_the_first_line_and_ends_with_the_job(up: Path, tmp_path: Path):
    go = tmp_path / "go"
    ok(up, "submit", "--name", "late", "--", "sh", "-c", f"until test -e {go}; do sleep 0.02; done; echo one; echo two")
    following = start(up, "logs", "-f", "late")
    phase(up, "late", "Running")
    go.touch()
    output, _ = following.communicate(timeout=30)
    assert following.returncode == 0
    assert output == "[r0 n1] one\n[r0 n1] two\n"


def test_logs_f_continues_over_a_restart_and_without_a_daemon(up: Path, tmp_path: Path):
    go = tmp_path / "go"
    script = (
        f"echo attempt $WINDLASS_GENERATION; until test -e {go}; do sleep 0.02; done; test $WINDLASS_GENERATION = 2"
    )
    ok(up, "submit", "--name", "again", "--restarts", "1", "--", "sh", "-c", script)
    with terminal(up, "logs", "-f", "again") as screen:
        screen.expect("attempt 1")
        ok(up, "down", "--keep-jobs")
        go.touch()
        start_daemon(up)
        screen.expect("attempt 2")
        assert screen.wait() == 0


def test_history_status_and_logs_need_no_daemon(state: Path):
    ok(state, "run", "--name", "past", "--", "echo", "gone by")
    assert [job["id"] for job in facts(state, "history")] == ["past-1"]
    assert ok(state, "logs", "past") == "[r0 n1] gone by\n"
    assert "past-1 Succeeded" in ok(state, "status", "past")
    assert ok(state, "queue", "-o", "json") == "[]\n"
    assert re.match(r"as of .*\(no daemon runs; start one with: windlass up -d\)\n", windlass(state, "queue").stderr)
    assert windlass(state, "nodes").returncode == 69


# --- submit, render, files ------------------------------------------------------------------------------------


def test_a_file_of_jobs_is_submitted_completely_or_not_at_all(up: Path, tmp_path: Path):
    file = tmp_path / "jobs.yaml"
    file.write_text("name: prep\ncommand: 'true'\n---\nname: train\ngpus: 2\nafter: [prep]\ncommand: 'true'\n")
    assert ok(up, "submit", str(file)).split() == ["prep-1", "train-2"]
    phase(up, "train", "Succeeded")

    file.write_text("name: fits\ncommand: 'true'\n---\nname: never\ngpus: 9\ncommand: 'true'\n")
    ran = windlass(up, "submit", str(file))
    assert ran.returncode == 3
    assert ran.stdout == ""
    assert "never can never run here" in ran.stderr
    assert not facts(up, "queue", "--all", "--name", "fits")


def test_a_wrong_file_is_reported_with_line_and_caret(up: Path, tmp_path: Path):
    file = tmp_path / "job.yaml"
    file.write_text("name: x\ngpuz: 2\ncommand: 'true'\n")
    ran = windlass(up, "submit", str(file))
    assert ran.returncode == 2
    assert "job.yaml:2:1" in ran.stderr
    assert "^^^^" in ran.stderr


def test_submit_needs_a_daemon_that_stays(state: Path, tmp_path: Path):
    go = tmp_path / "go"
    run = start(state, "run", "--", "sh", "-c", f"until test -e {go}; do sleep 0.02; done")
    until(state, "it['holding'] == 1", "status")
    ran = windlass(state, "submit", "--", "true")
    assert ran.returncode == 69
    assert "only a `windlass run`" in ran.stderr
    go.touch()
    run.communicate(timeout=30)


def test_the_output_of_render_runs_as_the_same_job(up: Path, tmp_path: Path):
    rendered = ok(up, "render", "--procs", "2", "--env", "A=b", "--", "sh", "-c", "echo $A $RANK")
    (tmp_path / "again.yaml").write_text(rendered)
    assert ok(up, "render", "-f", str(tmp_path / "again.yaml")) == rendered
    assert json.loads(ok(up, "render", "-f", str(tmp_path / "again.yaml"), "-o", "json"))["procs"] == 2


def test_render_prints_the_launcher_that_run_would_choose(state: Path, tmp_path: Path):
    words = ("render", "--procs", "2", "--", sys.executable, str(tmp_path / "train.py"))
    (tmp_path / "train.py").write_text("import torch\n")
    rendered = yaml.safe_load(ok(state, *words))
    assert rendered["launcher"] == "agent"
    (tmp_path / "train.py").write_text("import math\n")
    assert yaml.safe_load(ok(state, *words))["launcher"] == "plain"


def test_explain_and_schema(state: Path):
    assert "Failures of the program" in ok(state, "explain", "job.restart.user")
    wrong = windlass(state, "explain", "job.restart.usr")
    assert wrong.returncode == 2
    assert "user" in wrong.stderr
    assert json.loads(ok(state, "schema"))["$schema"].startswith("https://json-schema.org/")


# --- alloc ----------------------------------------------------------------------------------------------------


def test_alloc_holds_nodes_while_a_command_runs(up: Path):
    ran = windlass(up, "alloc", "-G", "2", "--", "sh", "-c", "echo $WINDLASS_JOB_ID on $WINDLASS_NODE; exit 9")
    assert ran.returncode == 9
    assert ran.stdout == "alloc-1 on n1\n"
    scenario = facts(up, "status", "alloc")
    assert (scenario["phase"], scenario["attempts"]) == ("Succeeded", 1)


def test_an_allocation_is_released_when_its_shell_is_killed(up: Path):
    with terminal(up, "alloc", "-G", "4", env={"SHELL": "/bin/sh", "PS1": "held> "}) as screen:
        screen.expect("held> ")
        assert facts(up, "nodes")[0]["used"]["gpu"] == 4
        screen.kill()
    until(up, "it[0]['used']['gpu'] == 0", "nodes")
    assert facts(up, "status", "alloc")["reason"] == "Cancelled"


def test_a_command_whose_nodes_are_lost_gets_sighup(up: Path):
    with terminal(
        up, "alloc", "--", "sh", "-c", "trap 'echo lost; exit 3' HUP; echo here; while :; do sleep 0.1; done"
    ) as screen:
        screen.expect("here")
        ok(up, "cancel", "alloc")
        screen.expect("the nodes were lost: Cancelled")
        screen.expect("lost")
        assert screen.wait() == 3


def test_an_allocation_survives_a_change_of_the_controller(state: Path, tmp_path: Path):
    go = tmp_path / "go"
    held = start(state, "alloc", "--", "sh", "-c", f"until test -e {go}; do sleep 0.02; done; exit 4")
    until(state, "it['holding'] == 1", "status")
    with daemon(state):
        assert facts(state, "status", "alloc")["phase"] == "Running"
        go.touch()
        output, _ = held.communicate(timeout=30)
        assert held.returncode == 4, output
        assert (phase(state, "alloc", "Succeeded")["attempts"], output.count("gone")) == (1, 0)


# --- the shell ------------------------------------------------------------------------------------------------


def test_bash_completes_verbs_options_and_jobs(crowded: Path):
    script = ok(crowded, "completion", "bash")

    def offered(line: str) -> set[str]:
        words = line.split(" ")
        typed = " ".join(f'"{word}"' for word in words)
        asked = f"COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _windlass_completion windlass"
        ask = f"{script}\n{asked}; echo ${{COMPREPLY[@]}}"
        ran = subprocess.run(["bash", "-c", ask], env=environment(crowded), capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return set(ran.stdout.split())

    verbs = {"scaling", "suspend", "submit", "status", "share", "simulate", "snapshot", "schema"}
    verbs |= {"sacct", "salloc", "sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun"}
    assert offered("windlass s") == verbs
    assert "two-2" in offered("windlass cancel tw")
    assert "--local-nodes" in offered("windlass up --lo")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(state: Path, shell: str):
    assert "_WINDLASS_COMPLETE" in ok(state, "completion", shell)


def test_every_verb_prints_its_options(state: Path):
    overview = ok(state, "--help")
    verbs = re.findall(r"^  ([a-z]+)  ", overview.split("Verbs:")[1], re.MULTILINE)
    assert {"run", "alloc", "why", "version"} < set(verbs)
    for verb in verbs:
        assert ok(state, verb, "--help").startswith(f"Usage: windlass {verb}")


def loaded_by(state: Path, words: list[str], modules: set[str]) -> set[str]:
    """Returns which of these modules a process has loaded at the end of a verb."""
    found = f"print(sorted({modules} & set(sys.modules)))"
    code = f"import sys; from windlass.cli.entry import main; main({words!r}); {found}"
    python = [sys.executable, "-c", code]
    ran = subprocess.run(python, env=environment(state), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, (words, ran.stdout, ran.stderr)
    return set(literal_eval(ran.stdout.splitlines()[-1]))


def test_clients_load_nothing_heavy(up: Path):
    libraries = {"torch", "numpy", "rich", "yaml", "starlette", "asyncio", "msgspec"}
    for words in (["queue"], ["status"], ["history"], ["run", "--", "true"], ["version"]):
        assert loaded_by(up, words, {*libraries, "windlass.core.lifecycle.events"}) == set(), words


def test_a_run_without_a_daemon_loads_no_search_that_it_does_not_need(state: Path):
    searches = {
        "windlass.core.preemption.victim_search",
        "windlass.core.preemption.elastic_growth",
        "windlass.core.cycle.start_estimation",
        "windlass.core.cycle.preemptive_sorting",
        "windlass.core.placement.scores.fragmentation_score",
    }
    assert loaded_by(state, ["run", "--", "true"], {"torch", "rich", "yaml", "starlette", *searches}) == set()
    assert loaded_by(state, ["history"], {"torch", "rich", "yaml", "starlette", "numpy"}) == set(), "from the records"
