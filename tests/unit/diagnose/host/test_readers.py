"""Readers of NVML, packages, limits and control groups, and the verb on this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

from machines import LIMITS, NODE

from windlass.cli.entry import main
from windlass.diagnose.host.facts import Cgroup, TorchPackage
from windlass.diagnose.host.readers.host_reader import READING_STEPS, read_host
from windlass.diagnose.host.readers.kernel_log_reader import read_kernel_log
from windlass.diagnose.host.readers.live_calls import MOUNTED, read_clock, read_file_system
from windlass.diagnose.host.readers.nvml_reader import read_nvml
from windlass.diagnose.host.readers.package_reader import describe_torch
from windlass.diagnose.host.readers.pci_reader import find_acs
from windlass.diagnose.host.readers.system_reader import read_cgroup, read_limits


class NVMLError(Exception):
    """Base class of NVML's errors, as in pynvml."""


class NVMLError_NotSupported(NVMLError):  # noqa: N801, N818 - the name in pynvml
    pass


def unsupported(*_arguments):
    raise NVMLError_NotSupported


def nvml_module(**functions):
    """A module with a GPU that answers only what is given."""
    base = {
        "NVMLError": NVMLError,
        "nvmlInit": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: "570.133.20",
        "nvmlSystemGetCudaDriverVersion": lambda: 12080,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda *_: b"NVIDIA L4",
        "nvmlDeviceGetUUID": lambda *_: "GPU-1",
        "nvmlDeviceGetPciInfo": lambda *_: SimpleNamespace(busId="00000000:3B:00.0"),
        "nvmlDeviceGetMigMode": unsupported,
    }
    return SimpleNamespace(**(base | functions))


def test_values_that_a_gpu_does_not_have_are_left_out():
    reading = read_nvml(nvml_module)
    assert (reading.error, reading.driver, reading.cuda) == ("", "570.133.20", (12, 8))
    (gpu,) = reading.gpus
    assert (gpu.name, gpu.bus, gpu.mig, gpu.ecc, gpu.peers) == ("NVIDIA L4", "0000:3b:00.0", None, None, {})


def test_values_of_a_gpu_are_read():
    module = nvml_module(
        nvmlDeviceGetRemappedRows=lambda *_: (1, 2, 1, 0),
        nvmlDeviceGetEccMode=lambda *_: (1, 0),
        nvmlDeviceGetTotalEccErrors=lambda *_: 3,
        nvmlDeviceGetNvLinkState=lambda _gpu, link: int(link < 17),
        nvmlDeviceGetGpuFabricInfo=lambda *_: SimpleNamespace(state=2),
        nvmlDeviceGetRetiredPages=lambda *_: [0x10, 0x20],
    )
    (gpu,) = read_nvml(lambda: module).gpus
    assert (gpu.remapped, gpu.remapping_pending, gpu.remapping_failed) == (3, True, False)
    assert (gpu.ecc, gpu.ecc_pending, gpu.uncorrected, gpu.retired) == (True, True, 3, 4)
    assert (gpu.links_up, gpu.links_down, gpu.fabric) == (17, 1, 2)


def test_the_error_of_nvml_is_named():
    assert read_nvml(lambda: nvml_module(nvmlInit=unsupported)).error == "NotSupported"
    assert read_nvml(lambda: None).error == "absent"


