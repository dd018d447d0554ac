import pytest
from gangs import ledger_of, node, nodes, running

from windlass.core.explain.admission_check import admission_refusal, priority_refusal
from windlass.core.model.job import Job, Match, Role
from windlass.core.model.node import Node, Taint
from windlass.core.model.queue import Queue
from windlass.core.model.reasons import Reason

QUEUES = [Queue("default"), Queue("research", {"gpu": 6}), Queue("reserve"), Queue("closed", {"gpu": 0})]


def rejection(*roles, queue="default", machines=None):
    """The message of the rejection, or ""."""
    snapshot = ledger_of(nodes(2) if machines is None else machines, queues=QUEUES).snapshot()
    verdict = admission_refusal(snapshot, Job("x", roles, queue=queue))
    assert verdict is None or verdict.reason is Reason.MISCONFIGURED
    return verdict.message if verdict else ""


def role(replicas=1, gpu=1, name="worker", **selector):
    return Role(name, replicas, resources={"gpu": gpu}, node_selector=selector)


def test_a_job_that_fits_on_an_empty_cluster_is_not_refused():
    busy = ledger_of(nodes(2), running(1, {"n1": 8, "n2": 8}), queues=QUEUES).snapshot()
    assert admission_refusal(busy, Job("x", (role(2, 8),))) is None


def test_a_priority_above_that_of_the_queue_is_refused():
    snapshot = ledger_of(nodes(1), queues=[Queue("default"), Queue("calm", max_priority=10)]).snapshot()
    refused = {
        (queue, priority): priority_refusal(snapshot, Job("x", (role(),), queue=queue, priority=priority)) is not None
        for queue, priority in (("default", 1_000_000_000), ("calm", 10), ("calm", 11), ("no-such", 11))
    }
    assert [each for each, is_refused in refused.items() if is_refused] == [("calm", 11)]


def test_the_rejection_of_too_many_replicas_names_the_number_that_fits():
    assert rejection(role(5, 4)) == (
        "needs 5×4 gpu as one gang: 2 nodes could take a replica, 4 of 5 in all, however empty; "
        "largest gang that fits: 4 replicas of 4 gpu"
    )


def test_the_rejection_of_too_large_a_replica_names_the_largest_size():
    assert rejection(role(3, 12), machines=[node("n1", 4), node("n2", 8)]) == (
        "needs 3×12 gpu as one gang: no node could take a replica, however empty; 2 nodes too small; "
        "largest gang that fits: 1 replica of 8 gpu"
    )


def test_the_rejection_names_the_resources_that_no_node_has_any_of():
    without_gpu = [Node(name, {"pods": 1}) for name in ("n1", "n2")]
    asked = Role("worker", 2, resources={"gpu": 4, "pods": 1})
    assert rejection(asked, machines=without_gpu).endswith("largest gang that fits: 2 replicas without gpu")


def test_the_rejection_of_replicas_that_request_nothing_names_their_number_alone():
    asked = Role("worker", 5, resources={"pods": 1})
    assert rejection(asked, machines=[Node("n1", {"pods": 2})]).endswith("largest gang that fits: 2 replicas")


def test_a_resource_that_no_node_has_is_named():
    asked = Role("worker", 2, resources={"gpu": 1, "tpu": 4})
    assert rejection(asked) == (
        "needs 2×1 gpu as one gang: no node could take a replica, however empty; 2 nodes too small; "
        "largest gang that fits: 2 replicas of 1 gpu"
    )


def test_nodes_excluded_by_masks_do_not_count():
    machines = [node("n1", zone="a"), node("n2", taints=[Taint("lab")]), node("n3", zone="b")]
    assert rejection(role(2, 8, zone="a"), machines=machines) == (
        "needs 2×8 gpu as one gang: 1 node could take a replica, 1 of 2 in all, however empty; "
        "2 nodes lost to label zone=a; largest gang that fits: 1 replica of 8 gpu"
    )
    assert rejection(role(zone="mars"), machines=machines) == (
        "needs 1 gpu on one node: no node could take a replica, however empty; 3 nodes lost to label zone=mars; "
        "not even one replica of any size would fit"
    )


def test_nodes_that_are_down_or_cordoned_count_as_available():
    assert not rejection(role(2, 8), machines=[node("n1", cordoned="drained"), node("n2", ready=False)])


def test_a_cluster_without_nodes_refuses_no_job_for_size():
    assert not rejection(role(900, 8), machines=[])
    assert "may hold 6" in rejection(role(7, 1), queue="research", machines=[])


def test_the_quota_of_a_queue_bounds_the_gang():
    assert rejection(role(3, 4), queue="research") == (
        "asks for 12 gpu, queue research may hold 6; largest gang that fits: 1 replica of 4 gpu"
    )
    assert rejection(role(2, 8), queue="research") == (
        "asks for 16 gpu, queue research may hold 6; largest gang that fits: 1 replica of 6 gpu"
    )


def test_a_queue_with_zero_quota_suggests_no_empty_gang():
    message = rejection(role(1, 4), queue="closed")
    assert message == "asks for 4 gpu, queue closed may hold 0; not even one replica of any size would fit"


def test_an_unknown_queue_is_rejected_with_the_closest_name():
    assert rejection(role(), queue="reserch") == "there is no queue reserch; did you mean research?"
    assert rejection(role(), queue="xyz") == "there is no queue xyz; there are closed, default, research, reserve"


