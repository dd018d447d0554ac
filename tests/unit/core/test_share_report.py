from gangs import demand, ledger_of, nodes, running, waiting

from windlass.core.model.queue import PastUsage, Queue
from windlass.core.queues.decayed_usage import SCALE
from windlass.core.queues.share_report import Claim, queue_shares, water_fill

LAB = (Queue("lab"), Queue("a", {"gpu": 8}, "lab"), Queue("b", {"gpu": 8}, "lab", weight=3))


def shares_of(*gangs, queues=LAB, order=(), machines=2, past=None):
    snapshot = ledger_of(nodes(machines), *gangs, queues=queues).snapshot()
    if past:
        snapshot.past_usage.update(past)
    return {share.queue: share for share in queue_shares(snapshot, order)}


def test_a_single_queue_has_its_request_as_target():
    alone = shares_of(waiting(1, demand(5), queue="a"), queues=[Queue("a")])["a"]
    assert (alone.target, alone.held, alone.share, alone.running, alone.waiting) == ({"gpu": 5}, {}, 0, 0, 1)


def test_borrowed_and_lent_amounts_are_shown():
    got = shares_of(running(1, {"n1": 8, "n2": 3}, queue="a"), running(2, {"n2": 2}, queue="b"))
    assert (got["a"].held, got["a"].borrowed, got["a"].lent) == ({"gpu": 11}, {"gpu": 3}, {})
    assert (got["b"].held, got["b"].borrowed, got["b"].lent) == ({"gpu": 2}, {}, {"gpu": 3})
    assert (got["lab"].held, got["lab"].quota, got["lab"].running) == ({"gpu": 13}, {"gpu": 16}, 2)
    assert (got["a"].depth, got["a"].parent, got["lab"].depth) == (1, "lab", 0)


def test_the_share_is_the_part_of_the_cluster_per_unit_of_weight():
    got = shares_of(running(1, {"n1": 8}, queue="a"), running(2, {"n2": 6}, queue="b"))
    assert (got["a"].share, got["b"].share, got["lab"].share) == (500_000, 125_000, 875_000)


def test_past_usage_counts_like_usage():
    got = shares_of(running(1, {"n1": 4}, queue="a"), past={"a": PastUsage(0, {"gpu": 2 * SCALE})})
    assert (got["a"].past, got["lab"].past, got["a"].share) == ({"gpu": 2}, {"gpu": 2}, 375_000)


def test_the_target_above_the_quota_follows_the_weight():
    many = [waiting(number, demand(8), queue=queue) for number, queue in enumerate(("a", "a", "b", "b"), start=1)]
    assert {name: share.target for name, share in shares_of(*many).items() if name in "ab"} == {
        "a": {"gpu": 8},
        "b": {"gpu": 8},
    }
    free = [Queue("a"), Queue("b", weight=3)]
    assert [share.target for name, share in shares_of(*many, queues=free).items() if name in "ab"] == [
        {"gpu": 4},
        {"gpu": 12},
    ]


def test_the_next_gang_is_the_first_of_the_plans_order():
    got = shares_of(waiting(1, demand(1), queue="a"), waiting(2, demand(1), queue="b"), order=("j-2", "j-1"))
    assert (got["lab"].next, got["a"].next, got["b"].next, got["default"].next) == ("j-2", "j-1", "j-2", "")


def test_water_filling_follows_weights_up_to_the_cap():
    assert water_fill(12, [Claim(1, 0, 100), Claim(2, 0, 100)]) == [4, 8]
    assert water_fill(12, [Claim(1, 0, 2), Claim(2, 0, 100)]) == [2, 10]
    assert water_fill(12, [Claim(1, 6, 100), Claim(2, 0, 100)]) == [6, 6]
    assert water_fill(12, [Claim(1, 0, 2), Claim(1, 0, 3)]) == [2, 3]
    assert water_fill(6, [Claim(1, 8, 8), Claim(1, 4, 8)]) == [4, 2]
    assert water_fill(6, []) == []
