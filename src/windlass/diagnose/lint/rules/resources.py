"""Rules about requests and limits: GPUs, MIG devices, memory, huge pages, network devices, and machine types."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from windlass.diagnose.lint.findings import Hit, RuleSeverity
from windlass.diagnose.lint.pod_templates import GPU_RESOURCES, Container, PodTemplate
from windlass.diagnose.lint.rule import Subject, rule
from windlass.diagnose.lint.values import Value
from windlass.hardware.facts.instances import Instance
from windlass.hardware.network.automatic import INSTANCE_LABELS, selected_instance
from windlass.hardware.network.profiles import EFA_RESOURCE, is_rdma_resource
from windlass.jobs.kubernetes.pods.quantities import amount

_GPUS = "https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/"
_RESOURCES = "https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/"
_MIG = re.compile(r"nvidia\.com/mig-([1-7])(c\.[1-7])?g\.([0-9]+)gb([-.](me|gfx|me\.all))*(\.shared)?")
_MISSPELT: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            ("nvidia.com/gpus", "nvidia/gpu", "nvidia.com/GPU", "nvidia.com.gpu", "gpu", "gpus"), "nvidia.com/gpu"
        ),
        **dict.fromkeys(("amd.com/gpus", "amd/gpu"), "amd.com/gpu"),
        **dict.fromkeys(
            ("amazonaws.com/efa", "aws.amazon.com/efa", "k8s.amazonaws.com/efa", "vpc.amazonaws.com/efas"),
            "vpc.amazonaws.com/efa",
        ),
    }
)
_DEVICES: Mapping[str, str] = MappingProxyType({"nvidia.com/gpu": "gpus", EFA_RESOURCE: "adapters"})
"""Resource → the field of `Instance` with their number."""
_BYTES = ("memory", "ephemeral-storage")
_MIN_BYTES = 2**20


def _amount(value: Value) -> int | None:
    try:
        return amount(value.name, value.plain)
    except ValueError:
        return None


def _all(container: Container) -> Iterator[Value]:
    yield from container.limits.values()
    yield from container.requests.values()


@rule(RuleSeverity.ERROR, Subject.CONTAINER, fix="Write the same number in both, or the limit alone.", source=_GPUS)
def gpu_request_differs(container: Container) -> Iterator[Hit]:
    """Devices are not overcommitted: the API server refuses a request that differs from its limit."""
    for name, request in container.requests.items():
        limit = container.limits.get(name)
        if ("/" in name or name.startswith("hugepages-")) and limit and _amount(limit) != _amount(request):
            yield request.hit_value(f"{name}: the request {request.text} differs from the limit {limit.text}")


@rule(RuleSeverity.ERROR, Subject.CONTAINER, fix="Write the number under limits.", source=_GPUS)
def gpu_request_without_limit(container: Container) -> Iterator[Hit]:
    """A device needs a limit: the API server refuses a request alone."""
    for name, request in container.requests.items():
        if ("/" in name or name.startswith("hugepages-")) and name not in container.limits:
            yield request.hit(f"{name} is requested without a limit")


@rule(
    RuleSeverity.ERROR, Subject.CONTAINER, fix="Request a whole GPU, a MIG device or a shared resource.", source=_GPUS
)
def gpu_fraction(container: Container) -> Iterator[Hit]:
    """Devices are whole: the API server refuses a part of one."""
    for value in _all(container):
        if value.name in GPU_RESOURCES and not value.text.isdecimal():
            yield value.hit_value(f"{value.name}: {value.text[:20]!r} is no whole number")


@rule(RuleSeverity.ERROR, Subject.CONTAINER, fix="Write the name that the device plugin registers.", source=_GPUS)
def gpu_resource_misspelt(container: Container) -> Iterator[Hit]:
    """No node has a resource of this name, so the pod waits for ever."""
    for value in _all(container):
        if value.name in _MISSPELT:
            right = _MISSPELT[value.name]
            yield value.hit_key(f"no node has {value.name}; write {right}", right, fix=f"Write {right}.")


@rule(
    RuleSeverity.ERROR, Subject.CONTAINER, fix="Write nvidia.com/gpu, which the device plugin registers.", source=_GPUS
)
def gpu_resource_obsolete(container: Container) -> Iterator[Hit]:
    """Kubernetes 1.11 removed the alpha GPU resource; device plugins replaced it, so no node has it."""
    for value in _all(container):
        if value.name == "alpha.kubernetes.io/nvidia-gpu":
            yield value.hit_key("alpha.kubernetes.io/nvidia-gpu was replaced by nvidia.com/gpu", "nvidia.com/gpu")


@rule(
    RuleSeverity.ERROR,
    Subject.CONTAINER,
    fix="Write a profile as nvidia-smi mig -lgip lists it, for example nvidia.com/mig-3g.40gb.",
    source="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/",
)
def mig_resource_malformed(container: Container) -> Iterator[Hit]:
    """A MIG resource is named slices g, then memory gb; no node has one of another form."""
    for value in _all(container):
        if value.name.startswith("nvidia.com/mig") and not _MIG.fullmatch(value.name):
            yield value.hit(f"{value.name[:60]} is no MIG resource")


@rule(
    RuleSeverity.WARNING,
    Subject.CONTAINER,
    fix="Request one kind of device for each container.",
    source="https://docs.nvidia.com/datacenter/cloud-native/kubernetes/latest/index.html",
)
def mig_and_whole_gpu(container: Container) -> Iterator[Hit]:
    """CUDA uses one MIG device or whole GPUs in a process, so the other devices of the container stay idle."""
    kinds = [
        value for value in container.limits.values() if value.name == "nvidia.com/gpu" or _MIG.fullmatch(value.name)
    ]
    if len(kinds) > 1:
        yield kinds[1].hit(f"{kinds[0].name} and {kinds[1].name} in one container")


@rule(
    RuleSeverity.ERROR,
    Subject.POD,
    fix="Write a profile of the GPU, as nvidia-smi mig -lgip lists it, or select another GPU.",
    source="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/#supported-mig-profiles",
)
def mig_profile_of_other_gpu(pod: PodTemplate) -> Iterator[Hit]:
    """The selected GPU has no such profile, so that no node has the resource and the pod waits for ever."""
    product = pod.spec["nodeSelector"]["nvidia.com/gpu.product"]
    if not product:
        return
    from windlass.core.model.mig import geometry_of  # noqa: PLC0415 - imports numpy

    geometry = geometry_of(product.text)
    for value in (each for one in pod.containers for each in one.limits.values()) if geometry else ():
        found = re.fullmatch(r"nvidia\.com/(mig-[1-7]g\.[0-9]+gb)(\.shared)?", value.name)
        if found and geometry and geometry.profile(found[1]) is None:
            yield value.hit(f"{geometry.model} has no profile {found[1].removeprefix('mig-')}")


@rule(
    RuleSeverity.WARNING,
    Subject.CONTAINER,
    fix="Request whole GPUs for ranks that use NCCL.",
    source="https://github.com/NVIDIA/nccl/issues/1716",
)
def mig_in_gang(container: Container) -> Iterator[Hit]:
    """MIG devices have no NVLink and no direct access to each other; NCCL refuses two of one GPU, but for new ones."""
    devices = [value for value in container.limits.values() if _MIG.fullmatch(value.name)]
    pods = container.pod.gang_pods or 1
    if devices and container.pod.is_gang and (pods > 1 or sum(each.number or 0 for each in devices) > 1):
        yield devices[0].hit(f"{devices[0].name} in a job of {pods} pods")


@rule(
    RuleSeverity.ERROR,
    Subject.CONTAINER,
    fix="Request one; the memory and time shares of several are not added up.",
    source="https://github.com/NVIDIA/k8s-device-plugin#shared-access-to-gpus",
)
def shared_gpu_more_than_one(container: Container) -> Iterator[Hit]:
    """Several shares of a GPU give no more of it than one; failRequestsGreaterThanOne refuses the pod."""
    for value in container.limits.values():
        if value.name.endswith(".shared") and (value.number or 0) > 1:
            yield value.hit_value(f"{value.name}: {value.text} shares")


@rule(RuleSeverity.ERROR, Subject.CONTAINER, fix="Raise the limit or lower the request.", source=_RESOURCES)
def request_above_limit(container: Container) -> Iterator[Hit]:
    """The API server refuses a request above its limit."""
    for name in ("cpu", *_BYTES):
        request, limit = container.requests.get(name), container.limits.get(name)
        if request and limit and (_amount(request) or 0) > (_amount(limit) or 2**63):
            yield request.hit_value(f"{name}: the request {request.text} is above the limit {limit.text}")


@rule(
    RuleSeverity.ERROR, Subject.CONTAINER, fix="Write a suffix of Kubernetes: Ki, Mi, Gi or k, M, G.", source=_RESOURCES
)
def amount_malformed(container: Container) -> Iterator[Hit]:
    """The API server refuses an amount whose suffix it does not know."""
    for value in _all(container):
        if value.is_scalar and value.name not in GPU_RESOURCES and _amount(value) is None:
            yield value.hit_value(f"{value.name}: {value.text[:40]!r} is no amount", _with_suffix(value.text))


def _with_suffix(text: str) -> str | None:
    """The amount with the suffix that was meant: GB is G."""
    found = re.fullmatch(r"([0-9]+)\s*([kKMGT])(i?)[bB]", text)
    return f"{found[1]}{found[2]}{found[3]}" if found else None


@rule(RuleSeverity.ERROR, Subject.CONTAINER, fix="Write the unit: 512Mi, 16Gi.", source=_RESOURCES)
def memory_in_bytes(container: Container) -> Iterator[Hit]:
    """Memory without a suffix is in bytes, and m means a thousandth of one: the container is killed as it starts."""
    for value in _all(container):
        size = _amount(value) if value.name in _BYTES else None
        if size is not None and 0 < size < _MIN_BYTES:
            yield value.hit_value(f"{value.name}: {value.text} is {size} byte{'s' * (size != 1)}")


@rule(
    RuleSeverity.ERROR,
    Subject.CONTAINER,
    fix="Request cpu or memory too.",
    source="https://kubernetes.io/docs/tasks/manage-hugepages/scheduling-hugepages/",
)
def huge_pages_alone(container: Container) -> Iterator[Hit]:
    """The API server refuses huge pages without a request of cpu or memory."""
    names = {*container.limits, *container.requests}
    pages = [value for value in _all(container) if value.name.startswith("hugepages-")]
    if pages and not names & {"cpu", "memory"}:
        yield pages[0].hit(f"{pages[0].name} without cpu and memory")


@rule(
    RuleSeverity.WARNING,
    Subject.CONTAINER,
    fix="Add IPC_LOCK to securityContext.capabilities.add.",
    source="https://docs.nvidia.com/networking/display/kubernetes2440/quick-start/host-device-rdma.html",
)
def rdma_without_ipc_lock(container: Container) -> Iterator[Hit]:
    """RDMA pins memory; without IPC_LOCK the limit of locked memory makes ibv_reg_mr fail."""
    devices = [value for value in container.limits.values() if is_rdma_resource(value.name)]
    security = container.value["securityContext"]
    allowed = {"IPC_LOCK", "CAP_IPC_LOCK", "SYS_ADMIN", "ALL"} & set(security.at("capabilities", "add").texts)
    if devices and not allowed and security["privileged"].text != "true":
        yield devices[0].hit(f"{devices[0].name} without the capability IPC_LOCK")


@rule(
    RuleSeverity.WARNING,
    Subject.CONTAINER,
    fix="Remove privileged: true; device plugins and capabilities give what is needed.",
    source="https://github.com/NVIDIA/k8s-device-plugin#running-gpu-jobs",
)
def privileged_with_gpu(container: Container) -> Iterator[Hit]:
    """A privileged container sees every GPU of the node, those of other pods included."""
    privileged = container.value.at("securityContext", "privileged")
    if container.gpus and privileged.text == "true" and container.pod.kind != "DaemonSet":
        yield privileged.hit("a privileged container requests GPUs")


@rule(
    RuleSeverity.ERROR,
    Subject.POD,
    fix="Lower the number, or select a machine type that has so many.",
    source="https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/",
)
def devices_exceed_instance(pod: PodTemplate) -> Iterator[Hit]:
    """No machine of the selected type has so many devices, so the pod waits for ever."""
    instance = _instance(pod.spec["nodeSelector"])
    for resource, field in _DEVICES.items() if instance else ():
        wanted = [each.limits[resource] for each in pod.containers if resource in each.limits]
        has_figures = resource == "nvidia.com/gpu" or (instance is not None and instance.adapter.startswith("EFA"))
        total = sum(int(each.text) for each in wanted if each.text.isdecimal())
        if instance and has_figures and total > getattr(instance, field):
            yield wanted[-1].hit_value(f"{total} {resource}; {instance.name} has {getattr(instance, field)}")


@rule(
    RuleSeverity.INFO,
    Subject.CONTAINER,
    fix="Request all adapters of the machine with all of its GPUs.",
    source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html",
)
def efa_below_instance(container: Container) -> Iterator[Hit]:
    """The container has all GPUs of the machine and a part of its network, so that collectives are slower."""
    instance, adapters = _instance(container.pod.spec["nodeSelector"]), container.limits.get(EFA_RESOURCE)
    count = adapters.number if adapters else None
    if instance and adapters and count and container.gpus == instance.gpus and count < instance.adapters:
        yield adapters.hit_value(f"{count} of the {instance.adapters} adapters of {instance.name}")


def _instance(selector: Value) -> Instance | None:
    """The machine type that a pod selects, None if it selects none that is known."""
    return selected_instance({label: selector[label].text for label in INSTANCE_LABELS})
