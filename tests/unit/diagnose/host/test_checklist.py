"""Checks of a machine: a healthy node, a machine without GPUs, and one fault at a time."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from machines import BARE, DRIVER, GIB, LIMITS, NODE, Machine, config_space, pci

from windlass.diagnose.host.facts import ClockState, FileSystem, NvmlReading, OwnName, TorchPackage
from windlass.diagnose.steps import State, markdown_lines, plain_report, text_lines, worst


def faults(steps):
    return {name: step.state for name, step in steps.items() if step.state in (State.WARNING, State.WRONG)}


def test_a_healthy_node_has_no_fault(tmp_path):
    steps = NODE.check(tmp_path)
    assert faults(steps) == {}
    assert steps["pci.gpus"].text == "NVIDIA GPUs: 8 × 10de:2330"
    assert steps["driver.gpu_count"].text == "8 × NVIDIA H100 80GB HBM3"
    assert steps["network.rdma"].text == "8 × InfiniBand, all active (400 Gb/sec (4X NDR))"
    assert {step.state for step in steps.values()} == {State.OK}


def test_a_machine_without_gpus_is_told_what_is_absent(tmp_path):
    steps = BARE.check(tmp_path)
    assert faults(steps) == {}
    absent = {name for name, step in steps.items() if step.state is State.ABSENT}
    assert {"pci.gpus", "driver.module", "driver.nvml", "gpu.health", "network.rdma", "framework.torch"} <= absent


def test_an_empty_root_is_judged_without_a_crash(tmp_path):
    steps = Machine(shm=None, own_name=OwnName("")).check(tmp_path)
    assert faults(steps) == {"system.shm": State.WRONG}


def test_every_fault_has_a_fix(tmp_path):
    for place, machine in enumerate(faulty.values()):
        for step in machine.check(tmp_path / str(place)).values():
            assert bool(step.fix) >= (step.state in (State.WARNING, State.WRONG)), step


faulty = {
    "driver.library": NODE.without("usr/lib/x86_64-linux-gnu/libcuda.so.570").with_file(
        "usr/lib/x86_64-linux-gnu/libcuda.so.535.161.08", ""
    ),
    "driver.module": NODE.without("proc/driver").having(nvml=NvmlReading("DriverNotLoaded")),
    "driver.device_nodes": NODE.without("dev/nvidia"),
    "driver.nvml": NODE.having(nvml=NvmlReading("LibRmVersionMismatch")),
    "driver.gpu_count": NODE.having(nvml=replace(NODE.nvml, gpus=NODE.nvml.gpus[:7])),
    "driver.fabric_manager": NODE.with_gpu(3, fabric=1),
    "driver.kernel_log": NODE.with_file("dev/kmsg", "4,9,7000000,-;NVRM: Xid (PCI:0000:11:00): 79, pid=1, lost\n"),
    "driver.switch_log": NODE.with_file(
        "dev/kmsg", "4,9,7000000,-;nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Fatal, Link 32 egress\n"
    ),
    "gpu.ecc": NODE.with_gpu(2, uncorrected=4),
    "gpu.repaired_memory": NODE.with_gpu(5, remapping_pending=True),
    "gpu.clocks": NODE.with_gpu(1, clock_reasons=0x40, sm_clock=600, temperature=91),
    "gpu.nvlink": NODE.with_gpu(6, links_up=17, links_down=1),
    "container.cdi": NODE.with_file("etc/cdi/nvidia.yaml", "kind: nvidia.com/gpu\n/libcuda.so.550.54.15\n"),
    "framework.cuda_driver": NODE.having(torch=TorchPackage("2.9.0+cu130", "13.0", "2.26.2")),
    "framework.gpu_architecture": NODE.with_gpu(0, capability=(10, 3)),
    "framework.nccl": NODE.having(packages={"nvidia-nccl-cu12": "2.21.5"}),
    "framework.torch": NODE.having(torch=TorchPackage("2.7.0+cpu")),
    "network.device_nodes": NODE.without("dev/infiniband"),
    "network.rdma": NODE.with_file("sys/class/infiniband/mlx5_2/ports/1/state", "2: INIT"),
    "network.gids": NODE.without("sys/class/infiniband/mlx5_4/ports/1/gids"),
    "pci.bound_driver": NODE.with_file("sys/bus/pci/devices/0000:12:00.0/driver", "nouveau"),
    "system.locked_memory": NODE.with_file("proc/self/limits", LIMITS.format(memlock="65536")),
    "system.shm": NODE.having(shm=FileSystem("/dev/shm", 64 << 20, 64 << 20, 0, 0)),
    "system.disk:/": NODE.having(disk=FileSystem("/", 1000 * GIB, 10 << 20, 10**7, 10**7)),
}
"""Name of the step → a node where it is wrong."""

slow = {
    "pci.link": NODE.with_file("sys/bus/pci/devices/0000:13:00.0/current_link_width", "8"),
    "pci.iommu": NODE.with_file("sys/bus/pci/devices/0000:13:00.0/iommu_group/type", "DMA-FQ"),
    "driver.persistence": NODE.with_gpu(0, persistence=False),
    "gpu.peer_access": NODE.with_gpu(0, peers={1: 1, 2: 0}),
    "container.toolkit": NODE.without("usr/bin").without("etc/c"),
    "network.gpudirect": NODE.with_file("proc/modules", "nvidia 1 1 - Live 0x0\n").with_file(
        "proc/driver/nvidia/version", f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {DRIVER}  Release"
    ),
    "framework.nccl": NODE.having(environment={"LD_PRELOAD": "/opt/nccl/lib/libnccl.so.2.18"}),
    "system.clock": NODE.having(clock=ClockState(False)),
    "system.own_name": NODE.having(own_name=OwnName("n1", ("127.0.1.1",), ("10.0.0.7",))),
    "system.open_files": NODE.with_file("proc/self/limits", "Max open files            1024      4096     files\n"),
    "system.processes": NODE.with_file("sys/fs/cgroup/pids.max", "256"),
    "system.memory": NODE.with_file("proc/meminfo", "MemTotal: 1000000 kB\nMemAvailable: 20000 kB\n"),
}
"""Name of the step → a node where it is a warning."""


@pytest.mark.parametrize("name", faulty)
def test_a_fault_is_found_alone_with_its_fix(tmp_path, name):
    found = faults(faulty[name].check(tmp_path))
    consequences = {"driver.nvml"} if name == "driver.module" else set()
    assert set(found) - consequences == {name}
    assert found[name] is State.WRONG


@pytest.mark.parametrize("name", slow)
def test_a_setting_that_slows_work_is_a_warning(tmp_path, name):
    assert faults(slow[name].check(tmp_path)) == {name: State.WARNING}


def bridge_above_gpu(root, control: int | bytes):
    """Puts the GPU 0000:10:00.0 below a bridge, by links as sysfs has them."""
    device = root / "sys/devices/pci0000:00/0000:0f:00.0/0000:10:00.0"
    device.mkdir(parents=True)
    space = control if isinstance(control, bytes) else config_space(control)
    bridge = pci("0000:0f:00.0", "0x1000", "0xc030", "0x060400", config=space)
    gpu = pci("0000:10:00.0", "0x10de", "0x2330", "0x030200", driver="nvidia")
    for path, content in {**bridge, **gpu}.items():
        address, name = path.split("/")[-2:]
        folder = device if address == device.name else device.parent
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    bus = root / "sys/bus/pci/devices"
    bus.mkdir(parents=True)
    (bus / device.name).symlink_to(device)
    (bus / device.parent.name).symlink_to(device.parent)
    return NODE.without("sys/bus/pci/devices/0000:10").check(root)["pci.acs"]


def test_acs_on_a_bridge_above_a_gpu_is_a_warning(tmp_path):
    step = bridge_above_gpu(tmp_path, 0x1D)
    assert (step.state, step.evidence) == (State.WARNING, ("0000:0f:00.0 ACSCtl 0x001d",))


def test_acs_that_is_off_is_ok(tmp_path):
    assert bridge_above_gpu(tmp_path, 0).state is State.OK


def test_acs_is_not_visible_without_the_rights_of_root(tmp_path):
    step = bridge_above_gpu(tmp_path, config_space(0x1D)[:64])
    assert (step.state, step.fix) == (State.UNSEEN, "sudo windlass doctor host")


def test_a_forward_compatibility_package_runs_a_newer_cuda(tmp_path):
    node = faulty["framework.cuda_driver"].with_file("usr/local/cuda-13.0/compat/libcuda.so.580.82.07", "")
    assert node.check(tmp_path)["framework.cuda_driver"].state is State.WARNING


def test_links_that_leave_the_root_are_followed_without_a_crash(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/nvidia.yaml").write_text(f"kind: nvidia.com/gpu\n/libcuda.so.{DRIVER}")
    root = tmp_path / "root"
    (root / "var/run").mkdir(parents=True)
    (root / "var/run/cdi").symlink_to(tmp_path / "elsewhere")
    assert NODE.without("etc/cdi").check(root)["container.cdi"].text == "/var/run/cdi/nvidia.yaml"


def test_xids_of_programs_do_not_condemn_the_gpu(tmp_path):
    line = "4,{0},{0}000000,-;NVRM: Xid (PCI:0000:11:00): {1}, pid=1, name=python, text\n"
    log = "".join(line.format(number, xid) for number, xid in enumerate((31, 31, 43)))
    step = NODE.with_file("dev/kmsg", log).check(tmp_path)["driver.kernel_log"]
    assert (step.state, step.text) == (State.WARNING, "Xid 31 × 2, Xid 43 × 1")
    assert "31: Access to an unmapped page of GPU memory. Action: restart the job" in step.fix
    assert step.evidence[0] == "[    1.000000] NVRM: Xid (PCI:0000:11:00): 31, pid=1, name=python, text"


def test_a_stopped_fabric_manager_before_hopper_is_found_by_its_process(tmp_path):
    node = NODE.having(nvml=replace(NODE.nvml, gpus=tuple(replace(gpu, fabric=0) for gpu in NODE.nvml.gpus)))
    assert node.check(tmp_path / "runs")["driver.fabric_manager"].state is State.OK
    assert node.without("proc/88").check(tmp_path / "stopped")["driver.fabric_manager"].state is State.WRONG
    inside = node.without("proc/88").with_file(".dockerenv", "")
    assert inside.check(tmp_path / "inside")["driver.fabric_manager"].state is State.UNSEEN


def test_a_denied_device_of_a_container_is_told_from_missing_permissions(tmp_path):
    step = NODE.having(open_errors={"nvidiactl": "EPERM"}).check(tmp_path / "group")["driver.device_nodes"]
    assert (step.state, step.fix) == (State.WRONG, "the control group denies the device: restart the container")
    step = NODE.having(open_errors={"nvidiactl": "EACCES"}).check(tmp_path / "mode")["driver.device_nodes"]
    assert step.fix == "chmod 666 /dev/nvidia*"


def test_roce_needs_an_address_that_maps_ipv4(tmp_path):
    port = "sys/class/infiniband/mlx5_0/ports/1"
    roce = NODE.without("sys/class/infiniband").with_file(f"{port}/link_layer", "Ethernet")
    roce = roce.with_file(f"{port}/state", "4: ACTIVE").with_file(f"{port}/gids/0", "fe80::1")
    assert roce.check(tmp_path / "without")["network.gids"].state is State.WARNING
    mapped = roce.with_file(f"{port}/gids/3", "0000:0000:0000:0000:0000:ffff:0a00:0007")
    step = mapped.with_file(f"{port}/gid_attrs/types/3", "RoCE v2").check(tmp_path / "with")["network.gids"]
    assert (step.state, step.text) == (State.OK, "RoCE v2 with IPv4: mlx5_0 index 3")


def test_reports_have_the_same_steps_in_every_format(tmp_path):
    steps = tuple(faulty["gpu.ecc"].check(tmp_path).values())
    plain = json.loads(json.dumps(plain_report("n1", steps)))
    assert (plain["verdict"], worst(steps)) == ("wrong", State.WRONG)
    assert plain["counts"] == {"wrong": 1, "ok": len(steps) - 1}
    names = [step["step"] for step in plain["steps"]]
    text, markdown = "\n".join(text_lines("n1", steps)), "\n".join(markdown_lines("n1", steps))
    assert all(name in text and f"`{name}`" in markdown for name in names)
    assert f"n1: 1 wrong, {len(steps) - 1} ok" in text
