"""The slot of a replacement while the rest of its gang goes on."""

from windlass.core.model.job import Job, Role
from windlass.core.model.status import Placement
from windlass.core.placement.replacement import find_replaced_member

LEADER, WORKERS = Role("leader", resources={"gpu": 1}), Role("worker", 3, resources={"gpu": 2})
JOB = Job("j", (LEADER, WORKERS))
ON = Placement({"leader": ("n1",), "worker": ("n1", "n2", "n3")})


def everywhere(_node):
    return True


def test_a_restarted_member_returns_to_its_node_if_the_node_still_takes_it():
    assert find_replaced_member(JOB, ON, [2], everywhere) == 2
    assert find_replaced_member(JOB, ON, [2], lambda node: node != "n2") is None


def test_a_replacement_takes_the_first_ended_member_with_the_same_requests():
    other_name = Role("other", 7, resources={"gpu": 2})
    assert find_replaced_member(JOB, ON, {0, 2, 3}, everywhere, other_name) == 2
    assert find_replaced_member(JOB, ON, {0, 2, 3}, lambda node: node != "n2", other_name) == 3
    assert find_replaced_member(JOB, ON, {0, 2}, everywhere, LEADER) == 0


def test_a_replacement_with_other_requests_has_no_slot():
    assert find_replaced_member(JOB, ON, {1, 2, 3}, everywhere, LEADER) is None
    assert find_replaced_member(JOB, ON, [], everywhere) is None
