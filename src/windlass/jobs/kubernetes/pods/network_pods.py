"""Pods of a job with a network profile: devices, huge pages, networks, capabilities and variables.

What a template says itself stays as it is. The profile applies to the pods that run ranks: not to the launcher of an
MPIJob, and not to steps before the last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from windlass.core.model.job import Role
from windlass.core.model.resources import GPU, add
from windlass.hardware.errors import PlanError
from windlass.hardware.network.addition import Addition, addition_of
from windlass.hardware.network.automatic import choose_for_nodes, usable_nodes
from windlass.hardware.network.profiles import AUTO, HUGE_PAGES, MULTUS
from windlass.hardware.network.request import NetworkRequest, format_network, parse_network
from windlass.jobs.kubernetes.labels import NETWORK
from windlass.jobs.kubernetes.manifest_reader import Fault, Manifest, ManifestError, ManifestField
from windlass.jobs.kubernetes.parsed_job import LAUNCHER, ParsedJob, Replicas
from windlass.jobs.kubernetes.pods.pod_assembly import env_vars
from windlass.jobs.kubernetes.pods.pod_requests import core_name, is_gpu
from windlass.jobs.kubernetes.pods.quantities import amount

NO_NODES = "NodesUnknown"
"""Reason of a fault that lasts until the nodes of the cluster are known."""
_AS_ASKED = "as the job asks"
UNDECIDED = "network: "
"""Begins a warning about a profile that only the operator can decide."""
_SMALL_MEMORY = "1Gi"
"""Request beside huge pages, which the API server refuses without one of CPU or memory."""


@dataclass(frozen=True, slots=True)
class _Profile:
    """A request whose profile is decided, and the reason."""

    request: NetworkRequest
    reason: str


def with_network(parsed: ParsedJob) -> ParsedJob:
    """Returns the job with its network profile in the templates and requests of its pods. Raises ManifestError."""
    texts = _requested(parsed)
    if not any(texts.values()):
        return parsed
    roles, replicas, warnings = {role.name: role for role in parsed.job.roles}, [], list(parsed.warnings)
    last = max((each.step for each in parsed.replicas), default=0)
    for each in parsed.replicas:
        role, text = roles.get(each.role), texts.get(each.role, "")
        if role is None or not text or each.type == LAUNCHER or each.step < last:
            replicas.append(each)
            continue
        try:
            made, roles[each.role] = _with_profile(parsed, each, role, text)
        except PlanError as error:
            if parsed.settings.nodes is not None:
                _refuse(parsed, str(error))
            warnings.append(f"{UNDECIDED}{error}; without a cluster the pods are shown without it")
            made = each
        replicas.append(made)
    job = replace(parsed.job, roles=tuple(roles[role.name] for role in parsed.job.roles))
    return replace(parsed, job=job, replicas=tuple(replicas), warnings=tuple(warnings))


def chosen_networks(parsed: ParsedJob) -> str:
    """Returns the profiles that `auto` has become, with the reasons; "" where the job names its profile."""
    notes = [ManifestField(each.template)["metadata"]["annotations"][NETWORK].text() for each in parsed.replicas]
    return "; ".join(dict.fromkeys(note for note in notes if note and not note.endswith(_AS_ASKED)))


def _requested(parsed: ParsedJob) -> dict[str, str]:
    """Returns the text of the request by role: a field of our kind, an annotation of others. Raises ManifestError."""
    own = {role.name: role.network for role in parsed.job.roles}
    written = ManifestField(parsed.manifest)["metadata"]["annotations"][NETWORK]
    if any(own.values()) or not written.text():
        return own
    try:
        return dict.fromkeys(own, format_network(parse_network(written.text())))
    except ValueError as error:
        written.refuse(str(error))


def _refuse(parsed: ParsedJob, message: str, reason: str = "") -> NoReturn:
    is_own = any(role.network for role in parsed.job.roles)
    path = ("spec", "network") if is_own else ("metadata", "annotations", NETWORK)
    raise ManifestError(Fault(path, message, reason))


def _with_profile(parsed: ParsedJob, replicas: Replicas, role: Role, text: str) -> tuple[Replicas, Role]:
    """Returns the replicas and their role with the profile. Raises PlanError if a parameter is missing."""
    # 1. The nodes that a replica may use, and the profile.
    gpus = role.resources.get(GPU, 0)
    nodes = parsed.settings.nodes() if parsed.settings.nodes else ()
    usable = usable_nodes(nodes, role.node_selector, gpus, parsed.job.avoid)
    request = parse_network(text)
    if request.profile == AUTO and parsed.settings.nodes and not nodes:
        _refuse(parsed, "waits until the nodes of the cluster are known", NO_NODES)
    if request.profile == AUTO and not parsed.settings.nodes:
        raise PlanError("auto is decided in the cluster, by what its nodes show")
    profile = _decide(request, parsed, usable)
    # 2. The parts of a pod.
    try:
        addition = addition_of(profile.request, gpus, role.node_selector, usable)
    except PlanError as error:
        if parsed.settings.nodes and not nodes:
            _refuse(parsed, str(error), NO_NODES)
        raise
    # 3. The template and the requests with them.
    template, more = _with_addition(replicas.template, addition, profile, role.env)
    return replace(replicas, template=template), replace(role, resources=add(role.resources, more))


def _decide(request: NetworkRequest, parsed: ParsedJob, usable: Any) -> _Profile:
    defaults = parsed.settings.networks
    if request.profile != AUTO:
        return _Profile(request.over(defaults.get(request.profile)), _AS_ASKED)
    choice = choose_for_nodes(usable, defaults, request)
    found = request.over(defaults.get(choice.profile), choice.profile)
    if choice.resource and not found.resource:
        found = replace(found, resource=(choice.resource,))
    return _Profile(found, choice.reason)


def _with_addition(
    template: Mapping[str, Any], addition: Addition, profile: _Profile, own_env: Mapping[str, str]
) -> tuple[Manifest, dict[str, int]]:
    """Returns the template with an addition, and the requests that the pod has more, in the core's names."""
    spec, about = template["spec"], template.get("metadata") or {}
    at = _place_of_ranks(spec["containers"])
    container, more = _with_resources(spec["containers"][at], addition.limits)
    container = _with_capabilities(container, addition.capabilities)
    named = {each.get("name") for each in container.get("env") or []}
    env = {name: value for name, value in addition.env.items() if name not in named and name not in own_env}
    if env:
        container = {**container, "env": [*(container.get("env") or []), *env_vars(env)]}
    containers = [*spec["containers"][:at], container, *spec["containers"][at + 1 :]]
    networks = {MULTUS: ", ".join(addition.networks)} if addition.networks else {}
    note = {NETWORK: f"{profile.request.profile}: {profile.reason}"}
    annotations = {**networks, **(about.get("annotations") or {}), **note}
    return {
        **template,
        "metadata": {**about, "annotations": annotations},
        "spec": {**spec, "containers": containers},
    }, more


