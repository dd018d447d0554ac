"""What a rank has written down of its end, and how it reads in a line."""

import json

import pytest

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
        (RuntimeError("long " * 100), ("RuntimeError: " + "long " * 100)[:300]),
    ],
)
def test_an_error_is_left_and_read_as_one_line(file, error, said):
    last_words.leave(error)
    assert last_words.of(str(file)) == said


def test_what_the_script_has_written_itself_stays(file):
    said = {"message": {"message": "ValueError: by torch's record", "extraInfo": {"timestamp": "1"}}}
    file.write_text(json.dumps(said))
    last_words.leave(SystemExit("something later"))
    assert last_words.of(str(file)) == "ValueError: by torch's record"


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
