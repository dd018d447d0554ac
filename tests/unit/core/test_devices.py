"""Nodes that share their GPUs: the GPU that each replica gets, and what is left."""

import numpy as np
import pytest
from gangs import admitted, carry_out, ledger_of, waiting

from windlass.core.cycle.scheduler import schedule
from windlass.core.invariants import snapshot_violations
from windlass.core.model.devices import is_hidden
from windlass.core.model.gang import Demand
from windlass.core.model.mig import instance_number
from windlass.core.model.node import Node
from windlass.core.queues.fair_share import total_capacity


def sharing(name, gpu=4, *, by="milli", model="A100-40GB", **more):
    return Node(name, {"gpu": gpu, "cpu": 64_000, **more}, {"gpu-type": model}, sharing=by)


def asking(replicas=1, *, role="worker", whole_node=False, **resources):
    amounts = {name.replace("_", "-"): amount for name, amount in resources.items()}
    return Demand(role, replicas, amounts, whole_node=whole_node)


def part(milli, replicas=1, **more):
    return asking(replicas, gpu_milli=milli, **more)


def profile(name, count=1, replicas=1):
    return Demand("worker", replicas, {f"mig-{name}": count})


def start(ledger, number, *demands):
    """Devices of the only role by replica, or None."""
    ledger.add_pending(waiting(number, *demands))
    plan = carry_out(ledger)
    ledger.remove_pending(f"j-{number}")
    assert snapshot_violations(ledger.snapshot()) == []
    return next((a.placement.devices.get("worker") for a in plan.admissions if a.job_id == f"j-{number}"), None)


def reason_for(ledger, demand):
    ledger.add_pending(waiting(99, demand))
    return schedule(ledger.snapshot(), 0).verdicts["j-99"].message


def free(ledger, resource):
    snapshot = ledger.snapshot()
    return snapshot.free[:, snapshot.table.column[resource]].tolist()


def test_a_part_goes_to_the_tightest_gpu_that_has_enough():
    ledger = ledger_of([sharing("n1", 2)])
    assert start(ledger, 1, part(600)) == ((0,),)
    assert start(ledger, 2, part(500)) == ((1,),)
    assert start(ledger, 3, part(400)) == ((0,),)
    assert start(ledger, 4, part(500)) == ((1,),)
    assert free(ledger, "gpu-milli") == [0]


def test_a_part_is_on_a_single_gpu():
    ledger = ledger_of([sharing("n1", 2)])
    start(ledger, 1, part(600, replicas=2))
    assert free(ledger, "gpu-milli") == [800]
    assert start(ledger, 2, part(500)) is None
    assert reason_for(ledger, part(500)) == "needs 500 gpu-milli on one node: 800 free on 1 node"


def test_whole_gpus_are_entirely_free_ones():
    ledger = ledger_of([sharing("n1", 4)])
    start(ledger, 1, part(100))
    assert free(ledger, "gpu") == [3]
    assert start(ledger, 2, asking(gpu=2)) == ((1, 2),)
    assert start(ledger, 3, asking(gpu=2)) is None
    assert start(ledger, 4, asking(gpu=1)) == ((3,),)


def test_released_devices_are_free_again():
    ledger = ledger_of([sharing("n1", 2), sharing("n2", 2)])
    before = ledger.snapshot().free.copy()
    start(ledger, 1, part(300, replicas=5))
    start(ledger, 2, asking(gpu=2))
    for job_id in ("j-1", "j-2"):
        ledger.release(job_id)
    assert np.array_equal(ledger.snapshot().free, before)


def test_a_gang_of_parts_spreads_over_gpus_and_nodes_by_room():
    ledger = ledger_of([sharing("n1", 2), sharing("n2", 2)])
    assert start(ledger, 1, part(400, replicas=6)) == ((0,), (0,), (1,), (1,), (0,), (0,))
    assert free(ledger, "gpu") == [0, 1]


def test_nodes_without_sharing_give_whole_gpus_only():
    ledger = ledger_of([Node("n1", {"gpu": 8}), sharing("n2", 1)])
    assert start(ledger, 1, part(500)) == ((0,),)
    assert start(ledger, 2, asking(gpu=8)) is None
    assert ledger.snapshot().running["j-2"].placement.nodes["worker"] == ("n1",)
    assert not ledger.snapshot().running["j-2"].placement.devices


