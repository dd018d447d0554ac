from pathlib import Path

import check_sizes
import pytest

LONG_FUNCTION = "def f():\n" + "    pass\n" * 70
LONG_FILE = "pass\n" * 501


@pytest.mark.parametrize(
    ("name", "text", "finding"),
    [
        ("a.py", LONG_FUNCTION, "a.py:1: f has 71 lines, at most 70"),
        ("a.py", LONG_FILE, "a.py: 501 lines, at most 500"),
        ("utils.py", "", "utils.py: a name that does not tell what is inside"),
        ("a.py", "x = 1  # FIXME: later\n", "a.py:1: unfinished: x = 1  # FIXME: later"),
        ("a.py", "raise NotImplementedError\n", "a.py:1: unfinished: raise NotImplementedError"),
    ],
)
def test_a_finding_names_file_and_line(tmp_path, name, text, finding):
    path = tmp_path / name
    path.write_text(text)
    assert list(check_sizes.check(path, Path(name))) == [finding]


def test_a_marker_in_a_string_is_no_unfinished_work(tmp_path):
    path = tmp_path / "a.py"
    path.write_text('WORDS = "TODO FIXME"\n')
    assert list(check_sizes.check(path, Path("a.py"))) == []
