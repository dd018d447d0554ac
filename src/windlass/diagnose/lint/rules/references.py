"""Rules about references between the documents of one input: services, claims, ConfigMaps, policies and quotas."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from types import MappingProxyType

from windlass.diagnose.lint.documents import Document, Documents, is_together
from windlass.diagnose.lint.findings import Hit, RuleSeverity
from windlass.diagnose.lint.pod_templates import PodTemplate
from windlass.diagnose.lint.rule import Subject, rule
from windlass.diagnose.lint.values import Value
from windlass.jobs.kubernetes.pods.quantities import amount

_K8S = "https://kubernetes.io/docs"
_SERVICES = f"{_K8S}/concepts/services-networking/service"
_DNS = f"{_K8S}/concepts/services-networking/dns-pod-service/#pods"
_CLAIMS = f"{_K8S}/concepts/storage/persistent-volumes/#access-modes"
_QUOTA = f"{_K8S}/concepts/policy/resource-quotas/"
_ONE_NODE, _ONE_POD, _READ_ONLY = "ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany"

_MAX_COMPARED = 100
"""Number of names that a misspelt one is compared with."""

Pods = Iterator[tuple[Document, PodTemplate]]
Faults = Iterator[tuple[Document, Hit]]


def _pods(documents: Documents) -> Pods:
    for document in documents.documents:
        for pod in document.pods:
            yield document, pod


def _subdomain(pod: PodTemplate) -> Value:
    """The name of the service that gives the pods their DNS names."""
    if pod.kind == "StatefulSet":
        return pod.root.at("spec", "serviceName")
    return pod.spec["subdomain"] if pod.kind in ("Pod", "Job", "Deployment") else Value(None, pod.root.place)


def _is_selected(service: Document, pod: PodTemplate) -> bool:
    selector = service.spec["selector"].fields
    return bool(selector) and all(pod.labels.get(name) == value.text for name, value in selector.items())


@rule(RuleSeverity.ERROR, Subject.INPUT, fix="Write the name of the service as the subdomain.", source=_DNS)
def subdomain_differs(documents: Documents) -> Faults:
    """A pod has a DNS name only below the service that its subdomain names, so no rank finds another."""
    for document, pod in _pods(documents):
        subdomain = _subdomain(pod)
        selecting = documents.services_of(document, pod) if subdomain else []
        headless = [each for each in selecting if each.spec["clusterIP"].text == "None"]
        if headless and not documents.named("Service", subdomain.text):
            message = f"{subdomain.text[:60]!r} is no service; the pods are selected by {headless[0].name[:60]!r}"
            yield document, subdomain.hit_value(message, headless[0].name)


@rule(
    RuleSeverity.INFO,
    Subject.INPUT,
    fix="Add a service of this name with clusterIP: None, unless the cluster has it already.",
    source=_DNS,
)
def subdomain_without_service(documents: Documents) -> Faults:
    """Pods of an indexed Job find each other by names below a headless service; the input has none for them."""
    for document, pod in _pods(documents):
        subdomain = _subdomain(pod)
        is_gang = pod.kind == "Job" and (pod.gang_pods or 1) > 1 and bool(subdomain) and "$" not in subdomain.text
        if is_gang and not documents.named("Service", subdomain.text) and not documents.services_of(document, pod):
            yield document, subdomain.hit_value(f"there is no service {subdomain.text[:60]!r} in the input")


@rule(RuleSeverity.ERROR, Subject.INPUT, fix="Write clusterIP: None.", source=f"{_SERVICES}/#headless-services")
def subdomain_service_not_headless(documents: Documents) -> Faults:
    """Only a headless service gives each pod a DNS name; another one has a single address for all."""
    seen = set[int]()
    for document, pod in _pods(documents):
        service = documents.nearest(document, "Service", _subdomain(pod).text)
        if service and service.spec["clusterIP"].text != "None" and id(service) not in seen:
            seen.add(id(service))
            place = service.spec["clusterIP"] or service.root.at("metadata", "name")
            yield service, place.hit(f"the service {service.name[:60]!r} of a subdomain has an address of its own")


@rule(RuleSeverity.WARNING, Subject.INPUT, fix="Write publishNotReadyAddresses: true.", source=_DNS)
def rendezvous_waits_for_readiness(documents: Documents) -> Faults:
    """A pod has no DNS name before it is ready, and ranks that are ready only after the rendezvous never meet."""
    for document, pod in _pods(documents):
        service = documents.nearest(document, "Service", _subdomain(pod).text)
        probes = [each.value["readinessProbe"] for each in pod.containers if each.value["readinessProbe"]]
        if pod.kind == "Job" and service and probes and service.spec["publishNotReadyAddresses"].text != "true":
            yield service, service.spec.hit(f"the pods of {document.name[:60]!r} have a readiness probe")


@rule(RuleSeverity.WARNING, Subject.INPUT, fix="Write the labels of the pods.", source=f"{_SERVICES}/")
def service_selects_nothing(documents: Documents) -> Faults:
    """The service has no endpoints, so every connection to it fails."""
    by_file = defaultdict[str, list[tuple[Document, PodTemplate]]](list)
    for document, pod in _pods(documents):
        by_file[document.text.source].append((document, pod))
    for service in documents.of("Service"):
        selector = service.spec["selector"].fields
        in_file = by_file[service.text.source] if len(by_file[service.text.source]) == 1 else []
        near = [pod for document, pod in in_file if is_together(document, service) and not pod.is_gang]
        if near and near[0].labels and selector and not _is_selected(service, near[0]):
            wrong = [value for name, value in selector.items() if name in near[0].labels]
            different = [value for value in wrong if near[0].labels[value.name] != value.text]
            for value in different[:1] if len(wrong) == len(selector) else ():
                label = near[0].labels[value.name]
                yield service, value.hit_value(f"{value.name[:60]} is {label[:60]!r} in the pods of this file", label)


@rule(
    RuleSeverity.ERROR,
    Subject.INPUT,
    fix="Write the name of a port of the pods, or its number.",
    source=f"{_SERVICES}/",
)
def service_port_unknown(documents: Documents) -> Faults:
    """A named port must be one of the container's; the service has no endpoints for it otherwise."""
    names = defaultdict[int, set[str]](set)
    for document, pod in _pods(documents):
        written = {each["name"].text for one in pod.all_containers for each in one.value["ports"].items}
        for service in documents.services_of(document, pod):
            names[id(service)] |= written
    for service in documents.of("Service"):
        for port in service.spec["ports"].items if id(service) in names else ():
            target = port["targetPort"]
            if (
                target
                and target.number is None
                and not target.text.isdecimal()
                and target.text not in names[id(service)]
            ):
                yield service, target.hit_value(f"no container has a port called {target.text[:40]!r}")


