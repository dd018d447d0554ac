"""The command of `windlass agent` for a job's command."""

import pytest

from windlass.launch.agent import agent_words, entry_of


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python train.py --lr 0.1", "-- train.py --lr 0.1"),
        ("/opt/venv/bin/python3.12 -u train.py", "-- train.py"),
        ("python3 -m pkg.train -m x", "--module -- pkg.train -m x"),
        ("python -O train.py", "--no-python -- python -O train.py"),
        ("python -c pass", "--no-python -- python -c pass"),
        ("python", "--no-python -- python"),
        ("python train.py -- --foo", "-- train.py -- --foo"),
        ("./train.sh 1", "--no-python -- ./train.sh 1"),
    ],
)
def test_a_python_script_runs_in_forked_ranks_and_another_program_is_executed(command, words):
    assert agent_words(command.split()) == tuple(words.split())


def test_the_interpreter_is_the_one_of_the_command():
    entry = entry_of(["/opt/venv/bin/python", "train.py"])
    assert entry is not None
    assert (entry.python, entry.module, entry.words) == ("/opt/venv/bin/python", False, ("train.py",))
