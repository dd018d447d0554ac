import random

from windlass.train.health.loss_spike import MIN_STEPS, WINDOW_STEPS, LossWindow, detect_spike
from windlass.train.run_rollback import RollbackHistory

CHANCE = random.Random(1)  # noqa: S311 - a dice
NOISE = [3.0 + CHANCE.gauss(0, 0.1) for _ in range(WINDOW_STEPS)]


def test_noise_is_no_spike_and_a_loss_far_above_is():
    assert all(detect_spike(3.0 + CHANCE.gauss(0, 0.1), NOISE) is None for _ in range(1000))
    found = detect_spike(4.5, NOISE)
    assert found is not None
    assert 3.6 < found.limit < 4.2
    assert str(found).startswith("the loss of 4.5 is above 3.681, the median of 100 steps (3.001) and 8 times")


def test_a_low_loss_is_no_spike():
    assert detect_spike(0.1, NOISE) is None


def test_too_few_steps_give_no_verdict():
    assert detect_spike(1000.0, NOISE[: MIN_STEPS - 1]) is None
    assert detect_spike(1000.0, NOISE[:MIN_STEPS]) is not None


def test_constant_losses_have_a_minimum_spread():
    assert detect_spike(1.05, [1.0] * WINDOW_STEPS) is None
    assert detect_spike(1.09, [1.0] * WINDOW_STEPS) is not None


def test_a_falling_loss_is_followed_and_spikes_stay_out_of_the_window():
    recent = LossWindow()
    for step in range(300):
        assert recent.check(5.0 * 0.99**step + 0.5) is None
    assert recent.check(50.0) is not None
    assert 50.0 not in recent.losses
    assert len(recent.losses) == WINDOW_STEPS


def test_each_rollback_uses_an_older_checkpoint_until_there_is_a_newer_one():
    first = RollbackHistory()
    assert first.before(newest=40) is None
    once = first.after(newest=40, step=40)
    assert (once.count, once.before(newest=40)) == (1, 39)
    twice = once.after(newest=40, step=30)
    assert (twice.count, twice.before(newest=30)) == (2, 29)
    assert twice.before(newest=50) is None
    assert twice.after(newest=50, step=50).count == 1
