import pytest

from windlass.backends.local.devices import NoDeviceError, assign_devices
from windlass.backends.local.nodes import LocalCluster
from windlass.core.model.job import Job, Role
from windlass.core.model.status import Placement

OWNED = LocalCluster(
    (),
    devices={"n1": ("a", "b", "c", "d"), "n2": ("e", "f")},
    instances={"n4": {"mig-1g.10gb": ("MIG-1", "MIG-2"), "mig-3g.40gb": ("MIG-3",)}},
)


def job(*roles: Role) -> Job:
    return Job("job", roles)


def test_each_replica_gets_the_first_free_devices_of_its_node():
    wanted = job(Role("chief", 1, resources={"gpu": 1}), Role("worker", 2, resources={"gpu": 2}))
    placement = Placement({"chief": ("n1",), "worker": ("n1", "n2")})
    assert assign_devices(wanted, placement, OWNED, in_use=["b"]) == {
        ("chief", 0): ("a",),
        ("worker", 0): ("c", "d"),
        ("worker", 1): ("e", "f"),
    }


def test_a_replica_without_gpus_and_one_on_slots_get_none():
    wanted = job(Role("cpu", 1), Role("slot", 1, resources={"gpu": 1}))
    placement = Placement({"cpu": ("n1",), "slot": ("n3",)})
    assert assign_devices(wanted, placement, OWNED, in_use=[]) == {("cpu", 0): (), ("slot", 0): ()}


def test_too_few_free_devices_are_an_error_with_counts():
    wanted = job(Role("worker", 1, resources={"gpu": 2}))
    with pytest.raises(NoDeviceError, match="n2 has 1 free devices, worker/0 needs 2"):
        assign_devices(wanted, Placement({"worker": ("n2",)}), OWNED, in_use=["e"])


def test_replicas_with_a_part_of_a_gpu_get_the_gpu_that_the_scheduler_chose():
    wanted = job(Role("worker", 2, resources={"gpu-milli": 500}))
    placement = Placement({"worker": ("n1", "n2")}, {"worker": ((2,), (0,))})
    assert assign_devices(wanted, placement, OWNED, in_use=["c"]) == {("worker", 0): ("c",), ("worker", 1): ("e",)}


def test_whole_gpus_beside_shared_ones_are_those_the_scheduler_chose():
    wanted = job(Role("worker", 1, resources={"gpu": 2}))
    placement = Placement({"worker": ("n1",)}, {"worker": ((1, 3),)})
    assert assign_devices(wanted, placement, OWNED, in_use=["a"]) == {("worker", 0): ("b", "d")}


def test_a_part_of_a_slot_is_no_device():
    wanted = job(Role("worker", 1, resources={"gpu-milli": 500}))
    assert assign_devices(wanted, Placement({"worker": ("n3",)}, {"worker": ((0,),)}), OWNED, in_use=[]) == {
        ("worker", 0): ()
    }


def test_a_replica_with_a_whole_node_gets_all_its_gpus():
    wanted = job(Role("worker", 1, resources={"gpu": 1}, whole_node=True))
    assert assign_devices(wanted, Placement({"worker": ("n2",)}), OWNED, in_use=[]) == {("worker", 0): ("e", "f")}


def test_mig_instances_are_assigned_by_their_profile():
    wanted = job(Role("worker", 2, resources={"mig-1g.10gb": 1}), Role("big", 1, resources={"mig-3g.40gb": 1}))
    placement = Placement({"worker": ("n4", "n4"), "big": ("n4",)})
    assigned = {("worker", 0): ("MIG-1",), ("worker", 1): ("MIG-2",), ("big", 0): ("MIG-3",)}
    assert assign_devices(wanted, placement, OWNED, in_use=[]) == assigned
    with pytest.raises(NoDeviceError, match="n4 has 0 free devices, worker/1 needs 1"):
        assign_devices(wanted, placement, OWNED, in_use=["MIG-1"])
