"""Fair share between queues: the queue order, and reclaim."""

from gangs import demand, ledger_of, nodes, waiting

from windlass.core.model.node import Node, Topology
from windlass.core.model.queue import PastUsage, Queue
from windlass.core.nodes.node_table import build_table
from windlass.core.queues.decayed_usage import SCALE
from windlass.core.queues.fair_share import Shares, can_reclaim, can_reclaim_all, total_capacity
from windlass.core.queues.queue_order import QueueOrder, iterate_by_fair_share
from windlass.core.queues.queue_tree import tree_of
from windlass.core.queues.usage import QueueUsage

LAB = (Queue("lab"), Queue("a", {"gpu": 8}, "lab"), Queue("b", {"gpu": 8}, "lab"))


def shares_of(queues, held=None, past=None, gpus=16):
    """`held` and `past`: GPUs by queue."""
    tree = tree_of({queue.name: queue for queue in queues})
    usage = QueueUsage(tree, {name: {"gpu": number} for name, number in (held or {}).items()}, {})
    past = {name: PastUsage(0, {"gpu": number * SCALE}) for name, number in (past or {}).items()}
    return Shares(usage, {"gpu": 1000 * gpus}, past)


def order_of(shares, *gangs, classes=False):
    """Numbers of the gangs in the order in which they are considered, if each of them starts."""
    lines = ledger_of((), *gangs).snapshot().classes
    return [int(job_id.removeprefix("j-")) for job_id in iterate_by_fair_share(lines, shares, priority_first=classes)]


# --- shares ------------------------------------------------------------------------------------------


def test_the_share_is_the_dominant_resource_per_unit_of_weight():
    tree = tree_of({"a": Queue("a"), "b": Queue("b", weight=2)})
    held = {"a": {"gpu": 2, "cpu": 48_000}, "b": {"gpu": 12}}
    shares = Shares(QueueUsage(tree, held, {}), {"gpu": 16_000, "cpu": 64_000}, {})
    assert (shares.share("a"), shares.share("b")) == (750_000, 375_000)


def test_a_parent_has_the_share_of_all_below_it_and_its_own():
    shares = shares_of(LAB, {"lab": 1, "a": 4, "b": 3})
    assert (shares.share("lab"), shares.own_share("lab")) == (500_000, 62_500)


def test_past_usage_counts_up_the_tree():
    shares = shares_of(LAB, {"a": 4}, past={"a": 2, "b": 2})
    assert (shares.share("a"), shares.share("b"), shares.share("lab")) == (375_000, 125_000, 500_000)


def test_capacity_includes_nodes_that_are_down():
    machines = [*nodes(2, cpu=64_000), *nodes(1, ready=False)]
    assert total_capacity(ledger_of(machines).snapshot().table) == {"gpu": 24_000, "cpu": 128_000}


# --- the queue order --------------------------------------------------------------------------------


def test_the_queue_with_the_lower_share_goes_first_and_shares_change_as_gangs_start():
    queues = (Queue("a"), Queue("b"))
    gangs = [waiting(number, demand(2), queue="a" if number < 4 else "b") for number in range(1, 7)]
    assert order_of(shares_of(queues), *gangs) == [1, 4, 2, 5, 3, 6]
    assert order_of(shares_of(queues, {"a": 4}), *gangs) == [4, 5, 1, 6, 2, 3]


def test_twice_the_weight_gets_twice_as_much():
    queues = (Queue("a"), Queue("b", weight=2))
    gangs = [waiting(number, demand(1), queue="a" if number < 5 else "b") for number in range(1, 10)]
    assert order_of(shares_of(queues), *gangs)[:6] == [1, 5, 6, 2, 7, 8]


def test_a_queue_within_its_quota_goes_before_a_borrower_whatever_the_shares():
    shares = shares_of(LAB, {"a": 6, "b": 8}, gpus=32)
    assert order_of(shares, waiting(1, demand(2), queue="b"), waiting(2, demand(2), queue="a")) == [2, 1]
    assert order_of(shares, waiting(1, demand(1), queue="b"), waiting(2, demand(3), queue="a")) == [2, 1]


