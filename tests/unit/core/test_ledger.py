from dataclasses import replace

import pytest
from gangs import demand, ledger_of, node, nodes, running, waiting
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.invariants import snapshot_violations
from windlass.core.ledger import Ledger
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue
from windlass.core.queues.decayed_usage import average_usage


def test_a_release_undoes_a_hold():
    ledger = ledger_of(nodes(2))
    before = ledger.snapshot()
    ledger.hold(running(1, {"n1": 2, "n2": 1}, gpu=2, array_id="a", ends_by=50))
    held = ledger.snapshot()
    assert held.free[:, 0].tolist() == [4, 6]
    assert held.usage_by_queue == {"default": {"gpu": 6}}
    assert held.running_by_array == {"a": 1}
    assert held.walltime_ends == ((50, "r-1"),)
    ledger.release("r-1")
    after = ledger.snapshot()
    assert after.free.tolist() == before.free.tolist()
    assert (after.usage_by_queue, after.running_by_array, after.walltime_ends, after.running) == ({}, {}, (), {})


def test_a_snapshot_never_changes():
    ledger = ledger_of(nodes(2), running(1, {"n1": 1}), waiting(2, demand(1)))
    snapshot = ledger.snapshot()
    ledger.release("r-1")
    ledger.hold(running(3, {"n2": 8}))
    ledger.remove_pending("j-2")
    assert snapshot.free[:, 0].tolist() == [7, 8]
    assert list(snapshot.running) == ["r-1"]
    assert [gang.id for gang in snapshot.pending] == ["j-2"]
    with pytest.raises(ValueError, match="read-only"):
        snapshot.free[0, 0] = 1


def test_the_version_grows_with_every_change_and_only_then():
    ledger = ledger_of(nodes(2), queues=[Queue("default")])
    seen = [ledger.version]
    for change in (
        lambda: ledger.add_pending(waiting(1, demand(1))),
        lambda: ledger.hold(running(2, {"n1": 1})),
        lambda: ledger.release("r-2"),
        lambda: ledger.remove_pending("j-1"),
        lambda: ledger.set_cluster(nodes(3), [Queue("default")]),
        lambda: ledger.set_cluster(nodes(3), [Queue("default", {"gpu": 1})]),
    ):
        change()
        seen.append(ledger.version)
        change()
        assert ledger.version == seen[-1]
    assert seen == sorted(set(seen))


def test_an_unchanged_ledger_gives_the_same_snapshot():
    ledger = ledger_of(nodes(1))
    assert ledger.snapshot() is ledger.snapshot()


def test_a_gang_either_waits_or_holds():
    ledger = ledger_of(nodes(1), waiting(1, demand(1)))
    ledger.hold(replace(running(1, {"n1": 1}), id="j-1"))
    assert ledger.snapshot().pending == ()
    ledger.add_pending(waiting(1, demand(1)))
    assert ledger.snapshot().running == {}
    assert ledger.snapshot().free[0, 0] == 8


def test_a_gang_held_on_other_nodes_releases_its_first_ones():
    ledger = ledger_of(nodes(2), running(1, {"n1": 4}))
    ledger.hold(running(1, {"n2": 2}))
    assert ledger.snapshot().free[:, 0].tolist() == [8, 6]


def test_two_roles_on_one_node_add_up():
    ledger = ledger_of(nodes(1))
    gang = running(1, {"n1": 2})
    both = {**gang.placement.nodes, "chief": ("n1",)}
    placement = replace(gang.placement, nodes=both)
    ledger.hold(replace(gang, demands=(*gang.demands, demand(1, 3, role="chief")), placement=placement))
    assert ledger.snapshot().free[0, 0] == 3


def test_equal_gangs_of_one_priority_form_one_class_sorted_by_turn():
    ledger = ledger_of(
        nodes(1), waiting(3, demand(1)), waiting(1, demand(1)), waiting(2, demand(1), priority=5), waiting(4, demand(2))
    )
    lines = [[gang.id for gang in each.gangs] for each in ledger.snapshot().classes]
    assert sorted(lines) == [["j-1", "j-3"], ["j-2"], ["j-4"]]


def test_gates_and_limited_arrays_form_separate_classes():
    ledger = ledger_of(
        nodes(1),
        waiting(1, demand(1)),
        waiting(2, demand(1), waits_for=("x",)),
        waiting(3, demand(1), not_before=9),
        waiting(4, demand(1), array_id="a", array_limit=2),
        waiting(5, demand(1), array_id="a"),
    )
    assert sorted(len(each.gangs) for each in ledger.snapshot().classes) == [1, 1, 1, 2]


def test_a_changed_gang_replaces_the_old_one():
    ledger = ledger_of(nodes(1), waiting(1, demand(1), waits_for=("x",)))
    ledger.add_pending(waiting(1, demand(1)))
    assert [gang.waits_for for gang in ledger.snapshot().pending] == [()]


def test_set_cluster_returns_every_lost_node_once():
    ledger = ledger_of([*nodes(3), node("n4", ready=False, lost=True), node("n5")])
    changed = [node("n1"), node("n2", ready=False, lost=True), node("n4", ready=False, lost=True)]
    changed += [node("n5", ready=False)]
    assert ledger.set_cluster(changed, ()) == ("n2", "n3")
    assert ledger.set_cluster(changed, ()) == ()
    assert ledger.set_cluster(nodes(1), ()) == ("n5",)


