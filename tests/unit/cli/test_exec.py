"""`windlass exec` on this machine: a command in the folder and environment of a rank."""

import os
import sys
from pathlib import Path

import pytest


@pytest.fixture
def job(daemon, made):
    """A running job whose only rank is this process."""

    def tell(**task):
        rank = {"generation": 1, "rank": 0, "pid": os.getpid(), "code": None, "signal": None, **task}
        daemon.says["/v1/jobs/digits"] = {**made.line(made.running()), "tasks": [rank]}

    return tell


def test_a_command_runs_in_the_folder_of_the_rank_and_its_exit_code_is_returned(job, windlass):
    job()
    script = f"import os, sys; sys.exit(os.getcwd() == {str(Path.cwd())!r} and 3)"

    assert windlass("exec", "digits", "--", sys.executable, "-c", script).code == 3


def test_a_second_double_dash_belongs_to_the_command(job, windlass):
    job()
    script = "import sys; sys.exit(sys.argv[1:] == ['ls', '--', '-x'] and 3)"

    assert windlass("exec", "digits", "--", sys.executable, "-c", script, "ls", "--", "-x").code == 3


def test_a_rank_that_has_ended_cannot_be_joined(job, windlass):
    job(code=0)

    ran = windlass("exec", "digits", "--", "true")

    assert (ran.code, ran.err) == (5, "windlass: rank 0 of digits-1 has ended\n")


def test_a_missing_rank_is_an_error(job, windlass):
    job()

    assert windlass("exec", "digits", "--rank", "4", "--", "true").code == 5


def test_a_missing_command_is_an_error(job, windlass):
    job()

    ran = windlass("exec", "digits", "--", "/no/such/program")

    assert ran.code == 2
    assert "cannot run /no/such/program" in ran.err
