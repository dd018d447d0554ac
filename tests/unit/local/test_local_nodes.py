from pathlib import Path
from types import SimpleNamespace

import pytest

from windlass.backends.local import nodes
from windlass.backends.local.gpus import Gpu, discover_gpus
from windlass.backends.local.nodes import DEVICE_LABEL, Machine, cluster_from_nodes, declare_cluster, discover_cluster
from windlass.core.model.node import Node, Topology
from windlass.core.model.queue import Queue

GIB = 2**30
FOUR_GPUS = tuple(Gpu(f"GPU-{letter}", "NVIDIA H200") for letter in "abcd")


def test_every_core_is_a_slot_on_a_machine_without_gpus():
    cluster = discover_cluster(Machine(cpu=2_500, memory=GIB))
    assert cluster.nodes == (Node("n1", {"cpu": 2_500, "memory": GIB, "gpu": 2}, {DEVICE_LABEL: "slot"}),)
    assert cluster.devices == {}
    assert cluster.text == "no GPU found: 1 node with 2 CPU slots, one a core"


def test_real_gpus_are_assigned_by_their_ids():
    cluster = discover_cluster(Machine(8_000, GIB, FOUR_GPUS))
    assert cluster.nodes[0].capacity["gpu"] == 4
    assert cluster.nodes[0].labels == {
        DEVICE_LABEL: "gpu",
        "windlass.dev/gpu": "NVIDIA-H200",
        "gpu-type": "H200",
    }
    assert cluster.devices == {"n1": ("GPU-a", "GPU-b", "GPU-c", "GPU-d")}
    assert cluster.text == "1 node with 4× NVIDIA H200"


def test_declared_nodes_share_the_machine():
    cluster = declare_cluster(Machine(cpu=4_000, memory=9 * GIB), 2, 3, [Queue("default")])
    assert [node.name for node in cluster.nodes] == ["n1", "n2"]
    assert dict(cluster.nodes[1].capacity) == {"cpu": 2_000, "memory": 9 * GIB // 2, "gpu": 3}
    assert cluster.changed().queues == (Queue("default"),)
    assert cluster.text == "2 nodes with 3 CPU slots each"


@pytest.mark.parametrize(
    ("gpus", "devices", "text"),
    [
        (2, {"n1": ("GPU-a", "GPU-b"), "n2": ("GPU-c", "GPU-d")}, "2 nodes with 2 real GPUs each"),
        (3, {}, "2 nodes with 3 CPU slots each"),
        (0, {}, "2 nodes with 0 CPU slots each"),
    ],
)
def test_declared_gpus_are_real_if_there_are_enough(gpus, devices, text):
    cluster = declare_cluster(Machine(4_000, GIB, FOUR_GPUS), 2, gpus)
    assert (cluster.devices, cluster.text) == (devices, text)


def test_nodes_of_a_file_have_slots_unless_their_labels_say_gpu():
    nodes_of_file = [Node("big", {"gpu": 8}, {"zone": "a"}), Node("odd", {"gpu": 1}, {DEVICE_LABEL: "gpu"})]
    cluster = cluster_from_nodes(Machine(4_000, GIB, FOUR_GPUS), nodes_of_file, [], Topology(("rack",)), "cluster.yaml")
    assert [dict(node.labels) for node in cluster.nodes] == [
        {DEVICE_LABEL: "slot", "zone": "a"},
        {DEVICE_LABEL: "gpu"},
    ]
    assert cluster.changed().topology == Topology(("rack",))


def test_nodes_of_a_file_have_real_gpus_if_there_are_enough():
    nodes_of_file = [Node("a", {"gpu": 1}, {"gpu-type": "X"}, sharing="milli"), Node("b", {"gpu": 2}), Node("c", {})]
    cluster = cluster_from_nodes(Machine(4_000, GIB, FOUR_GPUS), nodes_of_file, [], Topology(), "cluster.yaml")
    assert cluster.devices == {"a": ("GPU-a",), "b": ("GPU-b", "GPU-c")}
    assert [node.labels["gpu-type"] for node in cluster.nodes[:2]] == ["X", "H200"]
    assert cluster.nodes[0].sharing == "milli"
    assert cluster.text == "3 nodes from cluster.yaml, with real GPUs"


def test_gpus_that_a_file_shares_by_mig_are_slots():
    nodes_of_file = [Node("a", {"gpu": 1}, sharing="mig")]
    cluster = cluster_from_nodes(Machine(4_000, GIB, FOUR_GPUS), nodes_of_file, [], Topology(), "cluster.yaml")
    assert cluster.devices == {}
    assert cluster.text == "1 node from cluster.yaml, with slots for gpus"


def test_mig_instances_are_resources_by_their_profile():
    parts = [
        Gpu(f"MIG-{number}", "NVIDIA H200", profile) for number, profile in enumerate(["1g.18gb"] * 2 + ["3g.71gb"])
    ]
    cluster = discover_cluster(Machine(8_000, GIB, (FOUR_GPUS[0], *parts)))
    assert cluster.nodes[0].capacity == {
        "cpu": 8_000,
        "memory": GIB,
        "gpu": 1,
        "mig-1g.18gb": 2,
        "mig-3g.71gb": 1,
    }
    assert cluster.devices == {"n1": ("GPU-a",)}
    assert cluster.instances == {"n1": {"mig-1g.18gb": ("MIG-0", "MIG-1"), "mig-3g.71gb": ("MIG-2",)}}
    assert cluster.text == "1 node with 1× NVIDIA H200, 2× MIG 1g.18gb, 1× MIG 3g.71gb"


class NVMLError(Exception):
    pass


class NotSupportedError(NVMLError):
    pass


class NotFoundError(NVMLError):
    pass


def nvml(count: int = 2, *, broken: bool = False, mig: tuple[int, ...] = ()) -> SimpleNamespace:
    """NVML of some GPUs; those in `mig` are in MIG mode, with two instances in seven places each."""

    def mig_mode(handle: int) -> tuple[int, int]:
        if not mig:
            raise NotSupportedError
        return (int(handle in mig),) * 2

    def instance(handle: int, number: int) -> str:
        if number not in (1, 4):
            raise NotFoundError
        return f"{handle}/{number}"

    def init() -> None:
        if broken:
            raise NVMLError

    return SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=init,
        nvmlDeviceGetCount=lambda: count,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetUUID=lambda handle: f"GPU-{handle}",
        # bytes, as older versions return it
        nvmlDeviceGetName=lambda handle: b"H200" if isinstance(handle, int) else "NVIDIA H200 MIG 1g.18gb",
        NVMLError_NotSupported=NotSupportedError,
        NVMLError_NotFound=NotFoundError,
        NVML_DEVICE_MIG_ENABLE=1,
        nvmlDeviceGetMigMode=mig_mode,
        nvmlDeviceGetMaxMigDeviceCount=lambda _handle: 7,
        nvmlDeviceGetMigDeviceHandleByIndex=instance,
    )


