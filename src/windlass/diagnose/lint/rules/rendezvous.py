"""Rules about how the ranks of a job find each other: numbers of pods and ranks, addresses, ports and interfaces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from windlass.core.model.job import Launcher
from windlass.diagnose.lint.documents import Document, Documents
from windlass.diagnose.lint.findings import Hit, RuleSeverity
from windlass.diagnose.lint.pod_templates import LOCAL_HOSTS, Container, PodTemplate
from windlass.diagnose.lint.rendezvous_options import (
    INTERFACE_VARIABLES,
    LAUNCHER,
    LOOPBACK,
    has_address,
    has_every_value,
    torchrun_options,
)
from windlass.diagnose.lint.rule import Subject, rule
from windlass.diagnose.lint.values import Value
from windlass.jobs.syntax.command_line import is_standalone, launcher_of, node_count_of, procs_of

_TORCHRUN = "https://docs.pytorch.org/docs/stable/elastic/run.html"
_NCCL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
_JOB = "https://kubernetes.io/docs/concepts/workloads/controllers/job/"
_ADDRESS_OPTION = re.compile(r"--(?:rdzv[-_]endpoint|master[-_]addr)[= ](\S+)")
_REMOTE_ADDRESS = re.compile(r"--(?:rdzv[-_]endpoint|master[-_]addr)[= ][\"']?(?!localhost|127\.)")
_LOCAL_INTERFACE = re.compile(rf"\b({'|'.join(INTERFACE_VARIABLES)})=[\"']?(=?lo)[\"']?(?=[\s;&|]|$)")
_OWN_RENDEZVOUS = frozenset({"Job", "JobSet", "StatefulSet", "LeaderWorkerSet"})
"""Kinds whose operators set no variables of the rendezvous."""
_RANKS = ("RANK", "NODE_RANK", "GROUP_RANK", "PET_NODE_RANK")


@rule(
    RuleSeverity.ERROR,
    Subject.CONTAINER,
    fix="Write the number of pods, or leave --nnodes to the operator.",
    source=_TORCHRUN,
)
def torchrun_nodes_differ(container: Container) -> Iterator[Hit]:
    """The rendezvous waits for exactly so many nodes: with fewer pods it times out, with more some are left out."""
    nodes, pods = node_count_of(container.words), container.pod.gang_pods
    if nodes and pods and nodes != pods and (container.pod.is_gang or nodes > 1):  # pods of a Job may train alone
        yield container.command.hit(f"--nnodes {nodes} in a job of {pods} pods")


@rule(
    RuleSeverity.ERROR,
    Subject.CONTAINER,
    fix="Write the name of the first pod, or leave it to the operator.",
    source=_TORCHRUN,
)
def torchrun_address_of_itself(container: Container) -> Iterator[Hit]:
    """Each pod waits for the others at its own address, until the rendezvous times out."""
    found = re.search(r"--(?:rdzv[-_]endpoint|master[-_]addr)[= ](localhost|127\.0\.0\.1)", " ".join(container.words))
    pods = container.meeting_pods
    if found and pods > 1:
        yield container.command.hit(f"{found[1]} as the address in a job of {pods} pods")
    address = container.variable("MASTER_ADDR")
    if address and address.text in LOCAL_HOSTS and pods > 1 and _uses_variables(container):
        yield address.hit_value(f"MASTER_ADDR={address.text} in a job of {pods} pods")


def _uses_variables(container: Container) -> bool:
    """Tells whether the ranks of several pods meet at the address that the variables of the container name."""
    words = container.words
    if container.pod.kind not in _OWN_RENDEZVOUS or _ADDRESS_OPTION.search(" ".join(words)):
        return False
    return (node_count_of(words) or 1) > 1 if launcher_of(words) is Launcher.TORCHRUN else True


@rule(
    RuleSeverity.WARNING,
    Subject.CONTAINER,
    fix="Write --nnodes with the number of pods, and --node-rank from the pod's index.",
    source=_TORCHRUN,
)
def torchrun_nodes_missing(container: Container) -> Iterator[Hit]:
    """Without --nnodes the launcher starts ranks for one node: each pod trains alone, and waits for no other."""
    words, pods = container.words, max(container.pod.gang_pods or 1, container.pod.replicas)
    is_launched = launcher_of(words) is Launcher.TORCHRUN and not {"accelerate", "windlass"} & set(words)
    has_nodes = "nnodes" in " ".join(words) or is_standalone(words) or "PET_NNODES" in container.env
    is_unknown = container.value["envFrom"] or any(re.fullmatch(r"\$[({]?\w+[)}]?|\$@", word) for word in words)
    if pods > 1 and is_launched and not has_nodes and not is_unknown and _has_address(container):
        yield container.command.hit(f"no --nnodes in a job of {pods} pods")


def _has_address(container: Container) -> bool:
    """Tells whether the pods of an object are meant to meet; a job alone may name itself as its address."""
    if container.pod.kind not in _OWN_RENDEZVOUS:
        return False
    found, address = _ADDRESS_OPTION.search(" ".join(container.words)), container.env.get("MASTER_ADDR")
    host = found[1].partition(":")[0] if found else address["value"].text if address else "localhost"
    return bool(found or address) and (container.pod.is_gang or host not in LOCAL_HOSTS)


@rule(
    RuleSeverity.ERROR,
    Subject.CONTAINER,
    fix="Write --rdzv-backend c10d --rdzv-endpoint with the name of the first pod and a port: train-0.train:29500.",
    source=_TORCHRUN,
    kinds=" ".join(sorted(_OWN_RENDEZVOUS)),
)
def torchrun_rendezvous_missing(container: Container) -> Iterator[Hit]:
    """Without an address torchrun takes its own pod, as node 0; it does not read MASTER_ADDR. Each waits at itself."""
    line = " ".join(container.words)
    options, nodes = torchrun_options(line), node_count_of(container.words) or 1
    if nodes > 1 and options is not None and _is_complete(container, options) and not has_address(options):
        yield container.command.hit(f"torchrun has no --rdzv-endpoint, and waits for {nodes} nodes")


def _is_complete(container: Container, options: str) -> bool:
    """Tells whether options are all that torchrun has: one launcher, no variable of further options, no PET_… of it."""
    line = " ".join(container.words)
    has_others = "PET_" in line or container.value["envFrom"] or any(name.startswith("PET_") for name in container.env)
    is_one = len(LAUNCHER.findall(line)) == 1 and not is_standalone(container.words)
    return is_one and not has_others and has_every_value(options)


@rule(
    RuleSeverity.ERROR,
    Subject.CONTAINER,
    fix="Leave --node-rank to the operator, or take it from the pod's index.",
    source=_TORCHRUN,
)
def torchrun_rank_constant(container: Container) -> Iterator[Hit]:
    """All pods of the template then have the same rank, and the rendezvous fails."""
    found = re.search(r"(?:^|\s)--node[-_]rank[= ]([0-9]+)(?:\s|$)", " ".join(container.words))
    is_one_job = container.pod.is_gang or (node_count_of(container.words) or 1) > 1
    if found and is_one_job and container.pod.replicas > 1:
        yield container.command.hit(f"--node-rank {found[1]} in {container.pod.replicas} pods")


@rule(
    RuleSeverity.ERROR,
    Subject.CONTAINER,
    fix="Take the rank from the pod's index: JOB_COMPLETION_INDEX, or the label apps.kubernetes.io/pod-index.",
    source=_JOB,
    kinds="Job StatefulSet JobSet TrainingRuntime ClusterTrainingRuntime",
)
def rank_variable_constant(container: Container) -> Iterator[Hit]:
    """A variable of a template has one value in all of its pods, so that they all have the same rank."""
    for name in _RANKS if container.pod.replicas > 1 else ():
        value = container.env[name]["value"] if name in container.env else None
        if value and value.text.isdecimal():
            yield value.hit_value(f"{name}={value.text[:20]} in {container.pod.replicas} pods")


@rule(
    RuleSeverity.WARNING,
    Subject.CONTAINER,
    fix="Write pods times ranks of a pod, or leave WORLD_SIZE to torchrun.",
    source="https://docs.pytorch.org/docs/stable/distributed.html#environment-variable-initialization",
    kinds="Job",
)
def world_size_differs(container: Container) -> Iterator[Hit]:
    """The rendezvous waits for WORLD_SIZE ranks, and the job starts another number of them."""
    value, pods = container.env.get("WORLD_SIZE"), container.pod.gang_pods
    size = value["value"].text if value else ""
    if not pods or pods < 2 or not size.isdecimal():
        return
    ranks = {pods, pods * max(1, container.gpus), pods * (procs_of(container.words) or 1)}
    if int(size[:9]) not in ranks and value:
        yield value["value"].hit_value(f"WORLD_SIZE={size[:9]} in a job of {pods} pods with {container.gpus} GPUs each")


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Write parallelism: the number of completions.",
    source=f"{_JOB}#parallel-jobs",
    kinds="Job",
)
def ranks_not_parallel(document: Document) -> Iterator[Hit]:
    """A Job runs so many pods at a time, 1 without parallelism, while the rendezvous waits for more."""
    completions, parallelism = document.spec["completions"], document.spec["parallelism"]
    for container in (each for pod in document.pods for each in pod.containers) if document.group == "batch" else ():
        nodes, most = node_count_of(container.words) or 1, parallelism.number if parallelism else 1
        if most is not None and 1 < nodes <= (completions.number or 0) and 0 < most < nodes:
            place = parallelism or completions
            yield place.hit(f"{nodes} pods meet at a rendezvous; {most} run{'s' * (most == 1)} at a time")


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """The address at which a container expects the other ranks."""

    host: str
    port: str
    place: Value


def _endpoint(container: Container) -> _Endpoint | None:
    """The address of the rendezvous in the command line, or in the variables MASTER_ADDR and MASTER_PORT."""
    line, port = " ".join(container.words), container.env.get("MASTER_PORT")
    found = re.search(r"--(?:rdzv[-_]endpoint|master[-_]addr)[= ]([a-z0-9][a-z0-9.-]{0,252})(?::([0-9]{1,5}))?", line)
    if found:
        written = re.search(r"--master[-_]port[= ]([0-9]{1,5})", line)
        return _Endpoint(found[1], found[2] or (written[1] if written else ""), container.command)
    address = container.env.get("MASTER_ADDR")
    if address and address["value"].text:
        return _Endpoint(address["value"].text, port["value"].text if port else "", address["value"])
    return None


def _service(documents: Documents, document: Document, host: str) -> Document | None:
    """The service of the same file that a host name means; None for the name of a pod below a service."""
    name, *domain = host.split(".")
    for service in documents.named("Service", name):
        is_here = service.text.source == document.text.source and service.namespace == document.namespace
        if is_here and domain[:1] in ([], [document.namespace or "default"]):
            return service
    return None


def _endpoints(documents: Documents) -> Iterator[tuple[Document, PodTemplate, _Endpoint, Document]]:
    """Each pod template whose ranks meet at a service of the input, with that service."""
    for document in documents.documents if documents.of("Service") else ():
        for pod in document.pods:
            for container in pod.containers:
                endpoint = _endpoint(container)
                service = _service(documents, document, endpoint.host) if endpoint else None
                if endpoint and service:
                    yield document, pod, endpoint, service


@rule(
    RuleSeverity.WARNING,
    Subject.INPUT,
    fix="Write the name of the first pod below a headless service: train-0.train.",
    source=_TORCHRUN,
)
def rendezvous_at_several_pods(documents: Documents) -> Iterator[tuple[Document, Hit]]:
    """The name of a service means any of its pods, so that ranks wait for each other at different ones."""
    for document, pod, endpoint, service in _endpoints(documents):
        if pod.replicas > 1 and service in documents.services_of(document, pod):
            message = f"the service {service.name[:60]!r} selects all {pod.replicas} pods"
            yield document, endpoint.place.hit(message)


@rule(
    RuleSeverity.ERROR,
    Subject.INPUT,
    fix="Add the port to the service, or write clusterIP: None, which has no need of ports.",
    source="https://kubernetes.io/docs/concepts/services-networking/service/",
)
def rendezvous_port_unknown(documents: Documents) -> Iterator[tuple[Document, Hit]]:
    """A service with an address of its own passes on its ports only: no rank reaches the rendezvous."""
    for document, _, endpoint, service in _endpoints(documents):
        ports = [each["port"].text for each in service.spec["ports"].items]
        if endpoint.port and ports and endpoint.port not in ports and service.spec["clusterIP"].text != "None":
            message = f"port {endpoint.port} is none of {', '.join(ports)[:60]} of the service {service.name[:60]!r}"
            yield document, endpoint.place.hit(message)


@rule(
    RuleSeverity.ERROR,
    Subject.DOCUMENT,
    fix="Write the interface between the nodes, or remove the variable.",
    source=_NCCL,
)
def socket_interface_local(document: Document) -> Iterator[Hit]:
    """The loopback interface does not reach other pods: the ranks cannot connect."""
    containers = [each for pod in document.pods for each in pod.containers]
    meeting = [each for each in containers if _connected_pods(each) > 1]
    environments = [each.env for each in (*meeting, *(document.environments if document.replicas > 1 else ()))]
    for env in environments:
        for name in INTERFACE_VARIABLES:
            value = env[name]["value"] if name in env else None
            if value and value.text in LOOPBACK:
                yield value.hit_value(f"{name}={value.text} in a job of several pods")
    for container in meeting:
        if found := _LOCAL_INTERFACE.search(" ".join(container.words)):
            yield container.command.hit(f"{found[1]}={found[2]} in a job of several pods")


def _connected_pods(container: Container) -> int:
    """Number of pods whose ranks connect to each other, as far as any field of their object shows it."""
    pod, line, size = container.pod, " ".join(container.words), container.variable("WORLD_SIZE")
    is_sized = size is not None and size.text not in ("0", "1")
    is_named = pod.kind == "Job" and bool(pod.spec["subdomain"])
    is_launched = re.search(r"--nnodes[= ](?!1(?:\s|:1|$))", line) or _REMOTE_ADDRESS.search(line)
    if is_named or is_sized or is_launched:
        return max(pod.gang_pods or 1, pod.replicas)
    return container.meeting_pods
