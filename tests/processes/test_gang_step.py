"""A job as a step of a pipeline: its variables, its metrics, and the step that is stopped or has no daemon."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from supervisor_driver import wait_until
from terminal import daemon, environment

import windlass
from windlass.client.records import OutputLine
from windlass.plugins.gang_step import run_gang


@pytest.fixture
def client(state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[windlass.Client]:
    monkeypatch.setenv("WINDLASS_STATE", str(state))
    with daemon(state, "--local-nodes", "2", "--local-gpus", "2"), windlass.Client("local", state=state) as found:
        yield found


def test_the_last_number_of_each_metric_counts(client: windlass.Client):
    command = "echo $WINDLASS_INPUT to $WINDLASS_OUTPUT; echo loss 0.5; echo 'loss 2.5e-3 at 1'; echo loss nan"
    printed = io.StringIO()
    report = run_gang(
        {"name": "step", "cpus": 0, "command": command},
        input_uri="s3://a/b",
        output_uri="/tmp/c",
        metrics={"loss": "loss", "step": "at ([0-9]+)", "never": "never"},
        stream=printed,
    )
    assert report.job == "step-1"
    assert {name: report.metrics[name] for name in ("loss", "step", "attempts")} == {
        "loss": 0.0025,
        "step": 1.0,
        "attempts": 1.0,
    }
    assert report.metrics["run_s"] >= 0
    assert "never" not in report.metrics
    assert printed.getvalue().splitlines()[-1] == "windlass: metric never: no line of the output has it"
    assert printed.getvalue().splitlines()[:2] == ["windlass: submitted step-1", "[r0] s3://a/b to /tmp/c"]


def test_a_job_file_is_a_step(client: windlass.Client, tmp_path: Path):
    file = tmp_path / "job.yaml"
    file.write_text("name: filed\ncpus: 0\nenv: {A: a}\ncommand: echo $A $WINDLASS_OUTPUT\n")
    printed = io.StringIO()
    run_gang(str(file), output_uri="out", stream=printed)
    assert "[r0] a out" in printed.getvalue()


def test_lines_of_agents_have_the_numbers_of_the_agents(client: windlass.Client, monkeypatch: pytest.MonkeyPatch):
    def lines(_job: windlass.Job[None], **_how: object) -> Iterator[OutputLine]:
        yield from (OutputLine("step-1", 1, rank, "err", 0, "failed") for rank in (1, -1, -2))

    monkeypatch.setattr(windlass.Job, "logs", lines)
    printed = io.StringIO()
    run_gang({"name": "step", "cpus": 0, "command": "true"}, stream=printed)
    assert printed.getvalue().splitlines()[1:] == ["[r1] failed", "[agent 0] failed", "[agent 1] failed"]


def test_a_failed_job_is_an_error_and_keeps_its_reason(client: windlass.Client):
    with pytest.raises(windlass.JobFailedError, match="exited with code 3"):
        run_gang({"cpus": 0, "command": ["sh", "-c", "exit 3"]}, stream=io.StringIO())


@pytest.mark.parametrize(
    ("text", "message"),
    [("loss(", r"no regular expression: missing \): loss\(\ncorrect its text"), ("(a)(b)", "has 2 groups")],
)
def test_a_wrong_metric_submits_nothing(client: windlass.Client, text: str, message: str):
    with pytest.raises(windlass.InvalidRequestError, match=message):
        run_gang({"command": "true"}, metrics={"m": text})
    assert client.list(ended=True) == []


def test_a_step_that_is_stopped_cancels_its_job(client: windlass.Client, state: Path):
    program = "from windlass.plugins.gang_step import run_gang; run_gang({'cpus': 0, 'command': 'sleep 100'})"
    step = subprocess.Popen([sys.executable, "-c", program], env=environment(state), stdout=subprocess.PIPE, text=True)
    wait_until(lambda: any(job.phase == "Running" for job in client.list()), "the job does not run")
    [job] = client.list()
    step.send_signal(signal.SIGTERM)
    assert client.wait(job.id, 30).reason == "Cancelled"
    assert step.wait(30) == 128 + signal.SIGTERM
    step.stdout.close()


def test_a_step_without_a_daemon_says_how_to_start_one(state: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WINDLASS_STATE", str(state))
    with pytest.raises(windlass.NoDaemonError, match="start one with: windlass up -d"):
        run_gang({"command": "true"})
