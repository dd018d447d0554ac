"""`windlass doctor FILE…` reads files, folders and standard input, and exits with a code for each outcome."""

import gzip
import io
import json
import os

import pytest

from windlass.cli.entry import main
from windlass.cli.exit_codes import ExitCode

FAILURE = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. token=hf_abcdefghijklmnop\n"


@pytest.fixture
def failed(tmp_path):
    file = tmp_path / "train.log"
    file.write_text("step 1\n" + FAILURE)
    return file


def test_a_cause_is_printed_with_its_place_and_exits_with_1(failed, capsys):
    assert main(["doctor", str(failed)]) == ExitCode.FAILED
    report = capsys.readouterr().out
    assert report.startswith("Rank 3 ran out of GPU memory: it asked for 2.50 GiB.\n")
    assert f"{failed}:2: [rank3]: torch.OutOfMemoryError" in report
    assert "hf_abcdefghijklmnop" not in report
    assert "\x1b" not in report


def test_secrets_are_printed_on_request(failed, capsys):
    main(["doctor", "--show-secrets", str(failed)])
    assert "hf_abcdefghijklmnop" in capsys.readouterr().out


def test_logs_without_a_failure_exit_with_0(tmp_path, capsys):
    (tmp_path / "train.log").write_text("step 1 loss 2.1\nstep 2 loss 2.0\n")
    assert main(["doctor", str(tmp_path)]) == ExitCode.OK
    assert capsys.readouterr().out == "No line points to a failure.\n"


def test_a_folder_is_read_with_all_files_below_it(tmp_path, capsys):
    (tmp_path / "attempt_0/3").mkdir(parents=True)
    (tmp_path / "attempt_0/3/stderr.log.gz").write_bytes(gzip.compress(FAILURE.encode()))
    (tmp_path / "weights.bin").write_bytes(bytes(range(256)) * 100)
    (tmp_path / "loop").symlink_to(tmp_path)
    assert main(["doctor", "-o", "json", str(tmp_path)]) == ExitCode.FAILED
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"]["cause"], found["verdict"]["rank"]) == ("cuda-out-of-memory", 3)
    assert found["unseen"] == [f"{tmp_path}/weights.bin: not a text file, not read"]


def test_standard_input_is_read(monkeypatch, capsys):
    reading, writing = os.pipe()
    os.write(writing, FAILURE.encode())
    os.close(writing)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(os.fdopen(reading, "rb")))
    assert main(["doctor", "-", "-o", "markdown"]) == ExitCode.FAILED
    report = capsys.readouterr().out
    assert report.startswith("**Rank 3 ran out of GPU memory: it asked for 2.50 GiB.**\n")
    assert "```text\n-:1: [rank3]: torch.OutOfMemoryError" in report


def test_a_path_that_does_not_exist_is_a_usage_error(failed, capsys):
    assert main(["doctor", str(failed), "/no/such/file.log"]) == ExitCode.USAGE
    assert "/no/such/file.log does not exist\nname a file, a folder, or - for standard input" in capsys.readouterr().err


def test_logs_that_cannot_be_read_are_an_error(tmp_path, capsys):
    (tmp_path / "a.bin").write_bytes(bytes(range(256)) * 100)
    assert main(["doctor", str(tmp_path)]) == ExitCode.USAGE
    assert "no log can be read" in capsys.readouterr().err


def test_a_backquote_of_a_log_does_not_end_the_quoted_text(tmp_path, capsys):
    (tmp_path / "a.log").write_text("ValueError: ```` ![x](http://example.com)\n")
    main(["doctor", "-o", "markdown", str(tmp_path)])
    assert "\n`````text\n" in capsys.readouterr().out


PROGRAM = f"# {FAILURE}raise ValueError('no such sample')\n"


def test_a_program_is_no_log(tmp_path, capsys):
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    for path in (tmp_path, script):
        assert main(["doctor", str(path)]) == ExitCode.USAGE
        told = capsys.readouterr().err
        assert f"no log can be read: {script}: a program is no log\nname output of ranks, kernel logs" in told
    (tmp_path / "job.sh").write_text("echo 'CUDA out of memory'\n")
    main(["doctor", str(tmp_path)])
    assert "job.sh and 1 more: a program is no log" in capsys.readouterr().err


def test_programs_beside_logs_are_left_out(tmp_path, capsys):
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "notes.log").write_text(FAILURE)
    log = tmp_path / "rank0.log"
    log.write_text("step 1\n")
    assert main(["doctor", str(tmp_path)]) == ExitCode.OK
    assert capsys.readouterr().out == "No line points to a failure.\n"
    assert main(["doctor", str(log), str(tmp_path / "train.py")]) == ExitCode.OK
    assert "train.py: a program, not read" in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"", bytes(range(256)) * 100])
def test_an_empty_or_binary_file_is_one_clear_error(tmp_path, capsys, content):
    path = tmp_path / "a.log"
    path.write_bytes(content)
    for named in (path, tmp_path):
        assert main(["doctor", str(named)]) == ExitCode.USAGE
        told = capsys.readouterr().err
        assert f"no log can be read: {path}: " in told
        assert "text or gzip files, or folders of them" in told


def test_an_empty_folder_is_one_clear_error(tmp_path, capsys):
    assert main(["doctor", str(tmp_path)]) == ExitCode.USAGE
    assert "no log can be read: the folder is empty\nname output of ranks" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["nothere.log", "/no/such", "./train", "logs/", "a/b/c"])
def test_a_word_in_the_form_of_a_path_is_no_job(tmp_path, monkeypatch, capsys, word):
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", word]) == ExitCode.USAGE
    assert f"{word} does not exist\nname a file, a folder" in capsys.readouterr().err


def test_a_word_that_is_neither_names_both_ways(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WINDLASS_STATE", str(tmp_path / "state"))
    assert main(["doctor", "nothing"]) == ExitCode.NO_SUCH_JOB
    told = capsys.readouterr().err
    assert "nothing is neither a file nor a job" in told
    assert "name a file or folder that exists, or a job that windlass history lists" in told
