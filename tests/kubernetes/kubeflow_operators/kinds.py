"""Kubeflow's kinds, their plain manifests, and the words in which a case says what is done to a job and its pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind with replica specs. `lead`: the type of the pod whose end decides, "" without one."""

    name: str
    version: str
    specs: str
    container: str
    lead: str
    replicas: dict[str, int]
    """Number of pods by replica type, in the order of the manifest."""

    @property
    def plural(self) -> str:
        return f"{self.name.lower()}s"

    @property
    def path(self) -> str:
        """Path of the kind's objects in all namespaces."""
        return f"/apis/{self.version}/{self.plural}"

    @property
    def label(self) -> str:
        """Name of the recording."""
        return f"{self.name.lower()}-{self.version.rpartition('/')[2]}"

    def has(self, role: str) -> bool:
        return role in self.replicas


KUBEFLOW = "kubeflow.org/v1"
KINDS = (
    Kind("PyTorchJob", KUBEFLOW, "pytorchReplicaSpecs", "pytorch", "Master", {"Master": 1, "Worker": 2}),
    Kind("TFJob", KUBEFLOW, "tfReplicaSpecs", "tensorflow", "Chief", {"Chief": 1, "PS": 1, "Worker": 1}),
    Kind("XGBoostJob", KUBEFLOW, "xgbReplicaSpecs", "xgboost", "Master", {"Master": 1, "Worker": 2}),
    Kind("PaddleJob", KUBEFLOW, "paddleReplicaSpecs", "paddle", "Master", {"Master": 1, "Worker": 2}),
    Kind("JAXJob", KUBEFLOW, "jaxReplicaSpecs", "jax", "", {"Worker": 2}),
    Kind("MPIJob", KUBEFLOW, "mpiReplicaSpecs", "mpi", "Launcher", {"Launcher": 1, "Worker": 2}),
    Kind("MPIJob", "kubeflow.org/v2beta1", "mpiReplicaSpecs", "mpi", "Launcher", {"Launcher": 1, "Worker": 2}),
)
V2 = KINDS[-1]


@dataclass(frozen=True, slots=True)
class Do:
    """One action on a job or on its pods, after which the cluster is observed once nothing changes any more."""

    verb: str
    """create, end, patch, delete_pod, delete or wait."""
    role: str = ""
    """Replica type of the pods; "": all that run."""
    index: int | None = None
    code: int = 0
    patch: Manifest = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Case:
    """A manifest and the actions on it."""

    kind: Kind
    name: str
    manifest: Manifest
    actions: tuple[Do, ...]

    @property
    def namespace(self) -> str:
        return f"{self.kind.label}-{self.name}"


def base(kind: Kind) -> Manifest:
    """The plain manifest of a kind, as its samples have it."""
    specs = {role: replica_spec(kind, count) for role, count in kind.replicas.items()}
    spec: Manifest = {kind.specs: specs}
    if kind.name == "MPIJob":
        spec["slotsPerWorker"] = 1
    meta = {"name": "job"}
    return {"apiVersion": kind.version, "kind": kind.name, "metadata": meta, "spec": spec}


def replica_spec(kind: Kind, count: int) -> Manifest:
    container = {"name": kind.container, "image": "example.com/train:1", "command": ["python", "train.py"]}
    return {"replicas": count, "template": {"spec": {"containers": [container]}}}


Variation = Callable[[Kind, Manifest], tuple[Do, ...]]
"""Changes a plain manifest, and returns what is done after its creation."""
VARIATIONS: dict[str, tuple[Variation, Callable[[Kind], bool]]] = {}


def variation(applies: Callable[[Kind], bool] = lambda _kind: True) -> Callable[[Variation], Variation]:
    def register(function: Variation) -> Variation:
        VARIATIONS[function.__name__.strip("_").replace("_", "-")] = function, applies
        return function

    return register


def has_lead(kind: Kind) -> bool:
    return bool(kind.lead)


def is_replicated(kind: Kind) -> bool:
    """Tells whether training-operator handles the kind."""
    return kind is not V2


def is_first(kind: Kind) -> bool:
    """Tells whether the kind is the first version of MPIJob."""
    return kind.name == "MPIJob" and kind is not V2


def of(name: str) -> Callable[[Kind], bool]:
    return lambda kind: kind.name == name


def run_policy(kind: Kind, manifest: Manifest, **fields: Any) -> None:
    manifest["spec"].setdefault("runPolicy", {}).update(fields)


def each_spec(kind: Kind, manifest: Manifest) -> Iterator[Manifest]:
    yield from manifest["spec"][kind.specs].values()


def each_pod(kind: Kind, manifest: Manifest) -> Iterator[Manifest]:
    yield from (spec["template"]["spec"] for spec in each_spec(kind, manifest))


def finish(kind: Kind) -> tuple[Do, ...]:
    """Ends the pod that decides, or all of them."""
    return (Do("end", kind.lead, 0) if kind.lead else Do("end"),)