def _claims(documents: Documents) -> Iterator[tuple[Document, Document, list[PodTemplate]]]:
    """Each object whose pods use a claim, the claim, and the pod templates that use it."""
    for document in documents.documents:
        users: dict[str, list[PodTemplate]] = {}
        for pod in document.pods if document.kind != "StatefulSet" else ():
            for volume in pod.spec["volumes"].items:
                users.setdefault(volume.at("persistentVolumeClaim", "claimName").text, []).append(pod)
        for name, pods in users.items():
            claim = documents.nearest(document, "PersistentVolumeClaim", name)
            if claim:
                yield document, claim, pods


def _use(pod: PodTemplate, claim: Document) -> Value:
    """The volume of a pod template that is a claim."""
    volumes = pod.spec["volumes"].items
    return next(each for each in volumes if each.at("persistentVolumeClaim", "claimName").text == claim.name)


def _claimed_by_several(documents: Documents, mode: str) -> Faults:
    for document, claim, pods in _claims(documents):
        count = sum(pod.replicas for pod in pods)
        if claim.spec["accessModes"].texts == [mode] and count > 1:
            name = _use(pods[-1], claim).at("persistentVolumeClaim", "claimName")
            yield document, name.hit(f"{claim.name[:60]} is {mode}, and {count} pods mount it")


@rule(
    RuleSeverity.WARNING,
    Subject.INPUT,
    fix="Write accessModes: [ReadWriteMany] with a storage class that has it.",
    source=_CLAIMS,
)
def claim_of_one_node(documents: Documents) -> Faults:
    """ReadWriteOnce attaches the volume to one node: pods on other nodes stay at ContainerCreating."""
    return _claimed_by_several(documents, _ONE_NODE)


@rule(RuleSeverity.ERROR, Subject.INPUT, fix="Write accessModes: [ReadWriteMany].", source=_CLAIMS)
def claim_of_one_pod(documents: Documents) -> Faults:
    """ReadWriteOncePod admits one pod: the others are never scheduled."""
    return _claimed_by_several(documents, _ONE_POD)


