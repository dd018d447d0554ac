"""The replica specs of a job: which types there are, how many of each, their templates, and every default.

Source: kubeflow/training-operator v1.9, pkg/apis/kubeflow.org/v1/{defaulting_utils,*_defaults}.go, pkg/webhooks. The
defaults are applied here, in memory; what is stored in the cluster stays as it was written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from windlass.jobs.kubernetes.manifest_reader import ManifestField, read_all
from windlass.jobs.kubernetes.parsed_job import WORKER, Replicas
from windlass.jobs.syntax.names import did_you_mean, nearest

RESTART_POLICIES = ("OnFailure", "Never", "Always", "ExitCode")
MAX_REPLICAS = 100_000


@dataclass(frozen=True, slots=True)
class Port:
    """The rendezvous port of a kind, in the container of a given name."""

    container: str
    name: str
    number: int


@dataclass(frozen=True, slots=True)
class ReplicaTypes:
    """Rules of a kind for its replica specs."""

    specs: str
    """The field of `spec` that holds them: "pytorchReplicaSpecs"."""
    types: tuple[str, ...]
    default_restart_policy: str
    """The restart policy where none is written."""
    port: Port | None = None
    """None: no container need have a name, and no port is added."""
    single_types: tuple[str, ...] = ()
    """Types with at most one pod."""
    required_types: tuple[str, ...] = ()
    fold_case: bool = True
    """`worker` is accepted for `Worker`."""
    min_replicas: int = 1
    default_counts: Mapping[str, int] = field(default_factory=dict)
    """Replicas of a type where none are written, if not one."""
    default_restart_policies: Mapping[str, str] = field(default_factory=dict)
    """The restart policy of a type where none is written, if not the kind's."""
    restart_policies: tuple[str, ...] = RESTART_POLICIES


def replica_specs(spec: ManifestField, kind: ReplicaTypes) -> tuple[Replicas, ...]:
    """The replicas of a job in the order of the kind's types. Raises ManifestError with the faults of all of them."""
    written = spec[kind.specs]
    if not written.mapping():
        written.refuse(f"expects {' and '.join(kind.types)}, one of them at least")
    found = [(_meant_type(name, kind), entry) for name, entry in written.fields()]
    found.sort(key=lambda each: kind.types.index(each[0]) if each[0] else len(kind.types))
    *_, replicas = read_all(
        *(partial(_check_type, entry, kind) for _, entry in found),
        partial(_check_types, written, found, kind),
        lambda: tuple(read_all(*(partial(_replicas, name, entry, kind) for name, entry in found if name))),
    )
    if not any(each.count for each in replicas):
        written.refuse("asks for no pods at all; write replicas: 1 at least once")
    return tuple(replicas)


def _meant_type(name: str, kind: ReplicaTypes) -> str:
    """The type of a name, or the one that a misspelt name means; "" if there is none."""
    same = next((known for known in kind.types if name.lower() == known.lower()), "")
    return same or nearest(name, kind.types)


def _check_type(entry: ManifestField, kind: ReplicaTypes) -> None:
    name = str(entry.path[-1])
    if not any(name == known or (kind.fold_case and name.lower() == known.lower()) for known in kind.types):
        entry.refuse(f"{name[:40]!r} is no replica type of this kind{did_you_mean(name, kind.types)}", kind.types)


def _check_types(written: ManifestField, found: Sequence[tuple[str, ManifestField]], kind: ReplicaTypes) -> None:
    """Checks that every required type is there, and each type once."""
    names = [name for name, _ in found]
    for number, (name, entry) in enumerate(found):
        if name and name in names[:number]:
            entry.refuse(f"is the {name} a second time; write it once")
    for needed in kind.required_types:
        if needed not in names:
            written.refuse(f"has no {needed}; every job of this kind has one")


def _replicas(name: str, entry: ManifestField, kind: ReplicaTypes) -> Replicas:
    template = entry["template"]
    default = kind.default_restart_policies.get(name, kind.default_restart_policy)
    count, restart, _ = read_all(
        lambda: _count(name, entry["replicas"], kind),
        lambda: entry["restartPolicy"].choice(kind.restart_policies, default),
        lambda: check_template(template, kind.port),
    )
    return Replicas(name, str(entry.path[-1]), count, restart, _with_port(template.mapping(), kind.port))


def _count(name: str, written: ManifestField, kind: ReplicaTypes) -> int:
    default = kind.default_counts.get(name, 1)
    count = written.integer(0, MAX_REPLICAS)
    count = default if count is None else count
    if name in kind.single_types and count != 1:
        written.refuse(f"must be 1: a job has one {name}")
    if count < min(kind.min_replicas, default):
        written.refuse(f"must be at least {kind.min_replicas}; leave the {name} out instead")
    return count


