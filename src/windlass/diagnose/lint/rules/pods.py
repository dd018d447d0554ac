"""Rules about the specs of pods: names, restart policies, networks, places and shared memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from windlass.diagnose.lint.findings import Hit, RuleSeverity
from windlass.diagnose.lint.pod_templates import REPLICA_KINDS, Container, PodTemplate
from windlass.diagnose.lint.rule import Subject, rule
from windlass.diagnose.lint.values import Value
from windlass.jobs.syntax.command_line import procs_of

_K8S = "https://kubernetes.io/docs"
_LABELS = f"{_K8S}/reference/labels-annotations-taints/"
_TAINTS = f"{_K8S}/concepts/scheduling-eviction/taint-and-toleration/"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NODE_LABELS: Mapping[str, str] = MappingProxyType(
    {
        "beta.kubernetes.io/arch": "kubernetes.io/arch",
        "beta.kubernetes.io/os": "kubernetes.io/os",
        "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
        "node-role.kubernetes.io/master": "node-role.kubernetes.io/control-plane",
    }
)
"""Removed or deprecated label of nodes → the label that replaced it."""
_LOADERS = re.compile(r"\s--(?:num|data|dataloader|loader)[-_](?:num[-_])?workers[= ]([1-9][0-9]{0,3})(?=\s|$)")
_MASTER = "node-role.kubernetes.io/master"
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@rule(
    RuleSeverity.ERROR,
    Subject.POD,
    fix="Write Always, OnFailure or Never, with capitals as shown.",
    source=f"{_K8S}/concepts/workloads/pods/pod-lifecycle/#restart-policy",
)
def restart_policy_unknown(pod: PodTemplate) -> Iterator[Hit]:
    """The API server compares the policy letter by letter, and refuses the pod for another word."""
    policy = pod.spec["restartPolicy"]
    if _is_known_policy(policy) or pod.kind in REPLICA_KINDS or "$" in policy.text:  # these operators overwrite it
        return
    yield policy.hit_word(f"restartPolicy: {policy.text[:40]!r} is no policy", _RESTART_POLICIES)


def _is_known_policy(policy: Value) -> bool:
    return not policy or policy.text in _RESTART_POLICIES


@rule(
    RuleSeverity.ERROR,
    Subject.POD,
    fix="Write a container with a name and an image, or remove the object.",
    source=f"{_K8S}/concepts/workloads/pods/#pod-templates",
)
def containers_empty(pod: PodTemplate) -> Iterator[Hit]:
    """A pod has one container at least: the API server refuses it without one."""
    containers = pod.spec["containers"]
    is_empty = containers.node is not None and not containers.items and not containers.is_map
    if is_empty and not pod.is_patch and pod.kind not in REPLICA_KINDS:  # invalid-job reports those
        yield containers.hit("the list of containers is empty")


@rule(
    RuleSeverity.ERROR,
    Subject.POD,
    fix="Write restartPolicy: Never or OnFailure.",
    source=f"{_K8S}/concepts/workloads/controllers/job/#pod-template",
    kinds="Job CronJob",
)
def job_restart_policy(pod: PodTemplate) -> Iterator[Hit]:
    """Pods of a Job end: the API server refuses the policy Always, which is also the default."""
    is_of_volcano = pod.root["apiVersion"].text.startswith("batch.volcano.sh")  # which takes every policy
    if is_of_volcano or any(not each.value["image"] for each in pod.containers):  # a patch lacks what it leaves
        return
    policy = pod.spec["restartPolicy"]
    if _is_known_policy(policy) and policy.text not in ("Never", "OnFailure"):
        place = policy or pod.template["spec"]
        yield place.hit(f"restartPolicy is {policy.text[:40] or 'not written, which means Always'}")


@rule(
    RuleSeverity.ERROR,
    Subject.POD,
    fix="Remove restartPolicy, or use a Job for work that ends.",
    source=f"{_K8S}/concepts/workloads/controllers/deployment/#pod-template",
    kinds="Deployment StatefulSet DaemonSet ReplicaSet",
)
def service_restart_policy(pod: PodTemplate) -> Iterator[Hit]:
    """Pods of this kind run for ever: the API server refuses any policy but Always."""
    policy = pod.spec["restartPolicy"]
    if policy and policy.text != "Always" and _is_known_policy(policy):
        yield policy.hit_value(f"restartPolicy {policy.text[:40]} in a {pod.kind}", "Always")


@rule(
    RuleSeverity.ERROR,
    Subject.POD,
    fix="Write the same labels in both.",
    source=f"{_K8S}/concepts/workloads/controllers/deployment/#selector",
    kinds="Deployment StatefulSet DaemonSet ReplicaSet",
)
def selector_differs(pod: PodTemplate) -> Iterator[Hit]:
    """The selector must match the template's labels; the API server refuses the object."""
    if pod.is_patch:
        return
    selector = pod.root.at("spec", "selector", "matchLabels")
    if not pod.root.at("spec", "selector"):
        yield pod.root["spec"].hit("spec.selector is missing")
    for name, value in selector.fields.items():
        if pod.labels.get(name) != value.text:
            written = f"is {pod.labels[name][:40]!r}" if name in pod.labels else "has no such label"
            yield value.hit_value(f"{name[:60]} is {value.text[:40]!r} here; in the template it {written}")