@rule(RuleSeverity.WARNING, Subject.INPUT, fix="Write readOnly: true, or claim ReadWriteMany.", source=_CLAIMS)
def claim_read_only(documents: Documents) -> Faults:
    """Volumes of ReadOnlyMany are mounted read-only, so that writing a checkpoint fails."""
    for document, claim, pods in _claims(documents):
        for pod in pods if claim.spec["accessModes"].texts == [_READ_ONLY] else ():
            volume = _use(pod, claim)
            mounts = [each for one in pod.all_containers for each in one.value["volumeMounts"].items]
            for mount in mounts if volume.at("persistentVolumeClaim", "readOnly").text != "true" else ():
                if mount["name"].text == volume["name"].text and mount["readOnly"].text != "true":
                    yield document, mount.hit(f"{claim.name[:60]} is {_READ_ONLY}, and is mounted for writing")


_REFERENCES: Mapping[str, tuple[tuple[str, ...], ...]] = MappingProxyType(
    {
        "ConfigMap": (("configMap", "name"), ("configMapRef", "name"), ("configMapKeyRef", "name")),
        "Secret": (("secret", "secretName"), ("secretRef", "name"), ("secretKeyRef", "name")),
        "PersistentVolumeClaim": (("persistentVolumeClaim", "claimName"),),
    }
)
"""Kind → fields of volumes and variables that name an object of it."""


def _references(pod: PodTemplate) -> Iterator[tuple[str, Value, Value]]:
    """Kind, reference and its name, for each object that a pod needs."""
    containers = [each.value for each in pod.all_containers]
    variables = [each["valueFrom"] for one in containers for each in one["env"].items]
    sources = [each for one in containers for each in one["envFrom"].items]
    projected = [each for one in pod.spec["volumes"].items for each in one.at("projected", "sources").items]
    for around in (*pod.spec["volumes"].items, *projected, *variables, *sources):
        for kind, fields in _REFERENCES.items():
            for field, name in fields:
                if around[field][name] and around[field]["optional"].text != "true":
                    yield kind, around[field], around[field][name]


@rule(
    RuleSeverity.WARNING,
    Subject.INPUT,
    fix="Write the name of the object.",
    source=f"{_K8S}/concepts/configuration/configmap/",
)
def reference_misspelt(documents: Documents) -> Faults:
    """An object of this name is not in the input, but one of almost the same name; the pod waits for it for ever."""
    by_place = {kind: documents.by_place(kind) for kind in _REFERENCES}
    for document, pod in _pods(documents):
        for kind, _, name in _references(pod):
            near = by_place[kind].get((document.text.source, document.namespace), [])
            if documents.named(kind, name.text) or len(near) > _MAX_COMPARED:
                continue
            for close in get_close_matches(name.text, [each.name for each in near], 1, 0.85):
                message = f"there is no {kind} {name.text[:60]!r}; {close[:60]!r} is near"
                yield document, name.hit_value(message, close)


@rule(
    RuleSeverity.ERROR,
    Subject.INPUT,
    fix="Put both into one namespace.",
    source=f"{_K8S}/concepts/overview/working-with-objects/namespaces/",
)
def reference_in_other_namespace(documents: Documents) -> Faults:
    """Pods see the ConfigMaps, Secrets and claims of their own namespace only; the pod waits for ever."""
    for document, pod in _pods(documents):
        for kind, _, name in _references(pod):
            named = [each for each in documents.named(kind, name.text) if each.text.source == document.text.source]
            spaces = {each.namespace for each in named}
            if document.namespace and spaces and "" not in spaces and document.namespace not in spaces:
                there = min(spaces)
                yield (
                    document,
                    name.hit(f"{kind} {name.text[:60]!r} is in {there[:60]!r}, the pod in {document.namespace[:60]!r}"),
                )


@rule(
    RuleSeverity.ERROR,
    Subject.INPUT,
    fix="Write a key of the object, or add it there.",
    source=f"{_K8S}/tasks/configure-pod-container/configure-pod-configmap/",
)
def reference_key_unknown(documents: Documents) -> Faults:
    """The object has no such key: the container stays at CreateContainerConfigError or the volume is not mounted."""
    for document, pod in _pods(documents):
        for kind, reference, name in _references(pod):
            found = documents.nearest(document, kind, name.text) if kind != "PersistentVolumeClaim" else None
            keys = [reference["key"], *(each["key"] for each in reference["items"].items)]
            known = (
                [*found.root["data"].fields, *found.root["stringData"].fields, *found.root["binaryData"].fields]
                if found
                else []
            )
            for key in keys if found else ():
                if key and key.text not in known:
                    yield document, key.hit_value(f"{kind} {name.text[:60]!r} has no key {key.text[:60]!r}")