def test_a_cluster_without_shared_gpus_has_no_columns_of_single_gpus():
    table = ledger_of([Node("n1", {"gpu": 8})]).snapshot().table
    assert table.devices is None
    assert not any(map(is_hidden, table.resource_names))


def test_nodes_without_sharing_are_counted():
    ledger = ledger_of([Node("n1", {"gpu": 8}), Node("n2", {"gpu": 8})])
    assert reason_for(ledger, part(500)).endswith("no node could take a replica, however empty; 2 nodes not shared")


def test_instances_are_placed_where_the_most_large_ones_still_fit():
    ledger = ledger_of([sharing("n1", 1, by="mig")])
    assert start(ledger, 1, profile("1g.5gb")) == ((instance_number(0, 6),),)
    assert free(ledger, "mig-4g.20gb") == [1]
    assert free(ledger, "mig-3g.20gb") == [1]
    assert start(ledger, 2, profile("4g.20gb")) == ((instance_number(0, 0),),)
    assert start(ledger, 3, profile("3g.20gb")) is None


def test_two_half_gpu_instances_need_their_own_start_slices():
    """Of eight slices two are taken and six are left, but 3g begins at 0 or 4 only."""
    ledger = ledger_of([sharing("n1", 1, by="mig")])
    start(ledger, 1, profile("2g.10gb"))
    assert start(ledger, 2, profile("3g.20gb", replicas=2)) is None
    assert start(ledger, 3, profile("3g.20gb")) == ((instance_number(0, 0),),)


def test_small_instances_are_packed_on_one_gpu():
    ledger = ledger_of([sharing("n1", 3, by="mig")])
    for number in range(1, 8):
        [(where,)] = start(ledger, number, profile("1g.5gb"))
        assert where // 8 == 0
    assert free(ledger, "mig-7g.40gb") == [2]
    assert start(ledger, 8, profile("7g.40gb", replicas=2)) == ((instance_number(1, 0),), (instance_number(2, 0),))


def test_one_replica_may_have_several_instances():
    ledger = ledger_of([sharing("n1", 2, by="mig")])
    assert start(ledger, 1, profile("3g.20gb", 3)) == (
        (instance_number(0, 4), instance_number(0, 0), instance_number(1, 4)),
    )


def test_a_gpu_shared_by_profiles_is_never_given_whole():
    ledger = ledger_of([sharing("n1", 8, by="mig")])
    assert start(ledger, 1, asking(gpu=1)) is None


def test_models_have_their_own_profiles():
    ledger = ledger_of([sharing("a", by="mig", model="A30"), sharing("h", by="mig", model="NVIDIA-H200")])
    assert start(ledger, 1, profile("2g.12gb", replicas=8)) is not None
    assert start(ledger, 2, profile("7g.141gb", replicas=4)) is not None
    assert free(ledger, "mig-1g.6gb") == [0, 0]


@pytest.mark.parametrize("by", ["milli", "mig"])
def test_a_whole_node_is_an_empty_one_and_no_gang_joins(by):
    small = part(100) if by == "milli" else profile("1g.5gb")
    ledger = ledger_of([sharing("n1", 2, by=by), sharing("n2", 2, by=by)])
    start(ledger, 1, small)
    ledger.add_pending(waiting(2, asking(cpu=1, whole_node=True)))
    assert admitted(carry_out(ledger)) == {"j-2": ("n2",)}
    assert snapshot_violations(ledger.snapshot()) == []
    assert ledger.snapshot().free[1].tolist() == [0] * len(ledger.snapshot().table.resource_names)
    assert reason_for(ledger, asking(cpu=1000, whole_node=True)) == (
        "needs 1 cpu on a node of its own: 0 of 2 nodes empty"
    )


def test_roles_share_the_gpus_of_a_node():
    ledger = ledger_of([sharing("n1", 2)])
    ledger.add_pending(waiting(1, part(700), part(300, role="chief"), asking(gpu=1, role="big")))
    [admission] = carry_out(ledger).admissions
    assert dict(admission.placement.devices) == {"big": ((0,),), "worker": ((1,),), "chief": ((1,),)}
    assert snapshot_violations(ledger.snapshot()) == []


def test_a_shared_gpu_counts_once_in_the_capacity_of_the_cluster():
    table = ledger_of([sharing("n1", 4), sharing("n2", 2, by="mig"), Node("n3", {"gpu": 8})]).snapshot().table
    found = total_capacity(table)
    assert found["gpu"] == 14 * 1000
    assert not any(name.startswith("mig-") or is_hidden(name) for name in found)