def test_torch_is_described_by_its_metadata(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/version.py").write_text("__version__ = '2.7.0+cu128'\ncuda: Optional[str] = '12.8'\n")
    package = SimpleNamespace(
        version="2.7.0",
        requires=["sympy>=1.13", 'nvidia-nccl-cu12==2.26.2; platform_system == "Linux"'],
        locate_file=lambda path: tmp_path / path,
    )
    assert describe_torch(package) == TorchPackage("2.7.0+cu128", "12.8", "2.26.2")


def test_limits_without_a_bound_are_none(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/limits").write_text("Max open files    1024       unlimited    files\n")
    assert read_limits(tmp_path) == {"Max open files": (1024, None)}


def test_control_groups_of_both_versions_are_read(tmp_path):
    files = {
        "new/sys/fs/cgroup/memory.max": "1024",
        "new/sys/fs/cgroup/memory.current": "512",
        "new/sys/fs/cgroup/pids.max": "max",
        "old/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
        "old/sys/fs/cgroup/memory/memory.usage_in_bytes": "7",
        "old/sys/fs/cgroup/pids/pids.max": "99",
    }
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert read_cgroup(tmp_path / "new") == Cgroup(1024, 512, None)
    assert read_cgroup(tmp_path / "old") == Cgroup(None, 7, 99)


def test_damaged_configuration_space_ends_the_search():
    loop = bytearray(0x200)
    loop[0x100:0x104] = b"\x01\x00\x01\x10"  # its next capability is itself
    assert find_acs(bytes(loop)) is None
    assert find_acs(b"\xff" * 4096) is None
    assert find_acs(b"") is None


def test_binary_in_the_kernel_log_is_read(tmp_path):
    (tmp_path / "var/log").mkdir(parents=True)
    (tmp_path / "var/log/kern.log").write_bytes(b"\xff\x00 NVRM: Xid (PCI:0000:01:00): 79, x\n" + b"a" * 200_000)
    assert len(read_kernel_log(tmp_path).lines) == 1


def test_this_machine_answers_the_system_calls(tmp_path):
    found = read_file_system(tmp_path, "here")
    assert found is not None
    assert found.total >= found.free > 0
    assert read_file_system(tmp_path / "missing", "x") is None
    assert read_clock().synchronized in (True, False, None)


def test_the_verb_runs_on_this_machine(capfd):
    code = main(["doctor", "host", "-o", "json"])
    report = json.loads(capfd.readouterr().out)
    assert code == (report["verdict"] == "wrong")
    assert {step["area"] for step in report["steps"]} >= {"pci", "driver", "gpu", "container", "network", "system"}


def test_a_root_without_a_machine_is_one_clear_error(tmp_path, capsys):
    assert main(["doctor", "host", "--root", str(tmp_path / "missing")]) == 2
    assert "has neither proc nor sys: name the folder" in capsys.readouterr().err


def test_the_verb_judges_another_root(tmp_path, capfd):
    (tmp_path / "etc").mkdir()
    (tmp_path / "proc").mkdir()
    (tmp_path / "etc/hostname").write_text("n7\n")
    code = main(["doctor", "host", "--root", str(tmp_path), "-o", "markdown"])
    out = capfd.readouterr().out
    assert (code, out[:6]) == (1, "**n7: ")
    assert "| wrong | `system.shm` | there is no /dev/shm |" in out


def test_a_mounted_node_is_not_blamed_for_the_container_that_reads_it(tmp_path, capfd):
    NODE.with_file("proc/1/limits", LIMITS.format(memlock="unlimited")).write(tmp_path)
    (tmp_path / "dev/shm").mkdir()
    main(["doctor", "host", "--root", str(tmp_path), "-o", "json"])
    steps = {step["step"]: step for step in json.loads(capfd.readouterr().out)["steps"]}
    assert steps["driver.nvml"]["state"] == "not visible"
    assert steps["driver.device_nodes"]["text"] == "8 GPUs, nvidiactl and nvidia-uvm exist"
    areas = ("pci", "driver", "gpu", "network", "container")
    assert not [step for step in steps.values() if step["area"] in areas and step["state"] == "wrong"]


def test_doctor_imports_neither_torch_nor_the_backends():
    code = (
        "import sys, windlass.cli.verbs.doctor; "
        "print([m for m in ('torch', 'numpy', 'aiohttp', 'windlass.backends.local.backend') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_each_step_of_the_reading_is_reported_before_it_begins(tmp_path):
    steps: list[str] = []
    read_host(tmp_path, MOUNTED, report_step=steps.append)
    assert len(steps) == READING_STEPS
    assert steps[0] == "address of the own name"
    assert "kernel log" in steps
