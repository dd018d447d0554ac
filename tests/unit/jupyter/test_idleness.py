"""When a notebook is idle."""

from datetime import UTC, datetime

from windlass.jupyter.idleness import idle_seconds

NOW = 1_000_000.0


def used(seconds_ago: float, state: str = "idle"):
    at = datetime.fromtimestamp(NOW - seconds_ago, UTC).isoformat().replace("+00:00", "Z")
    return {"execution_state": state, "last_activity": at}


def test_the_latest_activity_counts():
    assert idle_seconds([used(30), used(300)], [], NOW - 100, NOW) == 30
    assert idle_seconds([used(300)], [used(20)], NOW - 100, NOW) == 20
    assert idle_seconds([used(300)], [], NOW - 10, NOW) == 10


def test_a_cell_that_runs_for_long_is_activity():
    assert idle_seconds([used(7200, "busy"), used(10)], [], 0, NOW) == 0


def test_times_that_are_none_count_as_no_activity():
    assert idle_seconds([{"last_activity": "yesterday"}, {}], [], NOW - 5, NOW) == 5