@rule(
    RuleSeverity.WARNING,
    Subject.INPUT,
    fix="Add a rule with from: [{podSelector: {}}].",
    source=f"{_K8S}/concepts/services-networking/network-policies/",
)
def network_policy_blocks_ranks(documents: Documents) -> Faults:
    """The policy lets no connection in, so that the ranks cannot connect to each other."""
    policies = documents.by_place("NetworkPolicy")
    seen = set[int]()
    for document, pod in _pods(documents):
        there = policies.get((document.text.source, document.namespace), []) if pod.is_gang else []
        near = [each for each in there if _is_limited(each, pod)]
        if near and not any(each.spec["ingress"].items for each in near) and id(near[0]) not in seen:
            seen.add(id(near[0]))
            yield near[0], near[0].spec["podSelector"].hit(f"the pods of {document.name[:60]!r} accept no connection")


def _is_limited(policy: Document, pod: PodTemplate) -> bool:
    """Tells whether a policy limits the connections to a pod; one with expressions counts if it admits some."""
    types, selector = policy.spec["policyTypes"], policy.spec["podSelector"]
    if (types and "Ingress" not in types.texts) or (selector["matchExpressions"] and not policy.spec["ingress"].items):
        return False
    return all(pod.labels.get(name) == each.text for name, each in selector["matchLabels"].fields.items())


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Write requests.nvidia.com/gpu.",
    source=f"{_QUOTA}#resource-quota-for-extended-resources",
    kinds="ResourceQuota",
)
def quota_of_gpu_limits(document: Document) -> Iterator[Hit]:
    """Extended resources have quota of requests only; the API server refuses another name."""
    for name, value in document.spec["hard"].fields.items():
        bare = name.removeprefix("limits.")
        if "/" in name and not name.startswith("requests.") and "count/" not in name and "storageclass" not in name:
            yield value.hit_key(f"{name[:60]} is no name of a quota", f"requests.{bare}")


@rule(RuleSeverity.WARNING, Subject.INPUT, fix="Raise the quota, or start fewer pods.", source=_QUOTA)
def quota_below_job(documents: Documents) -> Faults:
    """The job needs more than the quota of its namespace: some of its pods are never created."""
    quotas = documents.by_place("ResourceQuota")
    for document in documents.documents if quotas else ():
        for quota in quotas.get((document.text.source, document.namespace), ()):
            for name, value in quota.spec["hard"].fields.items():
                resource = name.removeprefix("requests.")
                is_device = "/" in resource and value.text.isdecimal()
                needed = sum(_needed(pod, resource) for pod in document.pods) if is_device else 0
                if is_device and needed > int(value.text):
                    message = f"{needed} {resource[:60]} are needed; the quota {quota.name[:60]!r} has {value.text}"
                    yield document, document.root.at("metadata", "name").hit(message)


def _needed(pod: PodTemplate, resource: str) -> int:
    """Amount of a resource that all pods of a template request."""
    if pod.kind == "DaemonSet":
        return 0
    total = 0
    for container in pod.containers:
        value = container.limits.get(resource) or container.requests.get(resource)
        total += int(value.text) if value is not None and value.text.isdecimal() else 0
    return total * pod.replicas


@rule(
    RuleSeverity.ERROR,
    Subject.INPUT,
    fix="Lower the amount, or raise the maximum.",
    source=f"{_K8S}/concepts/policy/limit-range/",
)
def limit_range_exceeded(documents: Documents) -> Faults:
    """The API server refuses a container above the maximum of its namespace."""
    ranges = documents.by_place("LimitRange")
    for document, pod in _pods(documents) if ranges else ():
        for limits in ranges.get((document.text.source, document.namespace), ()):
            maxima = [each["max"] for each in limits.spec["limits"].items if each["type"].text == "Container"]
            for value, most in _above(pod, maxima):
                message = f"{value.name[:60]}: {value.text} is above {most.text} of {limits.name[:60]!r}"
                yield document, value.hit_value(message)


def _above(pod: PodTemplate, maxima: list[Value]) -> Iterator[tuple[Value, Value]]:
    """The limits of a pod's containers that are above a maximum."""
    for container in pod.all_containers:
        for name, value in container.limits.items():
            for most in (each[name] for each in maxima):
                if most and _size(name, value) > _size(name, most) > 0:
                    yield value, most


def _size(name: str, value: Value) -> int:
    try:
        return amount(name, value.plain)
    except ValueError:
        return 0
