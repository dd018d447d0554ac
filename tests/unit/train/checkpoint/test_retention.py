import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.train.checkpoint.store.errors import CheckpointError
from windlass.train.checkpoint.store.layout import CheckpointKey
from windlass.train.checkpoint.store.retention import Retention, keys_to_keep, keys_to_prune

KEYS = st.sets(st.builds(CheckpointKey, st.just(1), st.integers(0, 5_000)), max_size=40)
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
    keys = [CheckpointKey(1, step) for step in (100, 200, 300, 400, 500)]
    assert [key.step for key in keys_to_prune(keys, Retention(keep, every))] == gone


def test_of_one_step_the_checkpoint_of_the_later_writer_stays():
    older, newer, next_one = CheckpointKey(1, 100), CheckpointKey(2, 100), CheckpointKey(2, 200)
    assert keys_to_prune([older, newer, next_one], Retention(2)) == [older]


def test_checkpoints_of_the_later_writer_count_as_newest():
    stale, newest = CheckpointKey(1, 500), CheckpointKey(2, 450)
    assert keys_to_prune([stale, newest], Retention(1)) == [stale]


def test_keeping_none_at_all_is_refused():
    with pytest.raises(CheckpointError, match="keep at least 1"):
        Retention(0)


def test_a_milestone_interval_of_zero_is_refused():
    with pytest.raises(CheckpointError, match="the number of steps must be positive"):
        Retention(3, 0)


@given(KEYS, RETENTIONS)
def test_kept_and_pruned_steps_are_all_steps(keys, retention):
    stay, go = keys_to_keep(keys, retention), set(keys_to_prune(keys, retention))
    assert stay | go == keys
    assert not stay & go


@given(KEYS, RETENTIONS)
def test_the_newest_always_stay(keys, retention):
    assert set(sorted(keys)[-retention.keep :]) <= keys_to_keep(keys, retention)


@given(KEYS, RETENTIONS)
def test_pruning_twice_is_pruning_once(keys, retention):
    assert keys_to_prune(keys_to_keep(keys, retention), retention) == []


@given(KEYS, RETENTIONS)
def test_pruned_after_each_save_or_at_the_end_the_same_milestones_stay(keys, retention):
    alive = set()
    for key in sorted(keys):
        alive = keys_to_keep(alive | {key}, retention)
    assert alive == keys_to_keep(keys, retention)