def check_template(template: ManifestField, port: Port | None) -> None:
    """Checks that a pod template has the shapes that the assembly of pods requires. Raises ManifestError."""
    spec = template["spec"]
    fields = ("volumes", "schedulerName", "restartPolicy", "priorityClassName", "dnsConfig")
    read_all(
        partial(_check_metadata, template["metadata"]),
        lambda: _check_containers(spec["containers"], port),
        lambda: read_all(*(partial(_check_container, each) for each in spec["initContainers"].items())),
        *(partial(_check_field, spec, name) for name in fields),
    )


def _check_metadata(metadata: ManifestField) -> None:
    read_all(metadata["labels"].text_map, metadata["annotations"].text_map)


def _check_containers(containers: ManifestField, port: Port | None) -> None:
    if not containers.items():
        containers.refuse("expects one container at least, with a name and an image")
    main = port.container if port else ""
    checks = (partial(_check_container, each, main) for each in containers.items())
    read_all(partial(_check_main, containers, port), *checks)


def _check_main(containers: ManifestField, port: Port | None) -> None:
    """Checks that the container that trains has the name by which the operator finds it."""
    names = [each.value.get("name") for each in containers.items() if isinstance(each.value, dict)]
    if port is not None and port.container not in names and all(names):  # a missing name is a fault of its own
        containers.refuse(
            f"no container is called {port.container!r}; rename the one that trains to {port.container!r}"
        )


def _check_container(container: ManifestField, main: str = "") -> None:
    """Checks one container. `main`: name of the one that trains."""
    of_main = f"; the one that trains is called {main!r}" if main else ""
    read_all(
        *(partial(_check_text, container, name, hint) for name, hint in (("name", of_main), ("image", ""))),
        *(partial(_check_names, container, name) for name in ("env", "ports", "volumeMounts")),
        *(partial(_check_words, container, name) for name in ("command", "args")),
        partial(_check_ports, container),
    )


def _check_text(container: ManifestField, name: str, hint: str) -> None:
    if not container[name].text():
        container[name].refuse(f"expects the container's {name}{hint}")


def _check_names(container: ManifestField, name: str) -> None:
    for item in container[name].items():
        item["name"].text()


def _check_words(container: ManifestField, name: str) -> None:
    container[name].text_list()


def _check_ports(container: ManifestField) -> None:
    for port in container["ports"].items():
        if port["containerPort"].integer(1, 65535) is None:
            port["containerPort"].refuse("expects the port's number")


def _check_field(spec: ManifestField, name: str) -> None:
    _CHECKS.get(name, ManifestField.text)(spec[name])


def _check_dns(entry: ManifestField) -> None:
    entry["searches"].text_list()


_CHECKS: dict[str, Any] = {"volumes": ManifestField.items, "dnsConfig": _check_dns}


def _with_port(template: Mapping[str, Any], port: Port | None) -> Mapping[str, Any]:
    """The template, with the kind's port in its container unless one of that name is there."""
    if port is None:
        return template
    containers = list(template["spec"]["containers"])
    at = next(number for number, container in enumerate(containers) if container["name"] == port.container)
    ports = containers[at].get("ports") or []
    if any(each.get("name") == port.name for each in ports):
        return template
    containers[at] = {**containers[at], "ports": [*ports, {"name": port.name, "containerPort": port.number}]}
    return {**template, "spec": {**template["spec"], "containers": containers}}


def port_of(replicas: Replicas, port: Port) -> int:
    """The number of the kind's port in a replica's container."""
    for container in replicas.template["spec"]["containers"]:
        if container["name"] == port.container:
            for each in container.get("ports") or []:
                if each.get("name") == port.name:
                    return int(each["containerPort"])
    return port.number


def elastic_sizes(policy: ManifestField, replicas: Sequence[Replicas], field: str) -> tuple[int, int] | None:
    """Returns minimum and maximum; a missing one is the other, or the number of workers. None without a policy.

    Source: kubeflow/training-operator v1.9, pkg/apis/kubeflow.org/v1/pytorch_defaults.go, setElasticPolicy.
    `field`: where the replica specs stand. Raises ManifestError.
    """
    if policy.value is None:
        return None
    worker = next((each for each in replicas if each.type == WORKER), None)
    if worker is None:
        policy.refuse(f"needs a Worker in {field}: workers are what come and go")
    fewest, most = elastic_limits(policy)
    fewest = fewest or most or worker.count
    most = most or fewest
    return fewest, most


def elastic_limits(policy: ManifestField) -> tuple[int | None, int | None]:
    """The written minimum and maximum of an elastic policy. Raises ManifestError with the faults of both."""
    limits = (partial(policy[name].integer, 1) for name in ("minReplicas", "maxReplicas"))
    fewest, most, _ = read_all(*limits, policy["metrics"].items)
    if fewest and most and fewest > most:
        policy["minReplicas"].refuse(f"must be at most maxReplicas, {most}")
    return fewest, most
