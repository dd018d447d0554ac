"""`srun` and `salloc`: output with labels, Ctrl-C twice, and refused command lines."""

from pathlib import Path

import pytest

from windlass.backends.local.logs import LogFile, LogLine
from windlass.cli.slurm import step_screen
from windlass.cli.slurm.step_screen import StepInterrupts, StepScreen


def line(rank, text):
    return LogLine(LogFile("train-1", 1, rank, "out", Path("out")), 0, text)


def test_lines_have_the_number_of_their_task_on_request(capsys):
    plain, labelled = StepScreen(labelled=False, quiet=False), StepScreen(labelled=True, quiet=True)
    plain.rank(line(3, "step 1"), {})
    labelled.rank(line(3, "step 1"), {})
    assert capsys.readouterr().out == "step 1\n3: step 1\n"


def test_messages_name_srun_unless_it_is_quiet(capsys):
    StepScreen(labelled=False, quiet=False).say("job train-1 waits")
    StepScreen(labelled=False, quiet=True).say("job train-1 waits")
    assert capsys.readouterr().err == "srun: job train-1 waits\n"


def test_ctrl_c_counts_only_if_it_is_repeated_within_a_second(capsys, monkeypatch):
    clock = iter([10.0, 11.5, 12.0])
    monkeypatch.setattr(step_screen.time, "monotonic", lambda: next(clock))
    interrupts = StepInterrupts(StepScreen(labelled=False, quiet=False))
    counts = []
    for _ in range(3):
        interrupts.note("Ctrl-C")
        counts.append(interrupts.count)
    assert counts == [0, 0, 1]
    assert capsys.readouterr().err == "srun: interrupt (one more within 1 sec to abort)\n" * 2


def test_other_signals_count_at_once():
    interrupts = StepInterrupts(StepScreen(labelled=False, quiet=True))
    interrupts.note("SIGTERM")
    assert interrupts.count == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["srun"], "no command given to execute"),
        (["srun", "--pty", "bash"], "--pty: tasks have no terminal\nopen a shell beside a rank with: windlass exec"),
        (["srun", "--multi-prog", "f"], "--multi-prog: each role has one command"),
        (["srun", "--tasks=2x", "true"], "unrecognized option '--tasks'"),
        (
            ["srun", "--on", "kubernetes", "true"],
            "on a cluster: windlass run --on kubernetes",
        ),
        (["salloc", "--on", "c", "true"], "salloc runs on this machine\non a cluster: windlass alloc --on c"),
        (["salloc", "-l"], "salloc: unrecognized option '-l'"),
    ],
)
def test_a_wrong_command_line_is_refused(windlass, words, message):
    ran = windlass(*words)
    assert ran.code == 1
    assert message in ran.err


def test_a_step_needs_an_allocation_that_runs(daemon, windlass, lines):
    daemon.says["/v1/jobs/digits-3"] = {**lines("failed")[0], "tasks": []}
    ran = windlass("srun", "--jobid", "digits-3", "true")
    assert (ran.code, ran.err) == (
        1,
        "windlass: digits-1 holds no nodes\nallocate nodes with: windlass salloc\n",
    )


@pytest.mark.parametrize("program", ["srun", "salloc"])
def test_the_help_has_the_options(windlass, program):
    ran = windlass(program, "--help")
    assert ran.code == 0
    assert ran.out.startswith(f"Usage: windlass {program} [OPTIONS]")
