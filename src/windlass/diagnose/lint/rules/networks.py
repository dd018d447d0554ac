"""Rules about secondary networks, their devices, and sidecars of service meshes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from windlass.diagnose.lint.documents import Document, Documents
from windlass.diagnose.lint.findings import Hit, RuleSeverity
from windlass.diagnose.lint.pod_templates import Container, PodTemplate
from windlass.diagnose.lint.rule import Subject, rule
from windlass.diagnose.lint.values import Value
from windlass.hardware.network.profiles import EFA_RESOURCE, HUGE_PAGES, MULTUS, PROFILES

_RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
_MULTUS = "https://github.com/k8snetworkplumbingwg/multus-cni/blob/master/docs/how-to-use.md"
_SRIOV = "https://github.com/k8snetworkplumbingwg/sriov-network-operator"
_ISTIO = "https://istio.io/latest/docs/setup/additional-setup/sidecar-injection/"
_INJECTION = {"sidecar.istio.io/inject": ("true",), "linkerd.io/inject": ("enabled", "ingress")}
"""Label or annotation of pods → its values that add a sidecar."""
_RDMA = re.compile(r"(?i)rdma|roce|(^|[_-])ib($|[_-])")


def _names(annotation: Value) -> Iterator[tuple[str, str]]:
    """Namespace and name of the networks of a pod, "" for its own namespace."""
    text = annotation.text.strip()
    try:
        listed = json.loads(text) if text.startswith("[") else None
    except (ValueError, RecursionError):
        return
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict):
            yield str(each.get("namespace", "")), str(each.get("name", ""))
    for part in text.split(",") if listed is None else ():
        namespace, slash, name = part.strip().partition("@")[0].rpartition("/")
        yield (namespace if slash else ""), name


@rule(
    RuleSeverity.WARNING,
    Subject.INPUT,
    fix="Write the resource under limits, one for each network of the pod that has it.",
    source=_MULTUS,
)
def network_without_device(documents: Documents) -> Iterator[tuple[Document, Hit]]:
    """The network attaches a device that the pod does not request: its container is not created."""
    networks = documents.of("NetworkAttachmentDefinition")
    for document in documents.documents if networks else ():
        for pod in document.pods:
            annotation = pod.template.at("metadata", "annotations")[MULTUS]
            requested = {name for each in pod.containers for name in (*each.limits, *each.requests)}
            for namespace, name in _names(annotation):
                found = [each for each in documents.named("NetworkAttachmentDefinition", name) if each in networks]
                here = [each for each in found if each.namespace in (namespace or document.namespace, "")]
                resource = here[0].root.at("metadata", "annotations")[_RESOURCE].text if here else ""
                if resource and resource not in requested:
                    yield document, annotation.hit(f"the network {name[:60]!r} needs {resource[:60]}")


@rule(
    RuleSeverity.WARNING,
    Subject.DOCUMENT,
    fix="Write isRdma: true.",
    source=_SRIOV,
    kinds="SriovNetworkNodePolicy",
)
def sriov_policy_without_rdma(document: Document) -> Iterator[Hit]:
    """Without isRdma the virtual functions have no RDMA device, so that NCCL uses sockets."""
    name, kind = document.spec["resourceName"], document.spec["deviceType"].text
    if _RDMA.search(name.text) and document.spec["isRdma"].text != "true" and kind in ("", "netdevice"):
        yield name.hit(f"the resource {name.text[:60]!r} has no RDMA")


@rule(
    RuleSeverity.WARNING,
    Subject.POD,
    fix=f"Name the networks in the annotation {MULTUS}.",
    source=PROFILES["roce-sriov"].source,
)
def sriov_device_without_network(pod: PodTemplate) -> Iterator[Hit]:
    """A virtual function becomes an interface of the pod only through a network that Multus attaches."""
    networks = pod.template.at("metadata", "annotations")[MULTUS]
    for container in pod.containers if not networks.text and not pod.is_patch else ():
        for name, value in container.limits.items():
            if "sriov" in name and name.startswith(("nvidia.com/", "openshift.io/")) and pod.kind != "TrainJob":
                yield value.hit(f"{name} without the annotation {MULTUS}")


@rule(
    RuleSeverity.INFO,
    Subject.CONTAINER,
    fix=f"Request {HUGE_PAGES}: {PROFILES['efa'].hugepages}, or set FI_EFA_USE_HUGE_PAGE to 0.",
    source=PROFILES["efa"].source,
)
def efa_without_huge_pages(container: Container) -> Iterator[Hit]:
    """The library asks for huge pages of 2 MiB; a process that has none of them may fail at a fork."""
    setting = container.env.get("FI_EFA_USE_HUGE_PAGE")
    uses_none = setting is not None and setting["value"].text == "0"
    if EFA_RESOURCE in container.limits and HUGE_PAGES not in container.limits and not uses_none:
        yield container.limits[EFA_RESOURCE].hit(f"{EFA_RESOURCE} without {HUGE_PAGES}")


def _sidecar(pod: PodTemplate) -> Value | None:
    """The label or annotation that adds a sidecar to the pods of a template."""
    for field in ("labels", "annotations"):
        values = pod.template.at("metadata", field)
        for name, wanted in _INJECTION.items():
            if values[name].text in wanted:
                return values[name]
    return None


@rule(
    RuleSeverity.WARNING,
    Subject.POD,
    fix='Write the label sidecar.istio.io/inject: "false" in the pod template.',
    source=_ISTIO,
)
def mesh_sidecar_injected(pod: PodTemplate) -> Iterator[Hit]:
    """The sidecar redirects the ranks' connections, and keeps running after them: the job never ends."""
    found = _sidecar(pod) if pod.is_gang or pod.kind in ("Job", "CronJob") else None
    if found:
        yield found.hit(f"{found.name} in a job")


@rule(
    RuleSeverity.WARNING,
    Subject.INPUT,
    fix='Write the label sidecar.istio.io/inject: "false" in the pod template.',
    source=_ISTIO,
)
def mesh_of_namespace(documents: Documents) -> Iterator[tuple[Document, Hit]]:
    """The namespace adds a sidecar to all pods: it redirects the ranks' connections, and the job never ends."""
    spaces = [each for each in documents.of("Namespace") if _is_meshed(each)]
    for document in documents.documents if spaces else ():
        for pod in document.pods if document.namespace in [each.name for each in spaces] else ():
            metadata = pod.template["metadata"]
            refused = [metadata[field]["sidecar.istio.io/inject"].text for field in ("labels", "annotations")]
            if pod.is_gang and "false" not in refused:
                yield document, pod.template.hit(f"the namespace {document.namespace[:60]!r} injects a sidecar")


def _is_meshed(namespace: Document) -> bool:
    return namespace.root.at("metadata", "labels")["istio-injection"].text == "enabled"
