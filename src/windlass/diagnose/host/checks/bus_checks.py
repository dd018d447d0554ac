"""Checks of the PCI bus: GPUs, their links, and what stands between two of them (ACS, IOMMU)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from windlass.diagnose.host.facts import AMD, HostFacts, PciDevice
from windlass.diagnose.steps import CheckStep, State, absent, ok, unseen

_REDIRECTS = 0x1D
"""Source validation, request and completion redirect, upstream forwarding: each sends peer traffic to the root."""
_ACS_SOURCE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html"


def check_bus(facts: HostFacts) -> Iterator[CheckStep]:
    """Yields the steps of the PCI bus."""
    yield _check_gpus(facts)
    gpus = facts.nvidia_gpus
    if not gpus:
        return
    yield _check_drivers(gpus)
    yield _check_links(gpus)
    yield _check_acs(facts, gpus)
    yield _check_iommu(facts, gpus)


def _check_gpus(facts: HostFacts) -> CheckStep:
    name, gpus = "pci.gpus", facts.nvidia_gpus
    if gpus:
        kinds = Counter(f"10de:{gpu.device:04x}" for gpu in gpus)
        return ok(name, "NVIDIA GPUs: " + ", ".join(f"{count} × {kind}" for kind, count in kinds.items()))
    if others := [device for device in facts.pci if device.is_gpu and device.vendor == AMD]:
        loaded = "loaded" if "amdgpu" in facts.modules else "not loaded"
        return absent(name, f"{len(others)} AMD GPUs, driver amdgpu {loaded}; the checks below are for NVIDIA's")
    if facts.nvml.gpus:
        return unseen(name, f"the PCI bus is hidden, NVML lists {len(facts.nvml.gpus)} GPUs")
    return absent(name, "no NVIDIA GPU on the PCI bus" if facts.pci else "no PCI bus is visible")


def _check_drivers(gpus: tuple[PciDevice, ...]) -> CheckStep:
    name = "pci.bound_driver"
    lost = [f"{gpu.address} has {gpu.driver or 'no driver'}" for gpu in gpus if gpu.driver != "nvidia"]
    if not lost:
        return ok(name, "every GPU is bound to the driver nvidia")
    held = {gpu.driver for gpu in gpus} & {"nouveau", "vfio-pci"}
    fix = "load the driver: modprobe nvidia, then read: dmesg | grep -i nvrm"
    if "nouveau" in held:
        fix = "blacklist nouveau (/etc/modprobe.d), rebuild the initramfs, reboot"
    elif "vfio-pci" in held:
        fix = "the GPU is reserved for virtual machines; unbind vfio-pci to use it on this host"
    return CheckStep(name, State.WRONG, f"{len(lost)} of {len(gpus)} GPUs are not bound to nvidia", fix, tuple(lost))


def _check_links(gpus: tuple[PciDevice, ...]) -> CheckStep:
    """The width is judged; an idle GPU lowers its speed by itself."""
    name = "pci.link"
    narrow = [
        f"{gpu.address} x{gpu.width} of x{gpu.max_width}"
        for gpu in gpus
        if gpu.width.isdecimal() and gpu.max_width.isdecimal() and 0 < int(gpu.width) < int(gpu.max_width)
    ]
    if narrow:
        text = f"{len(narrow)} of {len(gpus)} GPUs have fewer PCIe lanes than they could"
        return CheckStep(name, State.WARNING, text, "reseat the card or riser, compare with other nodes", tuple(narrow))
    if not gpus[0].width:
        return unseen(name, "the links of the GPUs are not visible")
    speeds = sorted({f"x{gpu.width} {gpu.max_speed}" for gpu in gpus})
    return ok(name, f"all lanes are in use: {', '.join(speeds)}")


def _check_acs(facts: HostFacts, gpus: tuple[PciDevice, ...]) -> CheckStep:
    name = "pci.acs"
    if facts.is_virtual:
        return absent(name, "in a virtual machine the hypervisor's host decides on ACS")
    bridges = {address for gpu in gpus for address in gpu.bridges}
    above = [device for device in facts.pci if device.address in bridges]
    if any(not device.is_readable for device in above):
        return unseen(name, "only root may read the bridges' configuration", "sudo windlass doctor host")
    on = [f"{device.address} ACSCtl {device.acs:#06x}" for device in above if (device.acs or 0) & _REDIRECTS]
    if not on:
        return ok(name, f"off on the {len(above)} bridges above the GPUs")
    text = f"on at {len(on)} bridges above the GPUs: direct traffic between GPUs and network cards takes a detour"
    fix = "turn ACS off in the firmware, or at each start: setpci -s ADDRESS ECAP_ACS+6.w=0000"
    return CheckStep(name, State.WARNING, text, fix, tuple(on), _ACS_SOURCE)


def _check_iommu(facts: HostFacts, gpus: tuple[PciDevice, ...]) -> CheckStep:
    name = "pci.iommu"
    kinds = {gpu.iommu for gpu in gpus} - {""}
    if not kinds:
        return ok(name, "off for the GPUs")
    if kinds == {"identity"} or facts.is_virtual:
        return ok(name, "passes through")
    text = f"translates the addresses of the GPUs ({', '.join(sorted(kinds))}): direct transfers can be slow or fail"
    fix = "add iommu=pt to the kernel's command line, reboot"
    return CheckStep(name, State.WARNING, text, fix, source=_ACS_SOURCE)
