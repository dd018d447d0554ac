"""The daemon: one per folder, concurrent clients, crashes at any time, and the ways to stop it."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from supervisor_driver import wait_until
from terminal import crash, daemon, facts, ok, phase, start, start_daemon, terminal, until, wait_for_end, windlass

SMALL = ("--local-nodes", "2", "--local-gpus", "2")
CRASHES = int(os.environ.get("WINDLASS_CRASHES", "4"))
"""Number of daemons that are killed, each at another moment of a run: 4 in `make test`, 50 in `make soak`."""
_MOMENTS = random.Random(7).sample(range(400), CRASHES)  # noqa: S311 - moments, not secrets
"""Milliseconds after the submission at which the daemon is killed."""


def test_a_second_daemon_names_the_first_and_exits(state: Path):
    with daemon(state, *SMALL) as pid:
        for words in (["up"], ["up", "-d"]):
            ran = windlass(state, *words)
            assert ran.returncode == 75
            fix = "end it with: windlass down"
            assert ran.stderr == f"windlass: `windlass up` (pid {pid}) already controls {state}; {fix}\n"


def test_a_new_daemon_waits_for_the_end_of_one_that_has_been_terminated(state: Path):
    start_daemon(state, *SMALL)
    for _ in range(2):
        before = facts(state, "status")["pid"]
        os.kill(before, signal.SIGTERM)
        assert f"(pid {before})" not in ok(state, "up", "-d", *SMALL)
    ok(state, "down")


def test_the_socket_is_for_its_owner_only(state: Path):
    with daemon(state):
        assert (state / "api.sock").stat().st_mode & 0o777 == 0o600
        assert state.stat().st_mode & 0o777 == 0o700


def test_200_jobs_from_20_processes_at_once_all_run_once(state: Path, tmp_path: Path):
    ran = tmp_path / "ran"
    ran.mkdir()
    script = f"touch {ran}/$WINDLASS_JOB_ID.$WINDLASS_GENERATION"

    def ten(number: int) -> list[str]:
        file = tmp_path / f"{number}.yaml"
        one = f"name: job{number}\ncpus: 0\ncommand: [sh, -c, '{script}']\n"
        file.write_text("---\n".join([one] * 10))
        return ok(state, "submit", "-f", str(file)).split()

    with daemon(state, *SMALL):
        with ThreadPoolExecutor(20) as clients:
            ids = [job_id for ids in clients.map(ten, range(20)) for job_id in ids]
        assert len(set(ids)) == 200
        until(state, "len(it) == 200 and all(job['phase'] == 'Succeeded' for job in it)", "history", "--limit", "1000")
    assert sorted(file.name for file in ran.iterdir()) == sorted(f"{job_id}.1" for job_id in ids)


@pytest.mark.parametrize("moment", _MOMENTS)
def test_a_run_survives_a_crash_of_the_daemon_at_any_time(state: Path, moment: int):
    script = "for i in 1 2 3 4 5 6; do echo tick $i; sleep 0.05; done"
    with daemon(state, *SMALL):
        run = start(state, "run", "-G", "2", "--", "sh", "-c", script)
        time.sleep(0.15 + moment / 1000)
        crash(state)
        start_daemon(state)
        output, _ = run.communicate(timeout=60)
        assert run.returncode == 0, output
        history = facts(state, "history")
        assert [(job["phase"], job["attempts"]) for job in history] == [("Succeeded", 1)], output
        for rank in (0, 1):
            ticks = [line.split("] ")[1] for line in output.splitlines() if line.startswith(f"[r{rank} ")]
            assert ticks == [f"tick {i}" for i in range(1, 7)], output


def test_jobs_continue_without_their_daemon_and_their_end_is_recorded(state: Path, tmp_path: Path):
    go, gone = tmp_path / "go", tmp_path / "gone"
    script = f"until test -e {go}; do sleep 0.02; done; touch {gone}; exit 6"
    with daemon(state, *SMALL):
        ok(state, "submit", "--name", "six", "--", "sh", "-c", script)
        phase(state, "six", "Running")
        crash(state)
        assert re.search(r"six-1 runs without a daemon \(pid \d+\); the next daemon takes it over", ok(state, "status"))
        go.touch()
        wait_until(gone.exists, "the job did not go on")
        assert facts(state, "status", "six")["phase"] == "Running"  # as recorded: no controller has seen the end yet
        start_daemon(state)
        scenario = phase(state, "six", "Failed")
        assert (scenario["exit_code"], scenario["attempts"]) == (6, 1)


def test_a_daemon_keeps_its_nodes_after_a_crash(state: Path):
    with daemon(state, *SMALL):
        ok(state, "submit", "--name", "wide", "-N", "2", "-G", "2", "--", "sleep", "100")
        phase(state, "wide", "Running")
        crash(state)
        ok(state, "up", "-d")
        assert [node["name"] for node in facts(state, "nodes")] == ["n1", "n2"]
        assert facts(state, "status", "wide")["attempts"] == 1


def test_a_run_between_two_daemons_does_not_end_their_jobs(state: Path):
    with daemon(state, *SMALL):
        ok(state, "submit", "--name", "long", "--", "sleep", "100")
        phase(state, "long", "Running")
        ok(state, "down", "--keep-jobs")
        ok(state, "run", "--", "true")
        time.sleep(2.5)  # longer than a supervisor waits that belongs to a `run`
        start_daemon(state)
        scenario = facts(state, "status", "long")
        assert (scenario["phase"], scenario["attempts"]) == ("Running", 1)


def test_down_asks_before_it_cancels(state: Path):
    with daemon(state, *SMALL):
        ok(state, "submit", "--name", "long", "--", "sleep", "100")
        phase(state, "long", "Running")

        ran = windlass(state, "down")
        assert ran.returncode == 5
        assert "1 job would be cancelled" in ran.stderr

        with terminal(state, "down") as screen:
            screen.expect("Cancel 1 job and stop the daemon")
            screen.press("n\n")
            assert screen.wait() == 1
        with terminal(state, "down") as screen:
            screen.expect("Cancel 1 job and stop the daemon")
            screen.press("y\n")
            screen.expect(r"windlass is down \(pid \d+\); 1 job cancelled")
            assert screen.wait() == 0
    assert facts(state, "status", "long")["reason"] == "Cancelled"


def test_sigterm_ends_the_daemon_and_leaves_its_jobs(state: Path):
    with daemon(state, *SMALL) as pid:
        ok(state, "submit", "--name", "long", "--", "sleep", "100")
        phase(state, "long", "Running")
        os.kill(pid, signal.SIGTERM)
        until(state, "it['kind'] == ''", "status")
        wait_for_end(pid)
        start_daemon(state)
        assert facts(state, "status", "long")["attempts"] == 1


def test_ctrl_c_ends_a_daemon_in_the_foreground(state: Path):
    with terminal(state, "up", *SMALL) as screen:
        screen.expect(r"up \(pid \d+\) with 2 nodes with 2 CPU slots each")
        ok(state, "run", "--", "true")
        screen.ctrl_c()
        screen.expect("down")
        assert screen.wait() == 0


def test_a_daemon_that_cannot_start_prints_the_reason(state: Path, tmp_path: Path):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text("nodes:\n- name: n1\n  gpu: 4\n")
    ran = windlass(state, "up", "-d", "--cluster", str(cluster))
    assert ran.returncode == 2
    output, line, mark = ran.stderr.splitlines()
    assert output.startswith(f"windlass: {cluster}:3:3: ")
    assert (line.strip(), mark.strip()) == ("3 |   gpu: 4", "|   ^^^")


def test_a_damaged_database_is_one_clear_line(state: Path):
    ok(state, "run", "--", "true")
    (state / "windlass.db").write_bytes(b"this is no database" * 1000)
    for words in (["run", "--", "true"], ["history"], ["up"]):
        ran = windlass(state, *words)
        assert ran.returncode == 74, (words, ran)
        assert "is damaged" in ran.stderr
        assert len(ran.stderr.splitlines()) == 1
