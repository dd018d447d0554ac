import pytest
from gangs import ledger_of, node, nodes, running

from windlass.core.admission import refusal
from windlass.core.cluster import Taint
from windlass.core.job import Job, Role
from windlass.core.queue import Queue
from windlass.core.reasons import Reason

QUEUES = [Queue("default"), Queue("research", {"gpu": 6}), Queue("reserve")]


def refused(*roles, queue="default", machines=None):
    """The message of the refusal, or ""."""
    snapshot = ledger_of(nodes(2) if machines is None else machines, queues=QUEUES).snapshot()
    verdict = refusal(snapshot, Job("x", roles, queue=queue))
    assert verdict is None or verdict.reason is Reason.MISCONFIGURED
    return verdict.message if verdict else ""


def role(replicas=1, gpu=1, name="worker", **selector):
    return Role(name, replicas, resources={"gpu": gpu}, node_selector=selector)


def test_what_fits_on_an_empty_cluster_is_not_refused():
    busy = ledger_of(nodes(2), running(1, {"n1": 8, "n2": 8}), queues=QUEUES).snapshot()
    assert refusal(busy, Job("x", (role(2, 8),))) is None


def test_too_many_replicas_name_how_many_would_fit():
    assert refused(role(5, 4)) == (
        "needs 5×4 gpu as one gang: 2 nodes could take a replica, 4 of 5 in all, however empty; "
        "largest gang that fits: 4 replicas of 4 gpu"
    )


def test_too_large_a_replica_names_the_largest_there_is():
    assert refused(role(3, 12), machines=[node("n1", 4), node("n2", 8)]) == (
        "needs 3×12 gpu as one gang: no node could take a replica, however empty; 2 nodes too small; "
        "largest gang that fits: 1 replica of 8 gpu"
    )


def test_what_no_node_has_is_named():
    asked = Role("worker", 2, resources={"gpu": 1, "tpu": 4})
    assert refused(asked) == (
        "needs 2×1 gpu as one gang: no node could take a replica, however empty; 2 nodes too small; "
        "largest gang that fits: 2 replicas of 1 gpu"
    )


def test_masks_count():
    machines = [node("n1", zone="a"), node("n2", taints=[Taint("lab")]), node("n3", zone="b")]
    assert refused(role(2, 8, zone="a"), machines=machines) == (
        "needs 2×8 gpu as one gang: 1 node could take a replica, 1 of 2 in all, however empty; "
        "2 nodes lost to label zone=a; largest gang that fits: 1 replica of 8 gpu"
    )
    assert refused(role(zone="mars"), machines=machines) == (
        "needs 1 gpu on one node: no node could take a replica, however empty; 3 nodes lost to label zone=mars; "
        "not even one replica of any size would fit"
    )


def test_nodes_that_are_down_or_cordoned_may_come_back():
    assert not refused(role(2, 8), machines=[node("n1", cordoned="drained"), node("n2", ready=False)])


def test_a_cluster_that_has_no_nodes_yet_refuses_nobody_for_size():
    assert not refused(role(900, 8), machines=[])
    assert "may hold 6" in refused(role(7, 1), queue="research", machines=[])


def test_a_queue_s_quota_bounds_the_gang():
    assert refused(role(3, 4), queue="research") == (
        "asks for 12 gpu, queue research may hold 6; largest gang that fits: 1 replica of 4 gpu"
    )
    assert refused(role(2, 8), queue="research") == (
        "asks for 16 gpu, queue research may hold 6; largest gang that fits: 1 replica of 6 gpu"
    )


def test_an_unknown_queue_names_its_neighbour():
    assert refused(role(), queue="reserch") == "there is no queue reserch; did you mean research?"
    assert refused(role(), queue="xyz") == "there is no queue xyz; there are default, research, reserve"


def test_roles_must_fit_together():
    assert refused(role(2, 8), role(1, 1, "chief")) == (
        "needs 1×1 gpu for its role chief: 2 nodes could take a replica, "
        "0 of 1 in all beside its other roles, however empty; "
        "not even one replica of any size would fit beside its other roles"
    )
    assert refused(role(1, 8), role(9, 1, "chief")).endswith("largest gang that fits: 8 replicas of chief of 1 gpu")


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        ((), "a job needs at least one role"),
        ((role(), role()), "two roles are named worker; name them apart"),
        ((role(0),), "role worker asks for 0 replicas; ask for one at least"),
        ((role(10**30),), f"asks for {10**30:,} replicas; a gang has 100,000 at most"),
        ((role(100_000, 0), role(1, 0, "chief")), "asks for 100,001 replicas; a gang has 100,000 at most"),
        ((role(1, -1),), "role worker asks for less than no gpu"),
    ],
)
def test_nonsense_is_refused_with_its_name(roles, said):
    assert refused(*roles) == said


def test_what_is_named_as_the_largest_is_not_refused_itself():
    assert refused(role(4, 4)) == ""
    assert refused(role(1, 8), machines=[node("n1", 4), node("n2", 8)]) == ""
    assert refused(role(1, 6), queue="research") == ""
