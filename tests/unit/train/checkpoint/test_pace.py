import pytest

from windlass.train.checkpoint import pace as paces
from windlass.train.checkpoint.due import every_of
from windlass.train.checkpoint.history import History, begun
from windlass.train.checkpoint.pace import Pace, span
from windlass.train.checkpoint.saver import Cost


@pytest.fixture
def clock(monkeypatch):
    """Seconds, as they are set."""
    now = [0.0]
    monkeypatch.setattr(paces.time, "monotonic", lambda: now[0])
    return now


def paced(every, history, clock, saves, between, stall):
    """What was told, and the interval at the end."""
    told = []
    pace = Pace(every_of(every), history, told.append)
    for step in range(1, saves + 1):
        clock[0] += between
        pace.saves()
        pace.cost(step, Cost(stall, 2.0, 1000))
    return told, pace.every


def test_auto_takes_what_the_first_save_cost_and_says_so_once(clock):
    told, every = paced("auto", History(), clock, saves=5, between=60.0, stall=2.0)
    assert every.seconds == 200.0
    (said,) = told
    assert said.startswith(
        "checkpoints are saved every 3m20s from here on: a save keeps training waiting for 2 s, and "
    )
    assert said.endswith("nothing failed in 60 s: at 3.33 min saves cost 1%")


def test_auto_follows_failures(clock):
    told, every = paced("auto", History(failures=9, trained=9000.0), clock, saves=1, between=60.0, stall=2.0)
    assert every.seconds == pytest.approx((2 * 2.0 * 9060 / 9) ** 0.5)
    assert "something fails every 16.8 min: sqrt(2 × 2 s × 16.8 min)" in told[0]


def test_auto_never_saves_without_a_pause(clock):
    _, every = paced("auto", History(), clock, saves=3, between=60.0, stall=0.001)
    assert every.seconds == 30.0


@pytest.mark.parametrize("every", ["10m", "600 steps"])
def test_an_interval_far_from_the_best_is_remarked_on_once(clock, every):
    history = History(failures=10, trained=36_000.0)
    told, stays = paced(every, history, clock, saves=8, between=600.0, stall=0.4)
    assert stays == every_of(every)
    assert len(told) == 1
    assert told[0].startswith('checkpoints are saved every 10m, and every="55s" (or "auto") would lose less: a save ')


def test_one_that_is_near_is_not(clock):
    assert paced("4m", History(), clock, saves=8, between=240.0, stall=2.0)[0] == []


def test_the_next_checkpoint_tells_of_time_failures_and_the_last_cost(clock):
    pace = Pace(every_of("10m"), History(failures=2, trained=100.0, generation=3), print)
    clock[0] = 50.0
    pace.cost(7, Cost(0.5, 2.0, 1000))
    assert pace.facts(leaves=False) == {
        "history": {"failures": 2, "trained": 150.0, "generation": 3, "leaves": False},
        "cost": {"step": 7, "stall": 0.5, "duration": 2.0, "size": 1000},
    }


@pytest.mark.parametrize(
    ("leaves", "generation", "failures"),
    [(True, 4, 2), (False, 4, 3), (False, 6, 5), (False, 3, 3), (False, 1, 3)],
)
def test_a_checkpoint_not_made_before_leaving_was_followed_by_a_failure(leaves, generation, failures):
    facts = History(2, 100.0, 3).facts(50.0, leaves=leaves)
    assert begun(facts, generation) == History(failures, 150.0, generation)


def test_a_checkpoint_that_tells_nothing_begins_a_history():
    assert begun({"seed": 1}, 2) == History(0, 0.0, 2)


def test_spans_as_every_takes_them():
    assert [span(seconds) for seconds in (0.2, 45, 150, 3600, 3661)] == ["1s", "45s", "2m30s", "1h", "1h1m1s"]
    assert all(every_of(span(seconds)).seconds == seconds for seconds in (45, 150, 3600, 3661))
