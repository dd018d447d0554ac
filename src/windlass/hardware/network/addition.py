"""Parts of one pod or one local rank for a network request: resources, networks, capabilities and variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from windlass.hardware.errors import PlanError
from windlass.hardware.facts.instances import Instance
from windlass.hardware.network.automatic import NodeFabric, selected_instance
from windlass.hardware.network.profiles import HUGE_PAGES, PROFILES, NetworkProfile, Variable
from windlass.hardware.network.request import NetworkRequest, version_of


@dataclass(frozen=True, slots=True)
class Addition:
    """Parts of a pod. `limits`: amounts by resource, as Kubernetes writes them."""

    limits: Mapping[str, str] = field(default_factory=dict)
    networks: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


def addition_of(
    request: NetworkRequest, gpus: int, selector: Mapping[str, str], nodes: Sequence[NodeFabric] = ()
) -> Addition:
    """Returns the addition for a pod with `gpus` GPUs on one of `nodes`. The profile of the request is not `auto`.

    Raises PlanError if a parameter is missing; the text names it.
    """
    profile = PROFILES[request.profile]
    if profile.needs_networks and not request.networks:
        raise PlanError(
            f"{profile.name} needs the networks that Multus attaches: write network: {profile.name},networks=NAME, "
            "or let the operator set them with --network"
        )
    offer = _offer(request, profile, gpus, selected_instance(selector), nodes)
    limits = {**_devices(profile, request, offer), **_huge_pages(profile, request, offer)}
    return Addition(limits, request.networks, profile.capabilities, environment_of(request))


def environment_of(request: NetworkRequest) -> dict[str, str]:
    """Returns the variables of a request; the profile is not `auto`."""
    found = PROFILES[request.profile].variables
    return {each.name: _expand(each, request) for each in found if _is_wanted(each, request)}


def _is_wanted(variable: Variable, request: NetworkRequest) -> bool:
    if not variable.parameter:
        return True
    value = getattr(request, variable.parameter)
    if variable.parameter == "hugepages":
        return bool(value == "0")
    return bool(value) and (variable.before is None or version_of(value) < variable.before)


def _expand(variable: Variable, request: NetworkRequest) -> str:
    return variable.value.format(interface=",".join(request.interface), hca=",".join(request.hca))


def _resources(profile: NetworkProfile, request: NetworkRequest) -> tuple[str, ...]:
    return request.resource or ((profile.resource,) if profile.resource else ())


def _devices(profile: NetworkProfile, request: NetworkRequest, offer: tuple[int, int]) -> dict[str, str]:
    names = _resources(profile, request)
    if request.count:
        return dict.fromkeys(names, request.count)
    if profile.fabric == "efa":
        return dict.fromkeys(names, str(offer[0]))
    is_one_for_all = profile.is_per_network and len(names) == 1
    return dict.fromkeys(names, str(len(request.networks)) if is_one_for_all else "1")


def _offer(
    request: NetworkRequest,
    profile: NetworkProfile,
    gpus: int,
    instance: Instance | None,
    nodes: Sequence[NodeFabric],
) -> tuple[int, int]:
    """Returns the EFA adapters of a pod, which are its share of the node's by GPUs, and the node's; (1, 1) if fixed."""
    if profile.fabric != "efa" or request.count:
        return 1, 1
    resource = _resources(profile, request)[0]
    offers = [(node.devices[resource], node.gpus) for node in nodes if node.devices.get(resource)]
    if not offers and instance is not None and instance.fabric == "efa":
        offers = [(instance.adapters, instance.gpus)]
    if not offers:
        raise PlanError(
            "efa: the number of adapters follows from the machine type; select it "
            "(selector: {node.kubernetes.io/instance-type: p5.48xlarge}), or write network: efa,count=32"
        )
    return min((_share(adapters, gpus, total), adapters) for adapters, total in offers)


def _share(adapters: int, gpus: int, total: int) -> int:
    """Returns the adapters of a pod with so many of a node's GPUs, at least one; all of them without GPUs."""
    return max(1, adapters * min(gpus, total) // total) if gpus and total else adapters


def _huge_pages(profile: NetworkProfile, request: NetworkRequest, offer: tuple[int, int]) -> dict[str, str]:
    """Returns the huge pages as requested, or the pod's share of those for a whole node, in pages of 2 MiB."""
    if request.hugepages or not profile.hugepages_mib:
        return {HUGE_PAGES: request.hugepages} if request.hugepages not in ("", "0") else {}
    share = -(-profile.hugepages_mib * offer[0] // (2 * offer[1])) * 2
    return {HUGE_PAGES: f"{share}Mi"}
