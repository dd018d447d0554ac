from pathlib import Path
from types import SimpleNamespace

import pytest

from windlass.core.cluster import Node, Topology
from windlass.core.queue import Queue
from windlass.worlds.local import nodes
from windlass.worlds.local.nodes import DEVICE_LABEL, Gpu, Machine, declared, found, found_gpus, from_nodes

GIB = 2**30
FOUR_GPUS = tuple(Gpu(f"GPU-{letter}", "NVIDIA H200") for letter in "abcd")


def test_without_a_gpu_every_core_is_a_slot():
    cluster = found(Machine(cpu=2_500, memory=GIB))
    assert cluster.nodes == (Node("n1", {"cpu": 2_500, "memory": GIB, "gpu": 2}, {DEVICE_LABEL: "slot"}),)
    assert cluster.devices == {}
    assert cluster.text == "no GPU found: 1 node with 2 CPU slots, one a core"


def test_real_gpus_are_handed_out_by_their_ids():
    cluster = found(Machine(8_000, GIB, FOUR_GPUS))
    assert cluster.nodes[0].capacity["gpu"] == 4
    assert cluster.nodes[0].labels == {DEVICE_LABEL: "gpu", "windlass.dev/gpu": "NVIDIA-H200"}
    assert cluster.devices == {"n1": ("GPU-a", "GPU-b", "GPU-c", "GPU-d")}
    assert cluster.text == "1 node with 4× NVIDIA H200"


def test_declared_nodes_share_the_machine():
    cluster = declared(Machine(cpu=4_000, memory=9 * GIB), 2, 3, [Queue("default")])
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
    cluster = declared(Machine(4_000, GIB, FOUR_GPUS), 2, gpus)
    assert (cluster.devices, cluster.text) == (devices, text)


def test_nodes_of_a_file_have_slots_unless_they_say_otherwise():
    written = [Node("big", {"gpu": 8}, {"zone": "a"}), Node("odd", {"gpu": 1}, {DEVICE_LABEL: "gpu"})]
    cluster = from_nodes(written, [], Topology(("rack",)), "cluster.yaml")
    assert [dict(node.labels) for node in cluster.nodes] == [
        {DEVICE_LABEL: "slot", "zone": "a"},
        {DEVICE_LABEL: "gpu"},
    ]
    assert cluster.changed().topology == Topology(("rack",))


class NVMLError(Exception):
    pass


def nvml(count: int = 2, *, broken: bool = False) -> SimpleNamespace:
    def init() -> None:
        if broken:
            raise NVMLError

    return SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=init,
        nvmlDeviceGetCount=lambda: count,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetUUID=lambda handle: f"GPU-{handle}",
        nvmlDeviceGetName=lambda _handle: b"H200",  # as older versions return it
    )


def test_gpus_come_from_nvml(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert found_gpus(nvml) == (Gpu("GPU-0", "H200"), Gpu("GPU-1", "H200"))


@pytest.mark.parametrize(("setting", "ids"), [("1", ["GPU-1"]), ("GPU-1,0", ["GPU-1", "GPU-0"]), ("", []), ("-1", [])])
def test_gpus_hidden_from_windlass_are_not_handed_out(monkeypatch, setting, ids):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    assert [gpu.id for gpu in found_gpus(nvml)] == ids


def test_no_library_or_no_driver_is_no_gpu():
    assert found_gpus(lambda: None) == ()
    assert found_gpus(lambda: nvml(broken=True)) == ()


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
def test_a_control_groups_limit_is_the_memory(tmp_path: Path, files):
    write(tmp_path, files)
    assert nodes.usable_memory(tmp_path) == 4_096_000


def test_without_a_limit_it_is_the_machines(tmp_path: Path):
    write(tmp_path, {"memory.max": "max"})
    assert nodes.usable_memory(tmp_path) > 2**27


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text + "\n")
