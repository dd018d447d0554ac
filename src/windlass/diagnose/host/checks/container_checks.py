"""Checks of the path from the driver into containers: toolkit, runtimes, CDI specifications."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.diagnose.host.facts import HostFacts
from windlass.diagnose.steps import CheckStep, State, absent, ok

_SOURCE = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/cdi-support.html"


def check_containers(facts: HostFacts) -> Iterator[CheckStep]:
    """Yields the steps of the container toolkit and of CDI."""
    yield _check_toolkit(facts)
    yield _check_cdi(facts)


def _check_toolkit(facts: HostFacts) -> CheckStep:
    name, toolkit = "container.toolkit", facts.toolkit
    if facts.container and not toolkit.programs:
        return absent(name, f"this is a container ({facts.container}); the toolkit belongs to its node")
    if not toolkit.programs:
        if not facts.has_gpus:
            return absent(name, "not installed, and no NVIDIA GPU is here")
        text = "not installed: containers on this machine get no GPU"
        return CheckStep(name, State.WARNING, text, "install nvidia-container-toolkit", source=_SOURCE)
    if not toolkit.runtimes and not toolkit.cdi:
        text = f"installed ({', '.join(toolkit.programs)}), but no container runtime is configured for it"
        fix = "nvidia-ctk runtime configure --runtime=containerd (or docker, crio), then restart the runtime"
        return CheckStep(name, State.WARNING, text, fix, source=_SOURCE)
    return ok(name, f"{', '.join(toolkit.programs)}; configured in {', '.join(toolkit.runtimes) or 'CDI only'}")


def _check_cdi(facts: HostFacts) -> CheckStep:
    name, specifications = "container.cdi", facts.toolkit.cdi
    if not specifications:
        return absent(name, "no CDI specification for nvidia.com")
    stale = [
        f"{path} mounts libraries of {version}"
        for path, version in specifications.items()
        if facts.driver and version and version != facts.driver
    ]
    if stale:
        fix = "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
        text = f"written for another driver than the loaded {facts.driver}: containers fail to start"
        return CheckStep(name, State.WRONG, text, fix, tuple(stale), _SOURCE)
    return ok(name, ", ".join(specifications))
