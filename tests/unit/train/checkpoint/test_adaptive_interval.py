import pytest

from windlass.train.checkpoint import adaptive_interval as paces
from windlass.train.checkpoint.adaptive_interval import AdaptiveInterval, format_span
from windlass.train.checkpoint.checkpoint_writer import SaveCost
from windlass.train.checkpoint.run_history import RunHistory, continue_history
from windlass.train.checkpoint.save_interval import parse_interval


@pytest.fixture
def clock(monkeypatch):
    """A clock in seconds, set by the test."""
    now = [0.0]
    monkeypatch.setattr(paces.time, "monotonic", lambda: now[0])
    return now


def paced(every, history, clock, saves, between, stall):
    """Return the messages, and the interval at the end."""
    messages = []
    pace = AdaptiveInterval(parse_interval(every), history, messages.append)
    for step in range(1, saves + 1):
        clock[0] += between
        pace.note_start()
        pace.note_cost(step, SaveCost(stall, 2.0, 1000))
    return messages, pace.every


def test_auto_adopts_the_cost_of_the_first_save_with_one_message(clock):
    messages, every = paced("auto", RunHistory(), clock, saves=5, between=60.0, stall=2.0)
    assert every.seconds == 200.0
    (message,) = messages
    assert message.startswith("checkpoints are saved every 3m20s from now on: a save delays training by 2 s, and ")
    assert message.endswith("nothing failed in 60 s: at 3.33 min saves cost 1%")


def test_auto_follows_failures(clock):
    messages, every = paced("auto", RunHistory(failures=9, trained=9000.0), clock, saves=1, between=60.0, stall=2.0)
    assert every.seconds == pytest.approx((2 * 2.0 * 9060 / 9) ** 0.5)
    assert "a failure occurs every 16.8 min: sqrt(2 × 2 s × 16.8 min)" in messages[0]


def test_auto_has_a_minimum_interval(clock):
    _, every = paced("auto", RunHistory(), clock, saves=3, between=60.0, stall=0.001)
    assert every.seconds == 30.0


@pytest.mark.parametrize("every", ["10m", "600 steps"])
def test_an_interval_far_from_the_optimum_gets_one_remark(clock, every):
    history = RunHistory(failures=10, trained=36_000.0)
    messages, stays = paced(every, history, clock, saves=8, between=600.0, stall=0.4)
    assert stays == parse_interval(every)
    assert len(messages) == 1
    assert messages[0].startswith(
        'checkpoints are saved every 10m, and every="55s" (or "auto") would lose less: a save '
    )


def test_an_interval_near_the_optimum_gets_no_remark(clock):
    assert paced("4m", RunHistory(), clock, saves=8, between=240.0, stall=2.0)[0] == []


def test_the_next_checkpoint_records_time_failures_and_the_last_cost(clock):
    pace = AdaptiveInterval(parse_interval("10m"), RunHistory(failures=2, trained=100.0, generation=3), print)
    clock[0] = 50.0
    pace.note_cost(7, SaveCost(0.5, 2.0, 1000))
    assert pace.facts(leaves=False) == {
        "history": {"failures": 2, "trained": 150.0, "generation": 3, "leaves": False},
        "cost": {"step": 7, "stall": 0.5, "duration": 2.0, "size": 1000},
    }


@pytest.mark.parametrize(
    ("leaves", "generation", "failures"),
    [(True, 4, 2), (False, 4, 3), (False, 6, 5), (False, 3, 3), (False, 1, 3)],
)
def test_a_checkpoint_not_saved_before_a_clean_exit_counts_as_a_failure(leaves, generation, failures):
    facts = RunHistory(2, 100.0, 3).facts(50.0, leaves=leaves)
    assert continue_history(facts, generation) == RunHistory(failures, 150.0, generation)


def test_a_checkpoint_without_history_starts_one():
    assert continue_history({"seed": 1}, 2) == RunHistory(0, 0.0, 2)


def test_spans_are_formatted_as_every_takes_them():
    assert [format_span(seconds) for seconds in (0.2, 45, 150, 3600, 3661)] == ["1s", "45s", "2m30s", "1h", "1h1m1s"]
    assert all(parse_interval(format_span(seconds)).seconds == seconds for seconds in (45, 150, 3600, 3661))
