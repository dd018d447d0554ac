"""The check list of a machine, in the order of the stack: bus, driver, GPUs, containers, framework, system, network."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from windlass.diagnose.host.checks.bus_checks import check_bus
from windlass.diagnose.host.checks.container_checks import check_containers
from windlass.diagnose.host.checks.driver_checks import check_driver
from windlass.diagnose.host.checks.framework_checks import check_frameworks
from windlass.diagnose.host.checks.gpu_checks import check_gpus
from windlass.diagnose.host.checks.network_checks import check_network
from windlass.diagnose.host.checks.system_checks import check_system
from windlass.diagnose.host.facts import HostFacts
from windlass.diagnose.steps import CheckStep

_AREAS: tuple[Callable[[HostFacts], Iterable[CheckStep]], ...] = (
    check_bus,
    check_driver,
    check_gpus,
    check_containers,
    check_frameworks,
    check_network,
    check_system,
)


def check_host(facts: HostFacts) -> tuple[CheckStep, ...]:
    """Returns all steps of a machine."""
    return tuple(step for area in _AREAS for step in area(facts))
