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


def test_the_grace_counts_from_the_time_that_the_backend_knows() -> None:
    assert monitor(1, now=50, since=20).lost_at("n1", GRACE) == 20 + GRACE


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
    assert not has_outage(monitor(0, 1, nodes=NODES[:2]))
    assert has_outage(monitor(0, 1, 2, nodes=NODES[:3]))


def test_nodes_that_have_been_dead_for_long_count_neither_way() -> None:
    found = monitor(*range(7), since=0, now=0)
    found.observe(states(*range(7), since=0), 10 * UNREACHABLE_GRACE_MS)
    late = states(*range(7), since=0)
    late[6] = replace(late[6], unreachable_since=10 * UNREACHABLE_GRACE_MS)
    found.observe(late, 10 * UNREACHABLE_GRACE_MS)
    assert not has_outage(found)


def test_the_lost_nodes_of_gangs_are_found_with_the_time_of_the_next() -> None:
    found = monitor(1, 2, now=0)
    gangs = [HeldNodes("a", ("n1", "n3"), 500), HeldNodes("b", ("n2",), 900), HeldNodes("c", ("n4",), 0)]
    assert found.find_lost(gangs, 499) == ([], 500)
    assert found.find_lost(gangs, 500) == ([("a", "n1")], 900)
    assert found.find_lost(gangs, 900) == ([("a", "n1"), ("b", "n2")], None)
    assert NodeMonitor().find_lost(gangs, 900) == ([], None)