def test_gangs_stay_accounted_on_the_nodes_that_are_left():
    ledger = ledger_of(nodes(2), running(1, {"n1": 2, "n2": 3}))
    ledger.set_cluster([node("n0"), node("n2")], ())
    snapshot = ledger.snapshot()
    assert dict(zip(("n0", "n2"), snapshot.free[:, 0].tolist(), strict=True)) == {"n0": 8, "n2": 5}
    assert snapshot.usage_by_queue == {"default": {"gpu": 5}}
    ledger.release("r-1")
    assert ledger.snapshot().free[:, 0].tolist() == [8, 8]


def test_a_new_resource_gets_a_column():
    ledger = ledger_of(nodes(1), running(1, {"n1": 1}))
    ledger.set_cluster([node("n1"), Node("n2", {"tpu": 4})], ())
    snapshot = ledger.snapshot()
    assert snapshot.table.resource_names == ("gpu", "tpu", "cpu", "memory")
    assert snapshot.free.tolist() == [[7, 0, 0, 0], [0, 4, 0, 0]]


def _whole(number, name):
    return replace(running(number, {name: 1}), demands=(replace(demand(1), whole_node=True),))


def test_gangs_keep_what_they_hold_on_nodes_with_changed_amounts():
    gangs = (running(1, {"n1": 1, "n2": 1}, gpu=2), _whole(2, "n3"))
    ledger = ledger_of(nodes(3), *gangs)
    before = ledger.snapshot()
    changed = [node("n1", 7), before.table.nodes[1], node("n3", 5, cordoned="Xid 79", color="red")]
    assert ledger.set_cluster(changed, ()) == ()
    after, anew = ledger.snapshot(), ledger_of(changed, *gangs).snapshot()
    assert after.table.row is before.table.row
    assert after.free.tolist() == anew.free.tolist()
    assert after.table.capacity.tolist() == anew.table.capacity.tolist()
    assert after.table.usable.tolist() == anew.table.usable.tolist()
    assert after.table.nodes == anew.table.nodes
    assert before.free[:, 0].tolist() == [6, 6, 0]
    assert snapshot_violations(after) == []


AMOUNTS = st.lists(st.tuples(st.sampled_from(["n1", "n2", "n3"]), st.integers(0, 8), st.booleans()), max_size=6)


@given(AMOUNTS)
def test_an_updated_ledger_equals_a_new_one_after_any_change_of_nodes(changes):
    gangs = (running(1, {"n1": 1, "n2": 1}, gpu=2), _whole(2, "n3"))
    there = {each.name: each for each in nodes(3)}
    ledger = ledger_of(there.values(), *gangs)
    for name, gpus, ready in changes:
        there[name] = node(name, gpus, ready=ready)
        ledger.set_cluster(there.values(), ())
    assert ledger.snapshot().free.tolist() == ledger_of(there.values(), *gangs).snapshot().free.tolist()


def test_a_ledger_made_of_a_snapshot_equals_it_and_does_not_change_it():
    snapshot = ledger_of(nodes(2), running(1, {"n1": 3}, ends_by=7, array_id="a"), waiting(2, demand(1))).snapshot()
    copy = Ledger.at(snapshot)
    assert snapshot_violations(copy.snapshot()) == []
    copy.release("r-1")
    copy.remove_pending("j-2")
    assert snapshot_violations(copy.snapshot()) == []
    assert snapshot_violations(snapshot) == []
    assert list(snapshot.running) == ["r-1"]


def test_past_usage_grows_with_usage_and_halves_in_a_half_life():
    ledger = Ledger(nodes(1), [Queue("default", half_life=1_000)])
    ledger.accrue_usage(0)
    ledger.hold(running(1, {"n1": 8}))
    ledger.accrue_usage(1_000)
    assert average_usage(ledger.past_usage["default"]) == {"gpu": 4}
    ledger.release("r-1")
    ledger.accrue_usage(2_000)
    assert average_usage(ledger.snapshot().past_usage["default"]) == {"gpu": 2}


def test_a_ledger_without_half_lives_counts_no_past_usage():
    ledger = ledger_of(nodes(1), running(1, {"n1": 8}))
    before = ledger.snapshot()
    ledger.accrue_usage(1_000)
    assert ledger.past_usage == {}
    assert ledger.snapshot() is before


def test_classes_are_sorted_by_their_last_change():
    ledger = ledger_of(nodes(2), *(waiting(number, demand(number)) for number in range(1, 9)))
    ledger.snapshot()
    ledger.remove_pending("j-3")
    ledger.add_pending(waiting(3, demand(3)))
    assert [each.gangs[0].number for each in ledger.snapshot().classes] == [1, 2, 4, 5, 6, 7, 8, 3]


def test_gangs_are_one_class_again_once_their_begin_times_have_come():
    gangs = [waiting(number, demand(1), begin=100 * number, since=100 * number) for number in (1, 2, 3)]
    ledger = ledger_of(nodes(1), *gangs)
    assert len(ledger.snapshot().classes) == 3
    ledger.open_begin_times(200)
    opened, early = sorted(ledger.snapshot().classes, key=lambda each: each.gangs[0].number)
    assert [(gang.id, gang.since) for gang in opened.gangs] == [("j-1", 100), ("j-2", 200)]
    assert [gang.id for gang in early.gangs] == ["j-3"]


def test_a_begin_time_that_has_come_is_dropped_once():
    ledger = ledger_of(nodes(1), waiting(1, demand(1), begin=100))
    ledger.open_begin_times(100)
    version = ledger.version
    ledger.add_pending(waiting(1, demand(1), begin=100))
    ledger.open_begin_times(101)
    assert ledger.version == version
