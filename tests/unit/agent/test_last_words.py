"""What a rank has written down of its end, and how it reads in a line."""

import json

import pytest

from windlass import wire
from windlass.agent import last_words


@pytest.fixture
def file(tmp_path, monkeypatch):
    path = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))
    return path


@pytest.mark.parametrize(
    ("error", "said"),
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
def test_an_error_is_left_and_read_as_one_line(file, error, said):
    last_words.leave(error)
    assert last_words.of(str(file)) == said


def test_what_the_script_has_written_itself_stays_where_it_only_gives_a_code(file):
    said = {"message": {"message": "ValueError: by torch's record", "extraInfo": {"timestamp": "1"}}}
    file.write_text(json.dumps(said))
    last_words.leave(SystemExit(1))
    assert last_words.of(str(file)) == "ValueError: by torch's record"


def test_the_last_error_counts_and_one_that_was_caught_does_not(file):
    last_words.leave(MemoryError("too large a batch"))
    wire.take_back_words()
    assert last_words.of(str(file)) == ""
    last_words.leave(MemoryError("too large a batch"))
    last_words.leave(OSError("the disk is full"))
    assert last_words.of(str(file)) == "OSError: the disk is full"


def test_an_error_that_cannot_be_put_into_words_is_not_made_worse(file):
    class MuteError(Exception):
        def __str__(self):
            raise ValueError

    last_words.leave(MuteError())
    assert last_words.of(str(file)) == ""


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"message": {}}', '{"message": ""}', "null"])
def test_what_says_nothing_is_nothing(file, text):
    file.write_text(text)
    assert last_words.of(str(file)) == ""


def test_a_message_may_be_plain(file):
    file.write_text('{"message": "killed by its own watchdog"}')
    assert last_words.of(str(file)) == "killed by its own watchdog"


def test_where_there_is_no_file_nothing_is_left(monkeypatch, tmp_path):
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
    last_words.leave(ValueError("unheard"))
    assert last_words.of(str(tmp_path / "none")) == ""
