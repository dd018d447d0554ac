from dataclasses import replace

from gangs import demand, waiting

from windlass.core.model.gang import EquivalenceClass, PendingGang, SortKey
from windlass.core.model.policy import Policy
from windlass.core.queues.orders.registry import sort_key_of
from windlass.core.queues.queue_order import LazyOrder, QueueOrder


def sort_key(gang: PendingGang) -> SortKey:
    return sort_key_of(gang, Policy(order="priority"))


def equivalence_class(*gangs: PendingGang) -> EquivalenceClass:
    keys = tuple(sort_key(gang) for gang in gangs)
    return EquivalenceClass(gangs, keys, gangs, keys)


LINES = (
    equivalence_class(waiting(1, demand(1)), waiting(4, demand(1))),
    equivalence_class(waiting(2, demand(2)), waiting(3, demand(2))),
    equivalence_class(waiting(5, demand(3), priority=1)),
)


def test_gangs_are_sorted_by_priority_then_age_then_number():
    assert [gang.number for gang in QueueOrder(LINES)] == [5, 1, 2, 3, 4]


def test_age_outranks_the_number():
    older = equivalence_class(waiting(9, demand(1), since=0))
    assert [gang.number for gang in QueueOrder([*LINES, older])] == [5, 9, 1, 2, 3, 4]


def test_members_of_an_array_are_sorted_by_index():
    members = [replace(waiting(7, demand(1)), id=f"sweep-7_{index}", array_id="sweep-7") for index in (10, 0, 2)]
    assert [gang.id for gang in sorted(members, key=sort_key)] == ["sweep-7_0", "sweep-7_2", "sweep-7_10"]


def test_a_dropped_class_yields_no_more():
    seen = []
    for gang in (queue_order := QueueOrder(LINES)):
        seen.append(gang.number)
        if gang.number == 2:
            queue_order.drop()
    assert seen == [5, 1, 2, 4]


def test_an_order_is_a_sequence_of_ids():
    order = LazyOrder(lambda: (gang.id for gang in QueueOrder(LINES)))
    assert list(order) == ["j-5", "j-1", "j-2", "j-3", "j-4"]
    assert (len(order), order[0], order[1:3], order.index("j-3")) == (5, "j-5", ("j-1", "j-2"), 3)


def test_a_class_may_continue_with_short_enough_gangs():
    walltimes = (50, 90, 20, None, 40, 45)
    classes = [
        equivalence_class(
            *(waiting(number, demand(1), walltime=length) for number, length in enumerate(walltimes, start=1))
        )
    ]
    seen = []
    for gang in (queue_order := QueueOrder(classes)):
        seen.append(gang.number)
        queue_order.only_shorter({1: 45, 3: 40}.get(gang.number, 1000))
    assert seen == [1, 3, 5]
