"""Quota trees: two teams of one cohort, and the quota that they may use, lend and keep."""

import pytest

from windlass.core.model.queue import Queue
from windlass.core.model.reasons import Reason
from windlass.core.queues.queue_tree import QueueFault, charge, find_faults, tree_of
from windlass.core.queues.quota import (
    available_quota,
    blocked_by_claims,
    exceeds_available,
    exceeds_maximum,
    maximum_quota,
    quota_verdict,
)
from windlass.core.queues.usage import QueueUsage


def usage_of(queues, held=None):
    """Usage of queues that hold so many GPUs."""
    named = {queue.name: queue for queue in queues}
    return QueueUsage(tree_of(named), {name: {"gpu": gpus} for name, gpus in (held or {}).items()}, {})


def gpus_left(usage, queue):
    left = available_quota(usage, queue, "gpu")
    return None if left is None else left // 1000


def team(name, gpu, *, parent="lab", **more):
    limits = {kind: {"gpu": more[kind]} for kind in ("borrowing", "lending") if kind in more}
    return Queue(name, {"gpu": gpu} if gpu is not None else {}, parent, **limits)


LAB = (Queue("lab"), team("a", 8), team("b", 8))


def test_a_queue_may_borrow_all_idle_quota_of_its_cohort():
    assert gpus_left(usage_of(LAB), "a") == 16
    assert gpus_left(usage_of(LAB, {"b": 6}), "a") == 10
    assert gpus_left(usage_of(LAB, {"a": 3, "b": 6}), "a") == 7


def test_a_queue_waits_for_quota_that_others_hold():
    usage = usage_of(LAB, {"a": 14})
    assert gpus_left(usage, "b") == 2
    assert exceeds_available(usage, "b", {"gpu": 3}) == "gpu"
    assert exceeds_available(usage, "b", {"gpu": 2}) == ""


def test_the_borrowing_limit_bounds_use_beyond_nominal_quota():
    queues = (Queue("lab"), team("a", 8, borrowing=2), team("b", 8))
    assert gpus_left(usage_of(queues), "a") == 10
    assert gpus_left(usage_of(queues, {"b": 7}), "a") == 9
    assert gpus_left(usage_of(queues, {"a": 9}), "a") == 1
    assert gpus_left(usage_of((Queue("lab"), team("a", 8, borrowing=0), team("b", 8))), "a") == 8


def test_unlent_quota_stays_with_its_queue():
    queues = (Queue("lab"), team("a", 8), team("b", 8, lending=3))
    assert gpus_left(usage_of(queues), "a") == 11
    full = usage_of(queues, {"a": 11})
    assert gpus_left(full, "b") == 5
    assert gpus_left(usage_of(queues, {"a": 8, "b": 6}), "a") == 2


def test_limits_hold_at_every_level():
    queues = (
        Queue("org"),
        Queue("dept", parent="org", borrowing={"gpu": 4}),
        Queue("other", {"gpu": 100}, parent="org"),
        team("a", 8, parent="dept"),
        team("b", 8, parent="dept", lending=0),
    )
    assert gpus_left(usage_of(queues), "a") == 12
    assert gpus_left(usage_of(queues, {"a": 12}), "b") == 8
    assert gpus_left(usage_of(queues, {"b": 12}), "a") == 8


def test_the_quota_of_a_parent_adds_to_that_of_its_children():
    queues = (Queue("lab", {"gpu": 4}), team("a", 8))
    assert (gpus_left(usage_of(queues), "a"), gpus_left(usage_of(queues), "lab")) == (12, 12)


def test_own_jobs_of_a_parent_count_with_all_below_it():
    queues = (Queue("lab", {"gpu": 16}), team("a", None), team("b", None))
    usage = usage_of(queues, {"lab": 5, "a": 4})
    assert {name: gpus_left(usage, name) for name in ("lab", "a", "b")} == {"lab": 7, "a": 7, "b": 7}


def test_a_resource_that_no_queue_of_the_tree_names_is_not_limited():
    usage = usage_of((*LAB, Queue("open")))
    assert available_quota(usage, "a", "cpu") is None
    assert available_quota(usage, "open", "gpu") is None
    assert available_quota(usage, "default", "gpu") is None
    assert exceeds_available(usage, "a", {"cpu": 10**9}) == ""