def test_roles_must_fit_together():
    assert rejection(role(2, 8), role(1, 1, "chief")) == (
        "needs 1×1 gpu for its role chief: 2 nodes could take a replica, "
        "0 of 1 in all beside its other roles, however empty; "
        "not even one replica of any size would fit beside its other roles"
    )
    assert rejection(role(1, 8), role(9, 1, "chief")).endswith("largest gang that fits: 8 replicas of chief of 1 gpu")


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ((), "a job needs at least one role"),
        ((role(), role()), "two roles are named worker; name them apart"),
        ((role(0),), "role worker asks for 0 replicas; ask for one at least"),
        ((role(10**30),), f"asks for {10**30:,} replicas; a gang has 100,000 at most"),
        ((role(100_000, 0), role(1, 0, "chief")), "asks for 100,001 replicas; a gang has 100,000 at most"),
        ((role(1, -1),), "role worker asks for less than no gpu"),
    ],
)
def test_an_invalid_request_is_rejected_with_its_fault(roles, message):
    assert rejection(*roles) == message


def test_the_largest_named_gang_is_not_refused_itself():
    assert rejection(role(4, 4)) == ""
    assert rejection(role(1, 8), machines=[node("n1", 4), node("n2", 8)]) == ""
    assert rejection(role(1, 6), queue="research") == ""


# --- GPUs, parts of them and models ---------------------------------------------------------------------

MIXED = [
    Node("n1", {"gpu": 8}, {"gpu-type": "V100"}),
    Node("n2", {"gpu": 4}, {"gpu-type": "A100-40GB"}, sharing="mig"),
    Node("n3", {"gpu": 4}, {"gpu-type": "T4"}, sharing="milli"),
]


def part(resource, amount=1, **more):
    return Role("worker", 1, resources={resource: amount}, **more)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            part("gpu-milli", 1500),
            "asks for 1500 thousandths of one GPU; a GPU has 1000, so ask for 2 whole ones",
        ),
        (
            Role(resources={"gpu": 1, "gpu-milli": 200}),
            "asks for whole GPUs and for gpu-milli in one replica; ask for one or the other, or use two roles",
        ),
        (
            Role(resources={"mig-1g.5gb": 1, "mig-3g.20gb": 1}),
            "asks for 1g.5gb and 3g.20gb in one replica; ask for one kind of part, or use two roles",
        ),
        (part("mig-3g.20"), "there is no MIG profile 3g.20; did you mean 3g.20gb?"),
        (part("mig-7g.80gb"), "no node offers the MIG profile 7g.80gb; did you mean 7g.40gb?"),
        (
            part("gpu", affinity=((Match("zone", "Within", ("a",)),),)),
            "Within is no operator of an affinity; there are In, NotIn, Exists, DoesNotExist, Gt, Lt",
        ),
        (part("gpu", affinity=((Match("gen", "Gt", ("new",)),),)), "the affinity's gen Gt needs one whole number"),
    ],
)
def test_an_invalid_request_for_parts_of_gpus_is_rejected_with_a_valid_one(asked, message):
    assert rejection(asked, machines=MIXED) == message


def test_parts_where_no_node_shares():
    assert rejection(part("gpu-milli", 500)) == (
        "no node shares its GPUs in thousandths; ask for whole ones, or declare `sharing: milli` for a node"
    )
    assert rejection(part("mig-1g.5gb")) == (
        "no node offers the MIG profile 1g.5gb; no node is declared with `sharing: mig` and a gpu-type that has it"
    )
    assert rejection(part("gpu"), machines=MIXED[1:2]).startswith(
        "all GPUs are given in MIG profiles; ask for one of them: 1g.10gb or 1g.5gb or 2g.10gb"
    )


def test_unknown_gpu_models_are_rejected():
    def of(*models, machines=MIXED, resource="gpu"):
        snapshot = ledger_of(machines).snapshot()
        verdict = admission_refusal(snapshot, Job("x", (part(resource),), gpu_types=models))
        return verdict.message if verdict else ""

    assert of("B2", "MI300") == "no node has the GPU B2 or MI300; there are A100-40GB, T4, V100"
    assert of("V10") == "no node has the GPU V10; did you mean V100?"
    assert of("V100", machines=nodes(1)) == "no node has the GPU V100; no node says which it has (label gpu-type)"
    assert of("V100", resource="cpu") == ("names the GPU V100 and asks for no GPU; ask for one, or leave the name out")
    assert of("H100", "T4") == ""


def test_a_gang_needs_one_gpu_model_for_all_replicas():
    snapshot = ledger_of([*MIXED, Node("n4", {"gpu": 4}, {"gpu-type": "V100"})]).snapshot()
    worker = Role("worker", 4, resources={"gpu": 4})
    verdict = admission_refusal(snapshot, Job("x", (worker,), gpu_types=("V100", "T4")))
    assert verdict.message == (
        "needs 4×4 gpu as one gang: 2 nodes could take a replica, 3 of 4 in all, however empty; "
        "2 nodes lost to gpu-type V100; largest gang that fits: 3 replicas of 4 gpu"
    )


def test_too_few_nodes_reject_whole_node_replicas():
    assert rejection(Role("worker", 3, resources={"gpu": 2}, whole_node=True)) == (
        "needs 3×2 gpu as one gang, each on a node of its own: 2 nodes could take a replica, 2 of 3 in all, "
        "however empty; largest gang that fits: 2 replicas of 2 gpu"
    )


def test_parts_of_gpus_that_fit_are_accepted():
    assert rejection(part("gpu-milli", 1000), machines=MIXED) == ""
    assert rejection(Role("worker", 8, resources={"gpu-milli": 500}), machines=MIXED) == ""
    assert rejection(part("mig-3g.20gb", 8), machines=MIXED) == ""
    assert rejection(part("mig-3g.20gb", 9), machines=MIXED).endswith(
        "largest gang that fits: 1 replica of 8 mig-3g.20gb"
    )
