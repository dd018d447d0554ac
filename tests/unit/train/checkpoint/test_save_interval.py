import pytest

from windlass.train.checkpoint.save_interval import SaveInterval, is_due, parse_interval
from windlass.train.checkpoint.store.errors import CheckpointError


@pytest.mark.parametrize(
    ("text", "every"),
    [
        ("500 steps", SaveInterval(steps=500)),
        ("1 step", SaveInterval(steps=1)),
        ("500steps", SaveInterval(steps=500)),
        ("10m", SaveInterval(seconds=600)),
        (" 1h30m ", SaveInterval(seconds=5400)),
        ("2d1h1m1s", SaveInterval(seconds=2 * 86_400 + 3_661)),
        ("90s", SaveInterval(seconds=90)),
        ("auto", SaveInterval(seconds=60, is_adaptive=True)),
    ],
)
def test_times_and_steps_are_parsed(text, every):
    assert parse_interval(text) == every


@pytest.mark.parametrize("text", ["", "10", "ten minutes", "0s", "0 steps", "-5m", "5m1h", "500 stepz", "1.5h"])
def test_other_intervals_are_refused_with_examples(text):
    with pytest.raises(CheckpointError, match=", a number of steps as 500 steps, or auto"):
        parse_interval(text)


def test_saves_by_steps_are_due_at_each_multiple():
    every = SaveInterval(steps=100)
    assert [step for step in range(1, 301) if is_due(every, step, 0, step - 1, 0)] == [100, 200, 300]
    assert is_due(every, 205, 0, last_step=130, last_at=0)
    assert not is_due(every, 199, 0, last_step=130, last_at=0)


def test_saves_by_time_are_due_after_the_interval():
    every = SaveInterval(seconds=600)
    assert not is_due(every, 7, now=1599.0, last_step=3, last_at=1000.0)
    assert is_due(every, 7, now=1600.0, last_step=3, last_at=1000.0)


@pytest.mark.parametrize("every", [SaveInterval(steps=1), SaveInterval(seconds=0.001)])
def test_a_saved_step_is_not_saved_again(every):
    assert not is_due(every, 7, now=9e9, last_step=7, last_at=0.0)
