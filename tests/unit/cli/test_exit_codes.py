"""Every exit code has an error that returns it, a message, and an entry in the reference."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from windlass.backends.local.folder_lock import HeldError, LockHolder
from windlass.backends.local.name_resolution import NameResolutionError
from windlass.backends.local.paths import StatePaths
from windlass.backends.local.state_reader import CorruptError
from windlass.backends.port import BackendError
from windlass.cli import errors
from windlass.cli.exit_codes import MEANING, OF_ERROR, ExitCode, reference
from windlass.jobs.errors import input_error
from windlass.server.errors import ApiError, ErrorCode

ROOT = Path(__file__).parents[3]


def raised(code: ErrorCode) -> ApiError:
    return ApiError(code, "what is wrong", "what to do")


PROVOKED = {
    ExitCode.OK: {"/v1/cancel": {"jobs": [{"id": "x-1"}], "errors": []}},
    ExitCode.USAGE: {"/v1/cancel": raised(ErrorCode.BAD_REQUEST)},
    ExitCode.REFUSED: {"/v1/cancel": raised(ErrorCode.REFUSED)},
    ExitCode.NO_SUCH_JOB: {"/v1/cancel": raised(ErrorCode.NO_SUCH_JOB)},
    ExitCode.WRONG_STATE: {"/v1/cancel": raised(ErrorCode.WRONG_STATE)},
    ExitCode.NO_DAEMON: {"/v1/ping": raised(ErrorCode.NO_DAEMON)},
    ExitCode.SOFTWARE: {"/v1/cancel": raised(ErrorCode.INTERNAL)},
    ExitCode.STATE_UNUSABLE: {"/v1/cancel": raised(ErrorCode.DISK)},
    ExitCode.NOT_ALLOWED: {"/v1/ping": raised(ErrorCode.NOT_ALLOWED)},
    ExitCode.CANCELLED: {"/v1/cancel": KeyboardInterrupt()},
}


@pytest.mark.parametrize("code", sorted(PROVOKED))
def test_each_exit_code_is_returned_by_some_error(daemon, windlass, monkeypatch, code):
    says = PROVOKED[code]
    interrupt = next((trouble for trouble in says.values() if isinstance(trouble, KeyboardInterrupt)), None)
    daemon.says |= says
    if interrupt:
        monkeypatch.setattr(daemon, "call", interrupted)
    ran = windlass("cancel", "x")
    assert ran.code == code
    if code is ExitCode.NO_DAEMON:
        assert ran.err == "windlass: no daemon runs\nstart one with: windlass up -d\n"
    elif code not in (ExitCode.OK, ExitCode.CANCELLED):
        assert (ran.out, ran.err) == ("", "windlass: what is wrong\nwhat to do\n")


def interrupted(*_words: object) -> None:
    raise KeyboardInterrupt


def test_a_declined_confirmation_returns_the_remaining_exit_code(daemon, windlass, monkeypatch):
    daemon.says["/v1/ping"] = {**daemon.says["/v1/ping"], "waiting": 1}
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda *_words, **_more: False)
    ran = windlass("down")
    assert (ran.code, ran.err) == (ExitCode.FAILED, "windlass: nothing was done\n")
    assert set(ExitCode) == {*PROVOKED, ExitCode.FAILED, ExitCode.BUSY}  # a second `windlass up`, on real processes


def test_every_error_of_the_api_has_a_code():
    assert set(OF_ERROR) == set(ErrorCode)
    assert not {ExitCode.OK, ExitCode.FAILED, ExitCode.CANCELLED} & set(OF_ERROR.values())


def test_the_reference_has_every_code_and_its_meaning():
    page = (ROOT / "docs/reference/exit-codes.md").read_text()
    assert page == reference()
    assert [int(row) for row in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)] == sorted(ExitCode)
    assert set(MEANING) == set(ExitCode)


# --- errors -------------------------------------------------------------------------------------------

HELD = HeldError(StatePaths(Path("/state")), LockHolder(7, 8, "up"))


@pytest.mark.parametrize(
    ("trouble", "text", "code"),
    [
        (errors.UsageError("nothing to run"), "nothing to run", 2),
        (input_error("job.yaml", "no command"), "job.yaml: no command", 2),
        (NameResolutionError("no job is called 'x'"), "no job is called 'x'", 4),
        (HELD, "`windlass up` (pid 7) already controls /state; end it with: windlass down", 75),
        (BackendError("the disk is full"), "the disk is full", 74),
        (CorruptError(Path("/state/db"), "x"), "/state/db is damaged (x)", 74),
        (PermissionError(13, "Permission denied", "/state/db"), "/state/db: Permission denied", 74),
        (ApiError(ErrorCode.GONE, "the daemon went away"), "the daemon went away", 69),
    ],
)
def test_every_error_has_a_line_and_a_code(trouble, text, code):
    message, given = errors.describe_error(trouble)
    assert message.startswith(text)
    assert given == code


def test_an_internal_error_is_one_line_and_its_details_are_in_a_file(daemon, windlass, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    daemon.says["/v1/nodes"] = ZeroDivisionError("by nothing\nat all \ud800")
    ran = windlass("nodes")
    assert (ran.code, ran.out) == (70, "")
    first, second = ran.err.splitlines()
    assert first == "windlass: internal error: ZeroDivisionError: by nothing"
    file = Path(second.removeprefix("its details are in "))
    assert file.parent == tmp_path
    assert file.stat().st_mode & 0o077 == 0
    assert "Traceback" in file.read_text()


def test_an_internal_error_on_a_full_disk_names_the_missing_details(monkeypatch):
    def full(*_words: object, **_more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", full)
    text, code = errors.describe_error(ZeroDivisionError("by nothing"))
    assert text.startswith("internal error: ZeroDivisionError: by nothing")
    assert text.endswith(": No space left on device")
    assert code == 70


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nodes", "--polish"), "windlass: No such option: --polish\nsee: windlass nodes --help\n"),
        (("nodes", "-o", "xml"), "windlass: Invalid value for '-o' / '--output': 'xml' is not one of"),
        (("cancel",), "windlass: Missing argument 'JOB…'\nsee: windlass cancel --help\n"),
        (("polish",), "windlass: there is no verb 'polish'\nwindlass --help lists them\n"),
        (("qeue",), "windlass: there is no verb 'qeue'; did you mean 'queue'?\nwindlass --help lists them\n"),
        (("run", "-x", "train.py"), "the command's own options go after --: windlass run -N 2 -- python train.py -x"),
        (("run",), "windlass: nothing to run\nwrite a command (windlass run -N 2 -- python train.py)"),
        (("queue", "--limit", "0"), "windlass: Invalid value for '--limit': 0 is not in the range x>=1"),
        (("history", "--since", "soon"), "windlass: --since expects a duration"),
        (
            ("run", "--priority", "high", "--", "true"),
            "windlass: Invalid value for '--priority': expects a whole number from -1000000000 to 1000000000, not",
        ),
        (("submit", "--restarts", "many", "--", "true"), "windlass: Invalid value for '--restarts': expects a whole "),
        (("logs", "x", "--grep", "("), "windlass: --grep '(' is not a regular expression: "),
        (("logs", "x", "--rank", "one"), "windlass: --rank expects ranks such as 3 or 0,4-7, not 'one'"),
        (("logs", "x", "--attempt", "0"), "windlass: --attempt expects a number of at least 1, or all, not '0'"),
        (("explain", "job.restart.usr"), "user"),
        (("submit", "--procs", "0", "--", "true"), "windlass: --procs"),
        (("submit", "none.yaml"), "windlass: none.yaml"),
    ],
)
def test_a_wrong_command_line_is_refused_with_the_valid_form(daemon, windlass, words, message):
    ran = windlass(*words)
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert len(ran.err.splitlines()) <= 2
    assert daemon.asked == []


def test_windlass_without_arguments_prints_the_help(windlass):
    ran = windlass()
    assert ran.code == 2
    assert ran.err.startswith("Usage: windlass")
    assert "Verbs:" in ran.err


def test_a_removed_current_folder_is_an_error(windlass, daemon, monkeypatch, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    ran = windlass("submit", "--", "true")
    assert (ran.code, ran.err.splitlines()[0]) == (2, "windlass: the current folder no longer exists")
    monkeypatch.chdir(os.sep)


@pytest.mark.parametrize("verb", ["run", "submit"])
@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("train.py",), "train.py"),
        (("--", "start.sh"), "start.sh"),
        (("--", "bin/train"), "bin/train"),
        (("--workdir", "project", "--", "./train.py"), "project/train.py"),
    ],
)
def test_a_missing_file_is_an_error_before_a_job_is_submitted(
    daemon, windlass, monkeypatch, tmp_path, verb, words, path
):
    monkeypatch.chdir(tmp_path)
    ran = windlass(verb, *words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"windlass: there is no file {tmp_path / path}\ncorrect its path, or the job's folder (--workdir)\n"
    )
    assert daemon.asked == []


@pytest.mark.parametrize("verb", ["run", "submit"])
@pytest.mark.parametrize(
    ("word", "text", "mode", "error"),
    [
        (
            "README.md",
            "# A project",
            0o644,
            "{path} is no program: it is not executable\nwrite a command (python train.py)",
        ),
        ("./data.csv", "1,2", 0o644, "{path} is no program: it is not executable\nwrite a command (python train.py)"),
        (
            "start.sh",
            "sleep 1",
            0o644,
            "{path} is no program: it is not executable\nname its interpreter (sh start.sh)",
        ),
        ("./go", "#!/bin/sh", 0o644, "{path} is no program: it is not executable\nname its interpreter (sh ./go)"),
        (
            "start.sh",
            "#!/bin/sh",
            0o755,
            "start.sh is no program on PATH, but a file in the job's folder\nwrite ./start.sh",
        ),
    ],
)
def test_a_file_that_cannot_be_a_program_is_an_error(daemon, windlass, tmp_path, verb, word, text, mode, error):
    (tmp_path / word).write_text(text)
    (tmp_path / word).chmod(mode)
    ran = windlass(verb, "--workdir", str(tmp_path), "--", word)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"windlass: {error.format(path=tmp_path / word)}")
    assert daemon.asked == []


@pytest.mark.parametrize(
    "words", [("true",), ("--after", "build", "--", "./built"), ("--workdir", "project", "--", "./train.py")]
)
def test_a_command_that_may_exist_is_submitted(daemon, windlass, monkeypatch, tmp_path, words):
    (tmp_path / "project").mkdir()
    (tmp_path / "project/train.py").touch()
    monkeypatch.chdir(tmp_path)
    daemon.says["/v1/jobs"] = {"ids": ["x-1"]}
    assert windlass("submit", *words).out == "x-1\n"
