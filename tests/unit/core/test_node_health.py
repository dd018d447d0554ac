"""Loss of an unreachable node: after its grace, and not while many are unreachable."""

from dataclasses import replace

from windlass.core.model.node import Node
from windlass.core.nodes.node_health import UNREACHABLE_GRACE_MS, HeldNodes, NodeMonitor

NODES = [Node(f"n{number}", {"gpu": 1}) for number in range(10)]
GRACE = 1_000


def monitor(*unreachable: int, now: int = 0, since: int | None = None, nodes: list[Node] = NODES) -> NodeMonitor:
    found = NodeMonitor()
    found.observe(states(*unreachable, since=since, nodes=nodes), now)
    return found


def has_outage(found: NodeMonitor) -> bool:
    """Tells whether an unreachable node is not lost at any time, because too many are unreachable at once."""
    unreachable = [node.name for node in NODES if found.is_unreachable(node.name)]
    return any(found.lost_at(name, GRACE) is None for name in unreachable)


def states(*unreachable: int, since: int | None = None, nodes: list[Node] = NODES) -> list[Node]:
    return [
        replace(node, ready=False, unreachable_since=since) if number in unreachable else node
        for number, node in enumerate(nodes)
    ]


def test_an_unreachable_node_is_lost_after_the_grace() -> None:
    found = monitor(1, now=50)
    assert (found.is_unreachable("n1"), found.is_unreachable("n2")) == (True, False)
    assert (found.lost_at("n1", GRACE), found.lost_at("n2", GRACE)) == (50 + GRACE, None)


def test_the_grace_counts_from_the_first_observation_or_a_later_time_that_the_backend_knows() -> None:
    assert monitor(1, now=50, since=20).lost_at("n1", GRACE) == 50 + GRACE
    assert monitor(1, now=50, since=80).lost_at("n1", GRACE) == 80 + GRACE


def test_a_clock_ahead_of_the_backends_shortens_no_grace() -> None:
    found = monitor(1, now=400_000, since=0)
    assert found.find_lost([HeldNodes("a", ("n1",), UNREACHABLE_GRACE_MS)], 400_000) == ([], 700_000)


def test_a_new_monitor_gives_the_rest_of_an_outage_a_new_grace() -> None:
    old = monitor(*range(6), since=0)
    old.observe(states(1, 2, 3, since=0), 1_200_000)
    assert old.lost_at("n1", UNREACHABLE_GRACE_MS) == 1_500_000
    assert monitor(1, 2, 3, since=0, now=1_260_000).lost_at("n1", UNREACHABLE_GRACE_MS) == 1_560_000


def test_a_node_that_came_back_unobserved_has_a_new_grace() -> None:
    found = monitor(1, now=50, since=40)
    found.observe(states(1, since=90), 100)
    assert found.lost_at("n1", GRACE) == 90 + GRACE


def test_the_grace_does_not_restart_when_the_node_is_observed_again() -> None:
    found = monitor(1, now=50)
    found.observe(states(1, 2), 70)
    assert (found.lost_at("n1", GRACE), found.lost_at("n2", GRACE)) == (50 + GRACE, 70 + GRACE)


def test_a_node_that_came_back_has_a_new_grace() -> None:
    found = monitor(1, now=50)
    found.observe(NODES, 60)
    assert found.lost_at("n1", GRACE) is None
    found.observe(states(1), 70)
    assert found.lost_at("n1", GRACE) == 70 + GRACE


def test_a_lost_node_is_not_unreachable() -> None:
    found = NodeMonitor()
    found.observe([replace(NODES[0], ready=False, lost=True)], 0)
    assert not found.is_unreachable("n0")


def test_no_node_is_lost_while_most_are_unreachable() -> None:
    found = monitor(0, 1, 2, 3, 4, 5, now=50)
    assert has_outage(found)
    assert found.lost_at("n1", GRACE) is None
    found.observe(states(1), 80)
    assert not has_outage(found)
    assert found.lost_at("n1", GRACE) == 80 + GRACE


def test_half_of_the_nodes_are_not_most_and_two_are_not_many() -> None:
    assert not has_outage(monitor(0, 1, 2, 3, 4))
    assert not has_outage(monitor(0, 1, nodes=NODES[:3]))
    assert has_outage(monitor(0, 1, 2, nodes=NODES[:4]))


def test_no_node_is_lost_while_all_of_two_or_more_are_unreachable() -> None:
    found = monitor(0, 1, now=50, nodes=NODES[:2])
    assert has_outage(found)
    found.observe(states(1, nodes=NODES[:2]), 80)
    assert found.lost_at("n1", GRACE) == 80 + GRACE
    assert monitor(0, now=50, nodes=NODES[:1]).lost_at("n0", GRACE) == 50 + GRACE


def test_nodes_that_have_been_dead_for_long_count_neither_way() -> None:
    found, late = NodeMonitor(), 20 * UNREACHABLE_GRACE_MS
    for number in range(7):
        found.observe(states(*range(number + 1)), 2 * number * UNREACHABLE_GRACE_MS)
        assert not has_outage(found)
    found.observe(states(*range(6)), late)
    found.observe(states(*range(8)), late)
    assert not has_outage(found)
    found.observe(states(*range(9)), late)
    assert found.lost_at("n8", GRACE) is None
    assert found.lost_at("n0", GRACE) == GRACE


def test_an_outage_lasts_when_one_more_node_becomes_unreachable_late() -> None:
    found, late = monitor(*range(6), now=0), UNREACHABLE_GRACE_MS + 60_000
    found.observe(states(*range(7)), late)
    assert {found.lost_at(f"n{number}", GRACE) for number in range(7)} == {None}
    found.observe(states(*range(1, 7)), late + 10)
    assert found.lost_at("n1", GRACE) is None
    found.observe(states(*range(2, 7)), late + 20)
    assert found.lost_at("n2", GRACE) == late + 20 + GRACE


def test_a_new_monitor_finds_an_outage_after_one_more_node_became_unreachable() -> None:
    late = 2 * UNREACHABLE_GRACE_MS
    nodes = states(*range(7), since=0)
    nodes[6] = replace(nodes[6], unreachable_since=late)
    found = NodeMonitor()
    found.observe(nodes, late)
    assert {found.lost_at(f"n{number}", GRACE) for number in range(7)} == {None}


def test_the_lost_nodes_of_gangs_are_found_with_the_time_of_the_next() -> None:
    found = monitor(1, 2, now=0)
    gangs = [HeldNodes("a", ("n1", "n3"), 500), HeldNodes("b", ("n2",), 900), HeldNodes("c", ("n4",), 0)]
    assert found.find_lost(gangs, 499) == ([], 500)
    assert found.find_lost(gangs, 500) == ([("a", "n1")], 900)
    assert found.find_lost(gangs, 900) == ([("a", "n1"), ("b", "n2")], None)
    assert NodeMonitor().find_lost(gangs, 900) == ([], None)