def test_gpus_are_listed_by_nvml(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert discover_gpus(nvml) == (Gpu("GPU-0", "H200"), Gpu("GPU-1", "H200"))


@pytest.mark.parametrize(
    ("setting", "ids"),
    [(None, ["GPU-0", "GPU-1/1", "GPU-1/4"]), ("1", ["GPU-1/1", "GPU-1/4"]), ("GPU-1/4", ["GPU-1/4"])],
)
def test_a_gpu_in_mig_mode_is_listed_as_its_instances(monkeypatch, setting, ids):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if setting:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    seen = discover_gpus(lambda: nvml(mig=(1,)))
    assert [gpu.id for gpu in seen] == ids
    assert {gpu.profile for gpu in seen if "/" in gpu.id} == {"1g.18gb"}


@pytest.mark.parametrize(("setting", "ids"), [("1", ["GPU-1"]), ("GPU-1,0", ["GPU-1", "GPU-0"]), ("", []), ("-1", [])])
def test_gpus_hidden_by_the_environment_are_not_listed(monkeypatch, setting, ids):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    assert [gpu.id for gpu in discover_gpus(nvml)] == ids


def test_a_machine_without_library_or_driver_has_no_gpu():
    assert discover_gpus(lambda: None) == ()
    assert discover_gpus(lambda: nvml(broken=True)) == ()


@pytest.mark.parametrize(
    ("files", "cpu"),
    [
        ({"cpu.max": "150000 100000"}, 1_500),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 500),
        ({"cpu.max": "max 100000"}, 4_000),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 4_000),
        ({"cpu.max": "900000 100000"}, 4_000),
        ({}, 4_000),
    ],
)
def test_a_control_groups_quota_limits_the_cores(tmp_path: Path, monkeypatch, files, cpu):
    monkeypatch.setattr(nodes.os, "sched_getaffinity", lambda _pid: {0, 1, 2, 3})
    write(tmp_path, files)
    assert nodes.usable_cpu(tmp_path) == cpu


@pytest.mark.parametrize("files", [{"memory.max": "4096000"}, {"memory/memory.limit_in_bytes": "4096000"}])
def test_a_control_groups_limit_limits_the_memory(tmp_path: Path, files):
    write(tmp_path, files)
    assert nodes.usable_memory(tmp_path) == 4_096_000


def test_the_memory_without_a_limit_is_the_machines(tmp_path: Path):
    write(tmp_path, {"memory.max": "max"})
    assert nodes.usable_memory(tmp_path) > 2**27


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text + "\n")
