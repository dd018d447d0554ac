"""Checks of the driver: kernel module, libraries, device nodes, NVML, services, and the kernel log."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from windlass.diagnose.host.facts import UNASKED, HostFacts
from windlass.diagnose.host.xids import XID_SOURCE, sxid_meaning, xid_action
from windlass.diagnose.steps import CheckStep, State, absent, ok, unseen

_XID = re.compile(r"NVRM: (?:GPU at )?Xid \(((?:PCI:)?[0-9a-fA-F:.]+)\)[^:]*: (\d+)")
_SXID = re.compile(r"SXid \((?:PCI:)?[0-9a-fA-F:.]+\): (\d+), (Fatal|Non-fatal)")
_DENIED = ("EPERM", "EACCES")
_NEEDED_NODES = ("nvidiactl", "nvidia-uvm")
_NO_GPUS = "this machine has no NVIDIA GPU"
_NVML_FIXES = {
    "LibRmVersionMismatch": "the library and the loaded module are of different versions: reboot the node, or unload "
    "all nvidia modules and load them again; a container must mount the node's library",
    "DriverNotLoaded": "load the module: modprobe nvidia; if it fails, read: dmesg | grep -i nvrm",
    "NoPermission": "run as root, or allow the device nodes",
    "Unknown": "in a container whose device rules were reset by systemd: restart the container; use CDI, or the cgroup "
    "driver systemd on both sides",
    "GpuIsLost": "a GPU fell off the bus: drain the node and restart it with a cold start",
}


def check_driver(facts: HostFacts) -> Iterator[CheckStep]:
    """Yields the steps from the kernel module to NVML, and the services beside them."""
    yield _check_module(facts)
    yield _check_library(facts)
    yield _check_nodes(facts)
    yield _check_nvml(facts)
    yield _check_count(facts)
    yield _check_persistence(facts)
    yield _check_fabric_manager(facts)
    yield _check_kernel_log(facts)
    yield _check_switch_log(facts)


def _check_module(facts: HostFacts) -> CheckStep:
    name = "driver.module"
    if facts.driver:
        kind = "open" if facts.is_open_driver else "closed"
        extra = [module for module in ("nvidia_uvm", "nvidia_modeset", "nvidia_peermem") if module in facts.modules]
        return ok(name, f"{facts.driver}, {kind} module" + (f", with {', '.join(extra)}" if extra else ""))
    if not facts.has_gpus:
        return absent(name, _NO_GPUS)
    if "nouveau" in facts.modules:
        fix = "blacklist nouveau, rebuild the initramfs, reboot, then: modprobe nvidia"
        return CheckStep(name, State.WRONG, "nouveau is loaded instead of nvidia", fix)
    fix = "install the driver for this kernel, then: modprobe nvidia; if it fails: dmesg | grep -i nvrm, dkms status"
    return CheckStep(name, State.WRONG, f"the module nvidia is not loaded (kernel {facts.kernel})", fix)


def _check_library(facts: HostFacts) -> CheckStep:
    """The user half of the driver must have the version of the loaded module."""
    name, found = "driver.library", {lib: facts.libraries.get(lib, ()) for lib in ("libcuda.so", "libnvidia-ml.so")}
    if not any(found.values()):
        if not facts.has_gpus:
            return absent(name, _NO_GPUS)
        if not facts.nvml.error:
            return unseen(name, "NVML answers; its library lies outside the usual folders")
        fix = "install the driver's libraries; in a container: start it with GPUs (CDI, --gpus, or the NVIDIA runtime)"
        return CheckStep(name, State.WRONG, "libcuda and libnvidia-ml are missing", fix)
    shown = [f"{lib} {', '.join(versions)}" for lib, versions in found.items() if versions]
    different = [lib for lib, versions in found.items() if versions and facts.driver and facts.driver not in versions]
    if different:
        text = f"the loaded module is {facts.driver}, but {'; '.join(shown)}"
        fix = "reboot the node after an upgrade of the driver; in a container, mount the node's libraries (CDI)"
        return CheckStep(name, State.WRONG, text, fix)
    stale = [lib for lib, versions in found.items() if len(versions) > 1]
    if stale:
        text = f"several versions are installed: {'; '.join(shown)}"
        return CheckStep(name, State.WARNING, text, f"remove all but {facts.driver or 'one'}, then: ldconfig")
    return ok(name, "; ".join(shown))


def _check_nodes(facts: HostFacts) -> CheckStep:
    name = "driver.device_nodes"
    nodes = {node: error for node, error in facts.node_errors.items() if node.startswith("nvidia")}
    if not facts.has_gpus and not nodes:
        return absent(name, _NO_GPUS)
    gpus = [node for node in nodes if re.fullmatch(r"nvidia\d+", node)]
    missing = [f"/dev/{node}" for node in _NEEDED_NODES if node not in nodes]
    missing += [] if gpus else ["/dev/nvidia0"]
    if missing:
        inside = "start the container with GPUs (CDI, --gpus, nvidia.com/gpu); on the node: "
        fix = (inside if facts.container else "") + "nvidia-modprobe -u -c 0, or nvidia-smi as root"
        return CheckStep(name, State.WRONG, f"missing: {', '.join(missing)}", fix)
    denied = [f"/dev/{node}: {error}" for node, error in nodes.items() if error in _DENIED]
    if denied:
        by_group = any(error == "EPERM" for error in nodes.values())
        fix = "the control group denies the device: restart the container" if by_group else "chmod 666 /dev/nvidia*"
        return CheckStep(name, State.WRONG, "device nodes cannot be opened", fix, tuple(denied))
    failed = [f"/dev/{node}: {error}" for node, error in nodes.items() if error not in ("", UNASKED)]
    if failed:
        fix = "the driver refuses the device: dmesg | grep -i nvrm"
        return CheckStep(name, State.WRONG, "device nodes cannot be opened", fix, tuple(failed))
    return ok(name, f"{len(gpus)} GPUs, nvidiactl and nvidia-uvm {'exist' if UNASKED in nodes.values() else 'open'}")


def _check_nvml(facts: HostFacts) -> CheckStep:
    name, nvml = "driver.nvml", facts.nvml
    if not nvml.error:
        cuda = f", CUDA up to {nvml.cuda[0]}.{nvml.cuda[1]}" if nvml.cuda else ""
        return ok(name, f"driver {nvml.driver}{cuda}")
    if not facts.has_gpus:
        return absent(name, _NO_GPUS)
    if nvml.error == UNASKED:
        return unseen(
            name, "not asked: the machine is only mounted here", "chroot /host windlass doctor host, or run it there"
        )
    if nvml.error == "absent":
        fix = "put the folder of libnvidia-ml.so.1 into ldconfig or LD_LIBRARY_PATH"
        return CheckStep(name, State.WRONG, "libnvidia-ml.so.1 cannot be loaded", fix)
    fix = _NVML_FIXES.get(nvml.error, "read: dmesg | grep -i nvrm; reboot the node if its reason is the driver")
    return CheckStep(name, State.WRONG, f"NVML does not start: {nvml.error}", fix)


def _check_count(facts: HostFacts) -> CheckStep:
    """GPUs on the bus, device nodes and NVML must agree; in a container only a part is visible by intent."""
    name, on_bus, listed = "driver.gpu_count", len(facts.nvidia_gpus), len(facts.nvml.gpus)
    if not facts.has_gpus:
        return absent(name, _NO_GPUS)
    if facts.nvml.error:
        return unseen(name, "NVML does not answer")
    lost = [gpu for gpu in facts.nvml.gpus if not gpu.uuid]
    if lost:
        text = f"{len(lost)} of {listed} GPUs do not answer"
        return CheckStep(name, State.WRONG, text, "drain the node, restart it; if it repeats, replace the GPU")
    if on_bus > listed and not facts.container:
        missing = {gpu.address for gpu in facts.nvidia_gpus} - {gpu.bus for gpu in facts.nvml.gpus}
        text = f"{on_bus} GPUs on the bus, NVML lists {listed}"
        fix = "read: dmesg | grep -i nvrm; drain the node and restart it"
        return CheckStep(name, State.WRONG, text, fix, tuple(sorted(missing)))
    names = Counter(gpu.name for gpu in facts.nvml.gpus)
    return ok(name, ", ".join(f"{count} × {kind}" for kind, count in names.items()) or "none")


def _check_persistence(facts: HostFacts) -> CheckStep:
    name = "driver.persistence"
    known = [gpu for gpu in facts.nvml.gpus if gpu.persistence is not None]
    if not known:
        return unseen(name, "NVML does not answer") if facts.has_gpus else absent(name, _NO_GPUS)
    off = [gpu.index for gpu in known if not gpu.persistence]
    if not off:
        return ok(name, "on")
    text = f"off for {len(off)} of {len(known)} GPUs: the driver unloads their state when the last process ends"
    return CheckStep(name, State.WARNING, text, "systemctl enable --now nvidia-persistenced")


def _check_fabric_manager(facts: HostFacts) -> CheckStep:
    """The state of the GPUs' registration decides; before Hopper there is none, and the process is looked for."""
    name = "driver.fabric_manager"
    states = [gpu.fabric for gpu in facts.nvml.gpus if gpu.fabric]
    has_switches = any(device.is_nvswitch for device in facts.pci)
    if not states and not has_switches:
        return absent(name, "no NVSwitch")
    if states and all(state == 3 for state in states):
        return ok(name, f"{len(states)} GPUs are registered with the NVLink fabric")
    is_running = any(process.startswith("nv-fabricmanage") for process in facts.processes)
    fix = "systemctl restart nvidia-fabricmanager; its version must be the driver's: journalctl -u nvidia-fabricmanager"
    source = "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html"
    if states:
        late = sum(state != 3 for state in states)
        text = f"{late} of {len(states)} GPUs are not registered with the NVLink fabric: CUDA cannot start on them"
        return CheckStep(name, State.WRONG, text, fix, source=source)
    if is_running:
        return ok(name, "runs")
    if facts.container:
        return unseen(name, "the node's processes are not visible from a container", "run doctor on the node")
    text = "the machine has NVSwitches and nv-fabricmanager does not run: CUDA fails with error 802"
    return CheckStep(name, State.WRONG, text, fix, source=source)