@rule(
    RuleSeverity.ERROR,
    Subject.POD,
    fix="Write small letters, digits and hyphens, at most 63.",
    source=f"{_K8S}/concepts/overview/working-with-objects/names/#dns-label-names",
)
def container_name_malformed(pod: PodTemplate) -> Iterator[Hit]:
    """The name of a container is a DNS label, and each once in a pod; the API server refuses the pod."""
    seen = set[str]()
    for container in pod.all_containers if pod.kind != "TrainJob" else ():
        name = container.value["name"]
        if not name and pod.kind in REPLICA_KINDS:  # invalid-job reports it
            continue
        if not name or (not _NAME.fullmatch(name.text) and "$" not in name.text):
            yield name.hit_value(f"{name.text[:70]!r} is no name of a container")
        elif name.text in seen:
            fix = "Give each container of the pod a name of its own."
            yield name.hit_value(f"two containers are called {name.text[:60]!r}", fix=fix)
        seen.add(name.text)


@rule(
    RuleSeverity.WARNING,
    Subject.POD,
    fix="Write dnsPolicy: ClusterFirstWithHostNet.",
    source=f"{_K8S}/concepts/services-networking/dns-pod-service/#pod-s-dns-policy",
)
def host_network_dns(pod: PodTemplate) -> Iterator[Hit]:
    """On the host's network ClusterFirst means the node's DNS, so the ranks cannot resolve each other's names."""
    host = pod.spec["hostNetwork"]
    if pod.is_gang and host.text == "true" and pod.spec["dnsPolicy"].text in ("", "ClusterFirst"):
        yield host.hit("hostNetwork with dnsPolicy ClusterFirst")


@rule(RuleSeverity.WARNING, Subject.POD, fix="Write the label that replaced it.", source=_LABELS)
def node_label_obsolete(pod: PodTemplate) -> Iterator[Hit]:
    """Kubernetes replaced this label; nodes that lack it never match, so the pod waits for ever."""
    for key in _selecting_keys(pod):
        new = _NODE_LABELS.get(key.text)
        if new:
            yield key.hit_value(f"{key.text} was replaced by {new}", new, fix=f"Write {new}.")
    for name, value in pod.spec["nodeSelector"].fields.items():
        if name in _NODE_LABELS:
            yield value.hit_key(f"{name} was replaced by {_NODE_LABELS[name]}", _NODE_LABELS[name])


def _selecting_keys(pod: PodTemplate) -> Iterator[Value]:
    """Labels of nodes that the affinity and the tolerations of a pod name."""
    affinity = pod.spec.at("affinity", "nodeAffinity")
    terms = affinity.at("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms").items
    yield from (each["key"] for term in terms for each in term["matchExpressions"].items)
    tolerated = [each["key"] for each in pod.spec["tolerations"].items]
    if _NODE_LABELS[_MASTER] not in [key.text for key in tolerated]:
        yield from (key for key in tolerated if key.text == _MASTER)


