"""Causes of a slow job, as its page shows them."""

from typing import Any

from windlass.server.dashboard.slowness import slowness


def rank(number: int, *, data: float) -> dict[str, Any]:
    """A rank of which the first three have the same work, apart from the wait for samples."""
    times = {"total_ms": 100_000.0, "total_data_ms": data, "total_forward_ms": 20_000.0}
    return {"rank": number, "node": f"n{number}", "values": {**times, "total_backward_ms": 75_000.0 - data}}


def test_the_rank_that_others_wait_for_is_named_with_its_phase():
    ranks = [rank(0, data=5_000.0), rank(1, data=5_000.0), rank(2, data=60_000.0)]
    (cause, *_) = slowness({"progress": {"ranks": ranks}})
    assert cause["name"] == "slow.straggler"
    assert "others wait for rank 2, which waits for its samples" in cause["text"]
    assert cause["share"] > 0.5
    assert "data 60%" in cause["evidence"][0]


def test_ranks_that_report_no_phases_have_no_causes():
    assert slowness({"progress": None}) == []
    assert slowness({"progress": {"ranks": [{"rank": 0, "values": {}}]}}) == []


def test_even_ranks_have_no_straggler():
    ranks = [rank(number, data=2_000.0) for number in range(3)]
    assert "slow.straggler" not in [cause["name"] for cause in slowness({"progress": {"ranks": ranks}})]