def test_a_quota_below_current_usage_gives_nothing():
    assert gpus_left(usage_of([Queue("a", {"gpu": 4})], {"a": 6}), "a") == -2


def test_parts_of_gpus_and_whole_ones_draw_on_one_quota():
    # KAI-Scheduler#2209: parts that add up to the quota exactly are within it. #1369: every device counts.
    usage = usage_of([Queue("a", {"gpu": 2})], {"a": 1})
    assert charge({"gpu": 1, "gpu-milli": 300}, "gpu") == 1300
    assert exceeds_available(usage, "a", {"gpu-milli": 1000}) == ""
    assert exceeds_available(usage, "a", {"gpu-milli": 1001}) == "gpu"
    assert quota_verdict(usage, "a", {"gpu-milli": 1001}).resource == "gpu-milli"


@pytest.mark.parametrize("more", [{}, {"lending": 3}])
def test_updated_sums_equal_recomputed_sums(more):
    queues = (Queue("lab"), team("a", 8), team("b", 8, **more))
    usage = usage_of(queues, {"a": 2})
    before = {name: dict(usage.charged(name)) for name in ("lab", "a", "b")}
    usage.add("b", "ada", {"gpu": 7})
    assert usage.total("lab")["gpu"] == 9000
    counted = usage_of(queues, {"a": 2, "b": 7})
    assert all(usage.charged(name)["gpu"] == counted.charged(name)["gpu"] for name in ("lab", "a", "b"))
    usage.subtract("b", "ada", {"gpu": 7})
    assert {name: usage.charged(name).get("gpu", 0) for name in before} == {"lab": 2000, "a": 2000, "b": 0}


def test_changes_to_a_copy_of_the_usage_do_not_affect_the_original():
    usage = usage_of(LAB, {"a": 2})
    copy = usage.copy()
    copy.add("a", "ada", {"gpu": 6})
    assert (gpus_left(usage, "b"), gpus_left(copy, "b")) == (14, 8)


# --- messages ----------------------------------------------------------------------------------------


def limit_text(queues, held, queue, gpus):
    return quota_verdict(usage_of(queues, held), queue, {"gpu": gpus})


def test_the_message_names_the_binding_limit_and_its_queue():
    lent = limit_text(LAB, {"a": 6, "b": 10}, "a", 1)
    assert lent.message == "needs 1 gpu: queue a holds 6 of its 8 gpu; its cohort lab has lent all 16"
    assert (lent.reason, lent.resource, lent.wanted, lent.free) == (Reason.WAITING_FOR_QUOTA, "gpu", 1, 0)
    some = limit_text(LAB, {"a": 6, "b": 7}, "a", 4)
    assert some.message == "needs 4 gpu: queue a holds 6 of its 8 gpu; its cohort lab has 3 of its 16 left"
    assert (some.wanted, some.free) == (4, 3)
    limited = limit_text((Queue("lab"), team("a", 8, borrowing=2), team("b", 8)), {"a": 9}, "a", 2)
    assert limited.message == "needs 2 gpu: queue a holds 9 gpu, 1 of them borrowed, and may borrow 2"
    none = limit_text((Queue("lab", {"gpu": 2}), team("a", None)), {"lab": 2}, "a", 1)
    assert none.message == "needs 1 gpu: queue a has no gpu of its own; its cohort lab has lent all 2"
    root = limit_text([Queue("a", {"gpu": 8})], {"a": 6}, "a", 3)
    assert root.message == "needs 3 gpu: queue a holds 6 of the 8 it may hold"
    assert limit_text(LAB, {}, "a", 16) is None