@rule(RuleSeverity.ERROR, Subject.POD, fix="Write Equal with a key and a value, or Exists.", source=_TAINTS)
def toleration_malformed(pod: PodTemplate) -> Iterator[Hit]:
    """The API server refuses a toleration whose parts contradict each other."""
    for each in pod.spec["tolerations"].items:
        operator, value = each["operator"].text, each["value"]
        if operator == "Exists" and value.text:
            yield value.hit("operator Exists takes no value", fix="Remove the value, or write Equal.")
        elif operator not in ("", "Equal", "Exists", "Lt", "Gt"):
            yield each["operator"].hit_word(f"operator: {operator[:40]!r} is none of a toleration", ("Exists", "Equal"))
        elif each["effect"].text not in ("", *_EFFECTS):
            yield each["effect"].hit_word(f"effect: {each['effect'].text[:40]!r} is none of a taint", _EFFECTS)
        elif operator != "Exists" and not each["key"].text:
            yield each.hit("a toleration without a key has operator Equal", fix="Write operator: Exists.")
        elif each["tolerationSeconds"] and each["effect"].text != "NoExecute":
            seconds, effect = each["tolerationSeconds"], each["effect"].text or "not written"
            fix = "Write effect: NoExecute, or remove tolerationSeconds."
            yield seconds.hit(f"tolerationSeconds: {seconds.text[:20]} while effect is {effect}", fix=fix)


@rule(
    RuleSeverity.WARNING,
    Subject.CONTAINER,
    fix="Mount an emptyDir with medium: Memory at /dev/shm.",
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html#shared-memory",
)
def shared_memory_missing(container: Container) -> Iterator[Hit]:
    """Without a volume /dev/shm has 64 MiB; NCCL and the data loaders of several ranks need more."""
    mounts = [each["mountPath"].text.rstrip("/") for each in container.value["volumeMounts"].items]
    if "/dev/shm" in mounts or container.pod.spec["hostIPC"].text == "true" or not container.gpus:  # noqa: S108
        return
    workers = _LOADERS.search(" ".join(container.words))
    if container.gpus > 1 and (procs_of(container.words) or 1) > 1:
        yield container.value.hit(f"{container.gpus} ranks share a /dev/shm of 64 MiB")
    elif workers:
        yield container.value.hit(f"{workers[1]} workers of the data loader share a /dev/shm of 64 MiB")


@rule(
    RuleSeverity.INFO,
    Subject.CONTAINER,
    fix="Request at least one CPU for each GPU.",
    source="https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
)
def cpus_below_gpus(container: Container) -> Iterator[Hit]:
    """Each rank has a process that starts kernels; with less than one CPU each, the GPUs wait for it."""
    limit = container.limits.get("cpu")
    if limit and container.gpus > 1 and _cpus(limit.text) < container.gpus:
        yield limit.hit_value(f"{limit.text} CPUs for {container.gpus} GPUs")


def _cpus(text: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(m?)", text)
    return float(found[1]) / (1000 if found[2] else 1) if found else float("inf")


@rule(
    RuleSeverity.WARNING,
    Subject.POD,
    fix="Remove the mount; the device plugin and the container toolkit mount devices and drivers.",
    source="https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/index.html",
)
def device_host_path(pod: PodTemplate) -> Iterator[Hit]:
    """Devices and drivers of the node bypass the device plugin: two pods get one GPU, and libraries do not match."""
    paths = re.compile(r"/dev/(nvidia|infiniband)|/usr/(local|lib)/nvidia|/var/lib/nvidia")
    on_host = pod.spec["hostNetwork"].text == "true"  # clouds give RDMA to pods on the node's network in this way
    for volume in pod.spec["volumes"].items if pod.kind != "DaemonSet" else ():
        path = volume.at("hostPath", "path")
        if paths.match(path.text) and not (on_host and path.text.startswith("/dev/infiniband")):
            yield path.hit_value(f"the volume {volume['name'].text[:60]!r} is {path.text[:60]} of the node")


@rule(
    RuleSeverity.WARNING,
    Subject.POD,
    fix="Remove hostIPC and mount an emptyDir with medium: Memory at /dev/shm.",
    source=f"{_K8S}/concepts/security/pod-security-standards/",
)
def host_ipc_shared(pod: PodTemplate) -> Iterator[Hit]:
    """All pods of the node then share one /dev/shm: another job's ranks can fill it or read from it."""
    shared = pod.spec["hostIPC"]
    if shared.text == "true" and any(each.gpus for each in pod.containers):
        yield shared.hit("hostIPC in a pod with GPUs")