def test_fair_share_decides_between_departments_before_teams():
    queues = (
        Queue("x"),
        Queue("y"),
        Queue("x1", parent="x"),
        Queue("x2", parent="x"),
        Queue("y1", parent="y"),
    )
    gangs = [waiting(number, demand(1), queue=queue) for number, queue in enumerate(("x1", "x2", "y1", "y1"), start=1)]
    assert order_of(shares_of(queues), *gangs) == [1, 3, 2, 4]
    assert order_of(shares_of(queues, {"x1": 1}), *gangs) == [3, 2, 4, 1]


def test_own_jobs_of_a_parent_compete_with_its_children():
    queues = (Queue("lab", {"gpu": 16}), Queue("a", parent="lab"))
    gangs = [waiting(number, demand(1), queue="lab" if number < 3 else "a") for number in range(1, 5)]
    assert order_of(shares_of(queues), *gangs) == [1, 3, 2, 4]
    assert order_of(shares_of(queues, {"lab": 2}), *gangs) == [3, 4, 1, 2]


def test_priority_goes_before_the_share_or_counts_within_a_queue():
    queues = (Queue("a"), Queue("b"))
    gangs = [
        waiting(1, demand(1), queue="b"),
        waiting(2, demand(1), queue="a"),
        waiting(3, demand(1), queue="a", priority=5),
    ]
    shares = shares_of(queues, {"a": 4})
    assert order_of(shares, *gangs, classes=True) == [3, 1, 2]
    assert order_of(shares, *gangs) == [1, 3, 2]


def test_past_usage_moves_a_queue_back():
    gangs = [waiting(1, demand(1), queue="a"), waiting(2, demand(1), queue="b")]
    assert order_of(shares_of(LAB[1:], past={"a": 1}), *gangs) == [2, 1]


def test_a_queue_is_drained_in_one_plan():
    # kueue#14477: one workload of each queue in a cycle, so that waits grow with the depth of a queue.
    snapshot = ledger_of((), *(waiting(number, demand(1), queue="ab"[number % 2]) for number in range(100))).snapshot()
    assert len(list(QueueOrder(snapshot.classes, shares_of((Queue("a"), Queue("b")))))) == 100


def test_a_dropped_class_yields_no_more_and_the_others_continue():
    queues = (Queue("a"), Queue("b"))
    gangs = [waiting(number, demand(1), queue="a" if number < 3 else "b") for number in range(1, 5)]
    seen = []
    for gang in (queue_order := QueueOrder(ledger_of((), *gangs).snapshot().classes, shares_of(queues))):
        seen.append(gang.number)
        if gang.queue == "a":
            assert [each.number for each in queue_order.eq_class.gangs] == [1, 2]
            queue_order.drop()
    assert seen == [1, 3, 4]


def test_a_preempted_queue_stands_by_what_it_holds_then():
    queues = (Queue("a"), Queue("b"), Queue("c"))
    shares = shares_of(queues, {"a": 6, "b": 4, "c": 2})
    gangs = [waiting(number, demand(1), queue=queue) for number, queue in enumerate("cba", start=1)]
    seen = []
    for gang in QueueOrder(ledger_of((), *gangs).snapshot().classes, shares):
        seen.append(gang.queue)
        if gang.queue == "c":
            shares.usage.subtract("a", "", {"gpu": 6})
    assert seen == ["c", "a", "b"]


# --- taking back -------------------------------------------------------------------------------------


def test_a_queue_reclaims_its_quota_from_borrowers():
    shares = shares_of(LAB, {"a": 14, "b": 2})
    assert can_reclaim(shares, "b", "a", {"gpu": 6})
    assert not can_reclaim(shares, "b", "a", {"gpu": 7})
    assert not can_reclaim(shares, "a", "b", {"gpu": 1})
    assert not can_reclaim(shares, "a", "a", {"gpu": 1})


def test_a_queue_within_its_quota_loses_nothing_and_roots_reclaim_nothing():
    queues = (*LAB, Queue("c", parent="lab"), Queue("other", {"gpu": 8}))
    shares = shares_of(queues, {"a": 8, "c": 4, "other": 8})
    assert not can_reclaim(shares, "b", "a", {"gpu": 4})
    assert can_reclaim(shares, "b", "c", {"gpu": 4})
    assert not can_reclaim(shares, "b", "other", {"gpu": 4})


def test_only_gangs_that_hold_a_requested_resource_are_reclaimed():
    shares = shares_of(LAB, {"a": 14})
    assert not can_reclaim(shares, "b", "a", {"gpu": 6}, {"cpu": 4000})
    assert can_reclaim(shares, "b", "a", {"gpu": 6}, {"gpu-milli": 500})


