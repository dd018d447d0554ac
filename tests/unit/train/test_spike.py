import random

from windlass.train.checkpoints import Rollbacks
from windlass.train.health.spike import LEAST, WINDOW, Recent, spike_of

CHANCE = random.Random(1)  # noqa: S311 - a dice
NOISE = [3.0 + CHANCE.gauss(0, 0.1) for _ in range(WINDOW)]


def test_noise_is_none_and_what_is_far_above_it_is():
    assert all(spike_of(3.0 + CHANCE.gauss(0, 0.1), NOISE) is None for _ in range(1000))
    found = spike_of(4.5, NOISE)
    assert found is not None
    assert 3.6 < found.limit < 4.2
    assert str(found).startswith("its loss of 4.5 is above 3.681, the median of 100 steps (3.001) and 8 times")


def test_what_is_below_is_none():
    assert spike_of(0.1, NOISE) is None


def test_too_few_steps_tell_nothing():
    assert spike_of(1000.0, NOISE[: LEAST - 1]) is None
    assert spike_of(1000.0, NOISE[:LEAST]) is not None


def test_losses_that_hardly_move_are_no_narrow_spread():
    assert spike_of(1.05, [1.0] * WINDOW) is None
    assert spike_of(1.09, [1.0] * WINDOW) is not None


def test_a_falling_loss_is_followed_and_spikes_are_not_what_others_are_compared_with():
    recent = Recent()
    for step in range(300):
        assert recent.judged(5.0 * 0.99**step + 0.5) is None
    assert recent.judged(50.0) is not None
    assert 50.0 not in recent.losses
    assert len(recent.losses) == WINDOW


def test_each_rollback_goes_further_until_there_is_a_newer_checkpoint():
    first = Rollbacks()
    assert first.before(newest=40) is None
    once = first.after(newest=40, step=40)
    assert (once.count, once.before(newest=40)) == (1, 39)
    twice = once.after(newest=40, step=30)
    assert (twice.count, twice.before(newest=30)) == (2, 29)
    assert twice.before(newest=50) is None
    assert twice.after(newest=50, step=50).count == 1
