"""The error file of a rank, and its reason in one line."""

import json

import pytest

from windlass import wire
from windlass.agent import error_file


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))
    return path


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("no such thing"), "ValueError: no such thing"),
        (KeyError("lr"), "KeyError: 'lr'"),
        (RuntimeError("one line\nand another"), "RuntimeError: one line"),
        (SystemExit("the data are missing"), "the data are missing"),
        (SystemExit(3), ""),
        (AssertionError(), "AssertionError"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (OSError("no \x1b[31mred\x00 \udc80 file"), "OSError: no  [31mred    file"),
        (RuntimeError("long " * 100), ("RuntimeError: " + "long " * 100)[:300]),
    ],
)
def test_an_error_is_written_and_read_as_one_line(file, error, message):
    error_file.write_error(error)
    assert error_file.read_reason(str(file)) == message


def test_an_exit_with_a_code_keeps_the_error_that_the_script_has_written(file):
    message = {"message": {"message": "ValueError: by torch's record", "extraInfo": {"timestamp": "1"}}}
    file.write_text(json.dumps(message))
    error_file.write_error(SystemExit(1))
    assert error_file.read_reason(str(file)) == "ValueError: by torch's record"


def test_the_last_error_counts_and_one_that_was_caught_does_not(file):
    error_file.write_error(MemoryError("too large a batch"))
    wire.remove_error_file()
    assert error_file.read_reason(str(file)) == ""
    error_file.write_error(MemoryError("too large a batch"))
    error_file.write_error(OSError("the disk is full"))
    assert error_file.read_reason(str(file)) == "OSError: the disk is full"


def test_an_error_that_cannot_be_printed_is_left_out(file):
    class MuteError(Exception):
        def __str__(self):
            raise ValueError

    error_file.write_error(MuteError())
    assert error_file.read_reason(str(file)) == ""


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"message": {}}', '{"message": ""}', "null"])
def test_a_file_without_a_message_has_no_reason(file, text):
    file.write_text(text)
    assert error_file.read_reason(str(file)) == ""


def test_a_message_may_be_a_text(file):
    file.write_text('{"message": "killed by its own watchdog"}')
    assert error_file.read_reason(str(file)) == "killed by its own watchdog"


def test_no_error_is_written_without_a_path(monkeypatch, tmp_path):
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
    error_file.write_error(ValueError("unheard"))
    assert error_file.read_reason(str(tmp_path / "none")) == ""