def test_a_team_reclaims_within_its_department_and_for_it():
    queues = (
        Queue("org"),
        Queue("x", parent="org"),
        Queue("y", {"gpu": 8}, parent="org"),
        Queue("x1", {"gpu": 4}, parent="x"),
        Queue("x2", {"gpu": 4}, parent="x"),
        Queue("y1", parent="y"),
    )
    assert can_reclaim(shares_of(queues, {"y1": 12}), "x1", "y1", {"gpu": 8})
    assert not can_reclaim(shares_of(queues, {"y1": 12}), "x1", "y1", {"gpu": 9})
    assert can_reclaim(shares_of(queues, {"x1": 8, "x2": 0}), "x2", "x1", {"gpu": 4})
    assert not can_reclaim(shares_of(queues, {"x1": 8, "x2": 0}), "y1", "x1", {"gpu": 8})


def test_own_jobs_of_a_parent_lose_and_reclaim_up_to_its_own_quota():
    queues = (Queue("lab", {"gpu": 4}), Queue("a", {"gpu": 4}, "lab"))
    assert can_reclaim(shares_of(queues, {"lab": 6}), "a", "lab", {"gpu": 2})
    assert not can_reclaim(shares_of(queues, {"lab": 4}), "a", "lab", {"gpu": 2})
    assert can_reclaim(shares_of(queues, {"a": 8}), "lab", "a", {"gpu": 4})
    assert not can_reclaim(shares_of(queues, {"a": 8}), "lab", "a", {"gpu": 5})


def test_two_queues_with_quotas_of_different_resources_do_not_stop_each_other_in_turn():
    # Each would be within its quota of the one, and borrow the other: taking turns for ever (see also kueue#7393).
    queues = (Queue("lab"), Queue("a", {"gpu": 1}, "lab"), Queue("b", {"cpu": 1000}, "lab"))
    tree = tree_of({queue.name: queue for queue in queues})
    both = {"gpu": 1, "cpu": 1000}
    shares = Shares(QueueUsage(tree, {"a": both}, {}), {"gpu": 1000, "cpu": 1000}, {})
    assert not can_reclaim(shares, "b", "a", both)
    assert can_reclaim(shares, "b", "a", {"cpu": 1000})


def test_quota_of_the_root_alone_belongs_to_no_child():
    queues = (Queue("lab", {"cpu": 64_000}), Queue("a", {"gpu": 8}, "lab"), Queue("b", {"gpu": 8}, "lab"))
    tree = tree_of({queue.name: queue for queue in queues})
    held = {"a": {"gpu": 12, "cpu": 12_000}}
    shares = Shares(QueueUsage(tree, held, {}), {"gpu": 16_000, "cpu": 64_000}, {})
    assert can_reclaim(shares, "b", "a", {"gpu": 8, "cpu": 8_000})
    assert not can_reclaim(shares, "b", "a", {"cpu": 8_000})


def test_gangs_are_stopped_only_while_their_queue_borrows():
    shares = shares_of(LAB, {"a": 14})
    three = ("a", "ada", {"gpu": 3})
    assert can_reclaim_all(shares, "b", {"gpu": 6}, [three, three])
    assert not can_reclaim_all(shares, "b", {"gpu": 6}, [three, three, three])


def test_no_ancestor_borrows_more_after_a_reclaim():
    queues = (
        Queue("org"),
        Queue("x", parent="org"),
        Queue("y", {"gpu": 8}, parent="org"),
        Queue("x1", {"gpu": 4}, parent="x"),
        Queue("x2", {"gpu": 4}, parent="x"),
    )
    shares = shares_of(queues, {"x2": 10})
    assert can_reclaim(shares, "x1", "x2", {"gpu": 4}, {"gpu": 2})
    assert not can_reclaim_all(shares, "x1", {"gpu": 4}, [("x2", "", {"gpu": 2})])
    assert can_reclaim_all(shares, "x1", {"gpu": 4}, [("x2", "", {"gpu": 2}), ("x2", "", {"gpu": 2})])


def test_exclusive_resources_count_in_no_share():
    whole = Node("a", {"cpu": 4000, "pods": 110, "hostport/80": 1, "apart/x": 1, "rdma/hca": 2})
    assert total_capacity(build_table([whole], Topology(), epoch=0)) == {"cpu": 4000, "rdma/hca": 2}
