import pytest

from windlass.core.job import Job, Role
from windlass.core.status import Placement
from windlass.worlds.local.devices import NoDeviceError, assign

OWNED = {"n1": ("a", "b", "c", "d"), "n2": ("e", "f")}


def job(*roles: Role) -> Job:
    return Job("job", roles)


def test_each_replica_gets_the_first_free_devices_of_its_node():
    asked = job(Role("chief", 1, resources={"gpu": 1}), Role("worker", 2, resources={"gpu": 2}))
    placement = Placement({"chief": ("n1",), "worker": ("n1", "n2")})
    assert assign(asked, placement, OWNED, taken=["b"]) == {
        ("chief", 0): ("a",),
        ("worker", 0): ("c", "d"),
        ("worker", 1): ("e", "f"),
    }


def test_a_replica_without_gpus_and_one_on_slots_get_none():
    asked = job(Role("cpu", 1), Role("slot", 1, resources={"gpu": 1}))
    placement = Placement({"cpu": ("n1",), "slot": ("n3",)})
    assert assign(asked, placement, OWNED, taken=[]) == {("cpu", 0): (), ("slot", 0): ()}


def test_a_device_that_nobody_accounts_for_is_an_error_with_counts():
    asked = job(Role("worker", 1, resources={"gpu": 2}))
    with pytest.raises(NoDeviceError, match="n2 has 1 free devices, worker/0 was promised 2"):
        assign(asked, Placement({"worker": ("n2",)}), OWNED, taken=["e"])
