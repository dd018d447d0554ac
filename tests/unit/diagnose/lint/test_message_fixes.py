"""The fix of a fault is the sentence of its message that tells it."""

import pytest

from windlass.diagnose.lint.message_fixes import fix_of


@pytest.mark.parametrize(
    ("message", "fix"),
    [
        ("expects a list, not 'a'", "Write a list."),
        ("expects a text, not 3; put it in quotes", "Put it in quotes."),
        ("must be 1: a job has one Master", "Write 1."),
        ("must be at least 1; leave the Worker out instead", "Leave the Worker out instead."),
        ("'Wroker' is no replica type of this kind; did you mean 'Worker'?", "Write Worker."),
        ("is the Worker a second time; write it once", "Write it once."),
        ("has no Launcher; every job of this kind has one", "Add a Launcher."),
        ("waits until the nodes of the cluster are known", ""),
    ],
)
def test_the_fix_of_a_message(message, fix):
    assert fix_of(message) == fix


def test_the_words_that_are_valid_are_the_fix():
    assert fix_of("expects A or B or C, not 'x'", ("A", "B", "C")) == "Write A, B or C."