def _check_kernel_log(facts: HostFacts) -> CheckStep:
    """Returns the step of the Xid messages in the kernel log: each number with its count, its GPUs and the action."""
    name, log = "driver.kernel_log", facts.kernel_log
    if not log.source:
        if not facts.has_gpus:
            return absent(name, "no kernel log is readable, and no NVIDIA GPU is here")
        return unseen(name, "no kernel log is readable", "sudo windlass doctor host, or: dmesg | grep -i xid")
    seen = [(found, line) for line in log.lines if (found := _XID.search(line))]
    if not seen:
        return ok(name, f"no Xid in {log.source}")
    counts = Counter(int(found[2]) for found, _ in seen)
    actions = {xid: xid_action(xid) for xid in counts}
    state = State.WARNING if all(not action[1] for action in actions.values()) else State.WRONG
    text = ", ".join(f"Xid {xid} × {count}" for xid, count in counts.most_common())
    fix = "; ".join(f"{xid}: {action[0]}" for xid, action in actions.items())
    last = {(found[1], found[2]): line for found, line in seen}
    return CheckStep(name, state, text, fix, tuple(list(last.values())[-10:]), XID_SOURCE)


def _check_switch_log(facts: HostFacts) -> CheckStep:
    """The NVSwitch driver writes itself whether an error is fatal: jobs that use NVLink then fail until a reset."""
    name = "driver.switch_log"
    if not any(device.is_nvswitch for device in facts.pci):
        return absent(name, "no NVSwitch on the PCI bus")
    if not facts.kernel_log.source:
        return unseen(name, "no kernel log is readable", "sudo windlass doctor host, or: dmesg | grep -i sxid")
    seen = [found for line in facts.kernel_log.lines if (found := _SXID.search(line))]
    fatal = Counter(int(found[1]) for found in seen if found[2] == "Fatal")
    if fatal:
        lines = tuple(f"SXid {number} × {count}: {sxid_meaning(number)}" for number, count in fatal.items())
        fix = "drain the node, stop the fabric manager, reset all GPUs together, start it again; or restart the node"
        return CheckStep(name, State.WRONG, f"{sum(fatal.values())} fatal errors of NVSwitches", fix, lines, XID_SOURCE)
    return ok(name, f"no fatal SXid, {len(seen)} non-fatal ones")
