"""`windlass run` on real processes: its output, exit code, and handling of Ctrl-C."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from terminal import daemon, environment, facts, ok, phase, start, terminal, until, windlass

SMALL = ("--local-nodes", "2", "--local-gpus", "2")
WAITS = "echo ready; sleep 100"
STUBBORN = "trap 'echo not yet' TERM; echo ready; while :; do sleep 0.1; done"


@pytest.fixture(params=["daemon", "no daemon"])
def controlled(request: pytest.FixtureRequest, state: Path):
    """A state folder with a daemon, and one without."""
    if request.param == "daemon":
        with daemon(state, *SMALL):
            yield state
    else:
        yield state


def test_a_run_prints_the_output_of_its_ranks_and_returns_their_exit_code(controlled: Path):
    ran = windlass(controlled, "run", "-N", "2", *SMALL, "--", "sh", "-c", "echo out $RANK; echo err $RANK >&2")

    assert ran.returncode == 0
    assert sorted(ran.stdout.splitlines()) == ["[r0 n1] out 0", "[r1 n2] out 1"]
    assert re.search(r"^\[r0 n\d] err 0$", ran.stderr, re.MULTILINE)
    assert re.search(r"^job echo-1 admitted in \d+ ms on n1", ran.stderr, re.MULTILINE)
    assert "OMP_NUM_THREADS=" in ran.stderr
    assert re.search(r"^job echo-1 succeeded: waited .*, ran .*, 1 attempt$", ran.stderr, re.MULTILINE)
    assert re.search(r"^logs: .*/logs/echo-1", ran.stderr, re.MULTILINE)


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -SEGV $$", 128 + 11), ("exit 255", 255)],
)
def test_a_run_returns_the_exit_code_of_the_rank_that_ended_it(controlled: Path, script: str, code: int):
    assert windlass(controlled, "run", "--", "sh", "-c", script).returncode == code


def test_an_array_returns_the_exit_code_of_its_first_failure(state: Path):
    ran = windlass(
        state,
        "run",
        "--array",
        "0-2",
        "--",
        "sh",
        "-c",
        "echo member $JOB_COMPLETION_INDEX; test $JOB_COMPLETION_INDEX = 2 || sleep 1; exit $JOB_COMPLETION_INDEX",
    )

    assert ran.returncode == 1  # member 2 ends first
    assert {f"member {index}" for index in range(3)} == {line.split("] ")[1] for line in ran.stdout.splitlines()}


def test_a_restart_is_explained_with_its_cause(controlled: Path):
    ran = windlass(controlled, "run", "--restarts", "1", "--", "sh", "-c", "test $WINDLASS_GENERATION = 2 || exit 5")

    assert ran.returncode == 0
    assert ": generation 1 failed: ExitCode: rank 0 (worker/0) on n1 exited with code 5" in ran.stderr
    assert "restarted on n1 (generation 2)" in ran.stderr
    assert "2 attempts" in ran.stderr


def test_an_impossible_gang_is_refused_with_the_largest_that_fits(controlled: Path):
    ran = windlass(controlled, "run", "-N", "3", "-G", "2", *SMALL, "--", "true")

    assert ran.returncode == 3
    assert "largest gang that fits: 2 replicas of 2 gpu" in ran.stderr


def test_a_waiting_job_is_shown_with_its_reason(state: Path):
    with daemon(state, *SMALL):
        ok(state, "submit", "-N", "2", "-G", "2", "--name", "holder", "--", "sleep", "100")
        phase(state, "holder", "Running")
        with terminal(state, "run", "-G", "1", "--", "true") as screen:
            screen.expect(r"job true-2 waits \(position 1\): needs 1 gpu on one node: none free")
            ok(state, "cancel", "holder")
            screen.expect("job true-2 succeeded")
            assert screen.wait() == 0


def test_node_options_that_differ_from_the_daemons_are_reported(state: Path):
    with daemon(state, *SMALL):
        ran = windlass(state, "run", "--local-nodes", "3", "--", "true")

    assert ran.returncode == 0
    assert "2 nodes with 2 CPU slots each: --local-nodes ignored" in ran.stderr


# --- Ctrl-C ---------------------------------------------------------------------------------------------------


def test_ctrl_c_cancels_without_a_daemon(state: Path):
    with terminal(state, "run", "--", "sh", "-c", WAITS) as screen:
        screen.expect("ready")
        screen.ctrl_c()
        screen.expect("Ctrl-C: cancelling echo-1; repeat to kill it at once")
        assert screen.wait() == 130
    assert facts(state, "status", "echo-1")["reason"] == "Cancelled"


def test_a_second_ctrl_c_kills_at_once(state: Path):
    with terminal(state, "run", "--grace", "1h", "--", "sh", "-c", STUBBORN) as screen:
        screen.expect("ready")
        screen.ctrl_c()
        screen.expect("not yet")
        screen.ctrl_c()
        screen.expect("Ctrl-C: killing")
        assert screen.wait() == 130


def test_ctrl_c_detaches_with_a_daemon(state: Path):
    with daemon(state, *SMALL):
        with terminal(state, "run", "--", "sh", "-c", WAITS) as screen:
            screen.expect("ready")
            screen.ctrl_c()
            screen.expect("detached from echo-1, which keeps running")
            screen.expect("windlass logs -f echo-1 .* windlass cancel echo-1")
            assert screen.wait() == 130
        assert facts(state, "status", "echo-1")["phase"] == "Running"


def test_a_closed_terminal_cancels_without_a_daemon(state: Path):
    with terminal(state, "run", "--", "sh", "-c", WAITS) as screen:
        screen.expect("ready")
        screen.hang_up()
        assert screen.wait() == 130
    assert facts(state, "status", "echo-1")["message"] == "cancelled by SIGHUP"


def test_a_closed_terminal_leaves_the_job_to_the_daemon(state: Path):
    with daemon(state, *SMALL):
        with terminal(state, "run", "--", "sh", "-c", WAITS) as screen:
            screen.expect("ready")
            screen.hang_up()
            assert screen.wait() == 130
        assert facts(state, "status", "echo-1")["phase"] == "Running"


def test_a_killed_run_takes_its_job_with_it(state: Path):
    with terminal(state, "run", "--", "sh", "-c", WAITS) as screen:
        screen.expect("ready")
        screen.kill()
    ok(state, "run", "--", "true")  # the next controller finds the job, and no client that waits for it
    assert facts(state, "status", "echo-1")["message"] == "cancelled by the end of its terminal"


# --- several runs, no daemon ----------------------------------------------------------------------------------


def test_two_runs_without_a_daemon_share_the_machine_and_hand_over(state: Path, tmp_path: Path):
    go = tmp_path / "go"
    first = start(state, "run", *SMALL, "--", "sh", "-c", f"echo first; until test -e {go}1; do sleep 0.02; done")
    until(state, "it['kind'] == 'run' and it['holding'] == 1", "status")
    second = start(state, "run", "--", "sh", "-c", f"echo second; until test -e {go}2; do sleep 0.02; done; echo over")
    until(state, "it['holding'] == 2", "status")

    Path(f"{go}1").touch()
    output, _ = first.communicate(timeout=30)
    assert first.returncode == 0
    assert "job echo-1 succeeded" in output
    facts_after = until(state, "it['kind'] == 'run' and it['holding'] == 1", "status")  # none until then
    assert facts_after["pid"] == second.pid
    assert facts_after["cluster"] == "2 nodes with 2 CPU slots each"

    Path(f"{go}2").touch()
    output, _ = second.communicate(timeout=30)
    assert second.returncode == 0
    assert "over" in output
    assert facts(state, "status", "echo-2")["attempts"] == 1


def test_a_daemon_takes_over_from_a_run_that_continues(state: Path, tmp_path: Path):
    go = tmp_path / "go"
    run = start(state, "run", *SMALL, "--", "sh", "-c", f"until test -e {go}; do sleep 0.02; done; echo over")
    until(state, "it['holding'] == 1", "status")
    with daemon(state):
        assert facts(state, "status")["kind"] == "up"
        go.touch()
        output, _ = run.communicate(timeout=30)
        assert run.returncode == 0
        assert "over" in output


# --- what people write ----------------------------------------------------------------------------------------


def test_names_and_paths_with_spaces_and_unicode(tmp_path: Path):
    state = tmp_path / "mein Zustand ✓ 状態"
    folder = tmp_path / "ein Ordner – 資料"
    folder.mkdir()
    script = folder / "größe zwei.py"
    script.write_text("import os; print(os.getcwd(), os.environ['WORD'])")

    ran = windlass(state, "run", "--env", "WORD=a b 値", "--", "python3", str(script), cwd=folder)

    assert ran.returncode == 0, ran.stderr
    assert f"{folder} a b 値" in ran.stdout
    assert "-zwei-1 succeeded" in ran.stderr


def test_a_state_folder_with_a_path_longer_than_a_socket_may_have(tmp_path: Path):
    state = tmp_path / ("long" * 30) / ("longer" * 20)
    state.parent.mkdir()
    with daemon(state):
        assert "[r0 n1] hi" in ok(state, "run", "--", "echo", "hi")


def test_a_script_alone_is_run_by_python(state: Path, tmp_path: Path):
    (tmp_path / "train.py").write_text("import sys; print('trained', sys.argv[1:])")
    assert "trained ['--lr', '1']" in ok(state, "run", "--", "train.py", "--lr", "1", cwd=tmp_path)


def test_a_job_file_by_its_name_with_options_over_it(state: Path, tmp_path: Path):
    (tmp_path / "job.yaml").write_text("name: filed\nprocs: 2\ncommand: echo rank $RANK of $WORLD_SIZE\n")
    output = ok(state, "run", "job.yaml", "--procs", "1", cwd=tmp_path)
    assert output.splitlines() == ["[r0 n1] rank 0 of 1"]


@pytest.mark.parametrize(
    ("words", "report"),
    [
        (["run"], "nothing to run"),
        (["run", "--nodse", "3", "--", "true"], "No such option"),
        (["run", "-N", "two", "--", "true"], "--nodes"),
        (["run", "--time", "soon", "--", "true"], "--time"),
        (["run", "nothing.yaml"], "nothing.yaml"),
        (["submit", "-f", "nothing.yaml"], "nothing.yaml"),
        (["nosuchverb"], "nosuchverb"),
        (["logs", "x", "--grep", "("], "--grep"),
        (["history", "--since", "yesterday"], "--since"),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(state: Path, words: list[str], report: str):
    ran = windlass(state, *words)
    assert ran.returncode == 2
    assert report in ran.stderr
    assert "Traceback" not in ran.stderr
    assert len(ran.stderr.splitlines()) <= 3


@pytest.mark.parametrize("verb", ["nodes", "queue", "status", "submit", "cancel", "down", "logs"])
def test_a_verb_without_daemon_and_records_is_an_error(state: Path, verb: str):
    words = {"submit": ["--", "true"], "cancel": ["x"], "logs": ["x"]}.get(verb, [])
    ran = windlass(state, verb, *words)
    assert ran.returncode == 69
    assert ran.stderr == "windlass: no daemon runs\nstart one with: windlass up -d\n"


def test_an_unwritable_state_folder_is_an_error(tmp_path: Path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    ran = windlass(blocked / "state", "run", "--", "true")
    assert ran.returncode == 74
    assert "state folder" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_run_with_a_closed_output_pipe_is_cancelled(state: Path):
    pipe = ["sh", "-c", "windlass run -- sh -c 'while :; do echo line; sleep 0.05; done' | head -1"]
    ran = subprocess.run(pipe, env=environment(state), capture_output=True, text=True, check=False, timeout=60)
    assert ran.stdout == "[r0 n1] line\n"
    assert "closed output pipe: cancelling" in ran.stderr
    until(state, "it[0]['reason'] == 'Cancelled'", "history")


def test_followed_logs_end_with_their_reader(state: Path):
    """The job prints nothing more, so that no write could fail."""
    with daemon(state, *SMALL):
        ok(state, "submit", "--name", "quiet", "--", "sh", "-c", "echo line; exec sleep 600")
        pipe = ["sh", "-c", "windlass logs quiet -f --bare | head -1"]
        ran = subprocess.run(pipe, env=environment(state), capture_output=True, text=True, check=False, timeout=60)
        ok(state, "cancel", "quiet")
    assert (ran.stdout, ran.stderr) == ("line\n", "")


def test_a_closed_output_pipe_is_not_an_error(state: Path):
    ok(state, "run", "--", "sh", "-c", "seq 1 5")
    pipe = ["sh", "-c", "windlass logs seq-1 --bare | head -1"]
    ran = subprocess.run(pipe, env=environment(state), capture_output=True, text=True, check=False)
    assert ran.stdout == "1\n"
    assert ran.stderr == ""
