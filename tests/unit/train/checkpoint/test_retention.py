import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.train.checkpoint.store.errors import CheckpointError
from windlass.train.checkpoint.store.retention import Retention, steps_to_keep, steps_to_prune

STEPS = st.sets(st.integers(0, 5_000), max_size=40)
RETENTIONS = st.builds(Retention, st.integers(1, 8), st.none() | st.integers(1, 900))


@pytest.mark.parametrize(
    ("keep", "every", "gone"),
    [
        (1, None, [100, 200, 300, 400]),
        (3, None, [100, 200]),
        (9, None, []),
        (1, 200, [300]),  # 100 is the first below 200, 200 and 400 the first at or after theirs
        (1, 1000, [200, 300, 400]),
    ],
)
def test_the_newest_checkpoints_and_milestones_stay(keep, every, gone):
    assert steps_to_prune([100, 200, 300, 400, 500], Retention(keep, every)) == gone


def test_keeping_none_at_all_is_refused():
    with pytest.raises(CheckpointError, match="keep at least 1"):
        Retention(0)


def test_a_milestone_interval_of_zero_is_refused():
    with pytest.raises(CheckpointError, match="the number of steps must be positive"):
        Retention(3, 0)


@given(STEPS, RETENTIONS)
def test_kept_and_pruned_steps_are_all_steps(steps, retention):
    stay, go = steps_to_keep(steps, retention), set(steps_to_prune(steps, retention))
    assert stay | go == steps
    assert not stay & go


@given(STEPS, RETENTIONS)
def test_the_newest_always_stay(steps, retention):
    assert set(sorted(steps)[-retention.keep :]) <= steps_to_keep(steps, retention)


@given(STEPS, RETENTIONS)
def test_pruning_twice_is_pruning_once(steps, retention):
    assert steps_to_prune(steps_to_keep(steps, retention), retention) == []


@given(STEPS, RETENTIONS)
def test_pruned_after_each_save_or_at_the_end_the_same_milestones_stay(steps, retention):
    alive = set()
    for step in sorted(steps):
        alive = steps_to_keep(alive | {step}, retention)
    assert alive == steps_to_keep(steps, retention)