def test_requests_beyond_the_maximum_differ_from_those_that_wait():
    never = limit_text(LAB, {}, "a", 17)
    assert never.reason is Reason.EXCEEDS_MAX_QUOTA
    assert never.message == "asks for 17 gpu, queue a may hold 16, all that it could borrow included"
    assert limit_text([Queue("a", {"gpu": 8})], {}, "a", 9).message == "asks for 9 gpu, queue a may hold 8"
    tree = usage_of(LAB).tree
    assert (maximum_quota(tree, "a", "gpu"), maximum_quota(tree, "a", "cpu")) == (16000, None)
    assert (exceeds_maximum(tree, "a", {"gpu": 17}), exceeds_maximum(tree, "a", {"gpu": 16})) == ("gpu", "")


# --- gangs that wait ---------------------------------------------------------------------------------


def test_a_queue_within_its_own_quota_yields_only_to_its_own_gangs():
    reserved_usage = usage_of(LAB, {"a": 16})  # a gang of a waits to borrow all there is
    assert blocked_by_claims(reserved_usage, "b", {"gpu": 8}) == ""
    assert blocked_by_claims(reserved_usage, "b", {"gpu": 9}) == "gpu"
    own = usage_of(LAB, {"b": 6})
    assert blocked_by_claims(own, "b", {"gpu": 8}) == ""
    assert blocked_by_claims(own, "b", {"gpu": 11}) == "gpu"


def test_no_gang_borrows_what_an_earlier_gang_waits_to_borrow():
    queues = (*LAB, team("c", 4))
    reserved_usage = usage_of(queues, {"a": 8, "b": 12})
    assert blocked_by_claims(reserved_usage, "c", {"gpu": 1}) == ""
    assert blocked_by_claims(reserved_usage, "a", {"gpu": 1}) == "gpu"


def test_the_quota_of_a_department_counts_as_own_quota_of_its_teams():
    queues = (
        Queue("org"),
        Queue("dept", {"gpu": 8}, parent="org"),
        team("a", None, parent="dept"),
        Queue("other", {"gpu": 8}, parent="org"),
    )
    assert blocked_by_claims(usage_of(queues, {"other": 16}), "a", {"gpu": 8}) == ""
    assert blocked_by_claims(usage_of(queues, {"other": 16, "dept": 1}), "a", {"gpu": 8}) == "gpu"


# --- trees that do not stand -------------------------------------------------------------------------


def faults(*queues):
    return list(find_faults({queue.name: queue for queue in queues}))


def test_a_valid_tree_has_no_faults():
    assert faults(*LAB, team("c", 1, borrowing=2, lending=1)) == []


def test_unknown_parents_and_circles_are_reported():
    assert faults(Queue("a", parent="b")) == [
        QueueFault("a", "parent", "there is no queue b; declare it, or leave parent out")
    ]
    a, b, c = faults(Queue("a", parent="b"), Queue("b", parent="c"), Queue("c", parent="a"))
    assert a.message == "a → b → c → a goes round in a circle; one has no parent"
    assert (b.queue, c.queue) == ("b", "c")


def test_limits_without_a_quota_are_reported():
    (alone,) = faults(Queue("a", {"gpu": 4}, borrowing={"gpu": 2}))
    assert alone.message == "it has no parent, so there is no queue to borrow from; give it one, or leave borrowing out"
    (none,) = faults(Queue("lab", {"gpu": 4}), Queue("a", parent="lab", lending={"gpu": 2}))
    assert none.message == "limits gpu, of which it has no quota; give it one, or leave it out"
    (unquoted,) = faults(Queue("lab", {"gpu": 4}), Queue("a", parent="lab", borrowing={"cpu": 2}))
    assert unquoted.message == "limits cpu, of which no queue of its tree has a quota; give it one, or leave it out"


def test_no_gang_starts_in_a_queue_under_a_broken_tree():
    usage = usage_of([Queue("a", {"gpu": 8}, parent="b"), Queue("c", parent="a")])
    assert quota_verdict(usage, "c", {"gpu": 1}).reason is Reason.MISCONFIGURED
    assert quota_verdict(usage, "c", {"gpu": 1}).message == (
        "queue a names a parent b that does not exist; nothing of c can start"
    )


def test_the_tree_of_one_set_of_queues_is_computed_once():
    queues = {"a": Queue("a")}
    assert tree_of(queues) is tree_of(queues)
    assert tree_of(queues) is not tree_of(dict(queues))