def _place_of_ranks(containers: list[Manifest]) -> int:
    """Returns the number of the container with GPUs, or of the first one."""
    for number, container in enumerate(containers):
        limits = ManifestField(container)["resources"]["limits"].mapping()
        if any(is_gpu(name) for name in limits):
            return number
    return 0


def _with_resources(container: Manifest, limits: Mapping[str, str]) -> tuple[Manifest, dict[str, int]]:
    """Returns the container with the devices that it does not name itself, and the amounts that are new."""
    written = ManifestField(container)["resources"]
    own = {**written["requests"].mapping(), **written["limits"].mapping()}
    new = {name: value for name, value in limits.items() if name not in own}
    if not new:
        return container, {}
    memory = {"memory": _SMALL_MEMORY} if HUGE_PAGES in new and not {"cpu", "memory"} & own.keys() else {}
    requests = {**written["requests"].mapping(), **memory}
    resources = {**written.mapping(), "limits": {**written["limits"].mapping(), **new}}
    if requests:
        resources["requests"] = requests
    more = {core_name(name): amount(core_name(name), value) for name, value in {**new, **memory}.items()}
    return {**container, "resources": resources}, more


def _with_capabilities(container: Manifest, names: tuple[str, ...]) -> Manifest:
    security = ManifestField(container)["securityContext"]
    own = security["capabilities"]["add"].text_list()
    new = [name for name in names if name not in own]
    if not new:
        return container
    capabilities = {**security["capabilities"].mapping(), "add": [*own, *new]}
    return {**container, "securityContext": {**security.mapping(), "capabilities": capabilities}}
