"""Check of B3: the steps of the doctor for three machines, and the kernel logs that must agree with them."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.diagnose.steps import State
from windlass.labs.evidence.findings import Finding
from windlass.labs.evidence.lab import Lab

AREAS = ("pci", "driver", "container", "framework")
"""Layers of the stack, from below."""
FAULTY = (State.WRONG, State.WARNING)
GPUS = "NVIDIA GPUs: 2 × 10de:2330"
REBUILD = "windlass lab start b3 --fresh restores the machines"


def check(lab: Lab) -> Iterator[Finding]:
    """Judges each machine from below: the devices, each layer, and what stands in its kernel log."""
    for name in ("node-a", "node-b", "node-c"):
        yield from _check_machine(lab, name)


def _check_machine(lab: Lab, name: str) -> Iterator[Finding]:
    folder = f"machines/{name}"
    steps = lab.machine(folder)
    # 1. it is still the machine: two GPUs on the bus, a framework that uses them
    yield Finding(steps["pci.gpus"].text == GPUS, f"{name}: two GPUs are on the PCI bus", REBUILD)
    yield Finding(
        "CUDA" in steps["framework.torch"].text,
        f"{name}: its jobs have a torch for CUDA",
        f"python on.py {name} pip install torch==2.7.0+cu128",
    )
    # 2. no layer is broken; the lowest fault is told
    for area in AREAS:
        faults = [step for step in steps.values() if step.area == area and step.state in FAULTY]
        first = faults[0] if faults else None
        yield Finding(
            first is None,
            f"{name}: nothing is wrong with {area}",
            f"{first.name}: {first.text}. The doctor's fix: {first.fix}" if first else "",
        )
    # 3. /proc says what the kernel has done
    version = steps["driver.module"].text.partition(",")[0]
    log = lab.file(f"{folder}/var/log/kern.log") or ""
    loads = [line for line in log.splitlines() if "NVRM: loading" in line]
    yield Finding(
        bool(loads) and f" {version} " in loads[-1],
        f"{name}: its kernel log shows the start of the loaded driver",
        "the kernel alone writes /proc, and a text written there by hand loads no driver: start the machine again, "
        f"python on.py {name} reboot",
    )
    # 4. containers get GPUs
    container = steps["container.toolkit"]
    yield Finding(container.state is State.OK, f"{name}: containers can get GPUs", container.fix or container.text)
    # 5. it lasts
    blocked = "blacklist nouveau" in (lab.file(f"{folder}/boot/initramfs") or "")
    has_nouveau = lab.file(f"{folder}/boot/has-nouveau") is not None
    yield Finding(
        blocked or not has_nouveau,
        f"{name}: the next start loads nvidia too",
        "nouveau is in the initramfs and comes first again: blacklist it in /etc/modprobe.d, and rebuild the initramfs",
    )
