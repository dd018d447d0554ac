"""Pod templates of every kind of object that has some, found by a table of paths."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from windlass.diagnose.lint.values import Value
from windlass.jobs.syntax.command_line import node_count_of, words_of

SELECTOR_KINDS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
"""Kinds of apps/v1, whose selector is required."""
_SPEC = ("spec.template",)
_JOB_SET = "spec.replicatedJobs.*.template.spec.template"
_PATHS: Mapping[str, tuple[str, ...]] = {
    "Pod": ("",),
    "PodTemplate": ("template",),
    **dict.fromkeys((*SELECTOR_KINDS, "ReplicationController"), _SPEC),
    "Notebook": _SPEC,
    "LeaderWorkerSet": tuple(f"spec.leaderWorkerTemplate.{role}Template" for role in ("leader", "worker")),
    "Job": ("spec.template", "spec.tasks.*.template"),
    "CronJob": ("spec.jobTemplate.spec.template",),
    "JobSet": (_JOB_SET,),
    **dict.fromkeys(("TrainingRuntime", "ClusterTrainingRuntime"), (f"spec.template.{_JOB_SET}",)),
    "TrainJob": ("",),
    "PyTorchJob": ("spec.pytorchReplicaSpecs.*.template",),
    "TFJob": ("spec.tfReplicaSpecs.*.template",),
    "JAXJob": ("spec.jaxReplicaSpecs.*.template",),
    "XGBoostJob": ("spec.xgbReplicaSpecs.*.template",),
    "PaddleJob": ("spec.paddleReplicaSpecs.*.template",),
    "MPIJob": ("spec.mpiReplicaSpecs.*.template",),
    "RayCluster": ("spec.headGroupSpec.template", "spec.workerGroupSpecs.*.template"),
    "RayJob": ("spec.rayClusterSpec.headGroupSpec.template", "spec.rayClusterSpec.workerGroupSpecs.*.template"),
    "RayService": ("spec.rayClusterConfig.headGroupSpec.template", "spec.rayClusterConfig.workerGroupSpecs.*.template"),
}  # fmt: skip
"""Paths of the pod templates of a kind; `*` is any name or index."""
REPLICA_KINDS = frozenset(kind for kind, paths in _PATHS.items() if any("ReplicaSpecs" in path for path in paths))
"""Kinds of Kubeflow's training operator and MPI operator."""
RAY_KINDS = frozenset({"RayCluster", "RayJob", "RayService"})
GANG_KINDS = REPLICA_KINDS | {
    "JobSet",
    "TrainJob",
    "TrainingRuntime",
    "ClusterTrainingRuntime",
    "RayCluster",
    "RayJob",
}
"""Kinds whose pods work together."""
_COUNTS = ("replicas", "parallelism")
"""Fields whose product is the number of pods: a replicated job has both."""
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
"""Addresses at which each pod reaches itself alone."""
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe")


@dataclass(eq=False)
class PodTemplate:
    """One pod template. `role`: the name of its replica spec, group or task, "" if there is one template only."""

    kind: str
    root: Value
    template: Value
    role: str
    group: Value
    """The mapping with the template and its number of replicas."""

    @cached_property
    def spec(self) -> Value:
        """The pod's spec."""
        return self.template["spec"]

    @cached_property
    def is_patch(self) -> bool:
        """Tells whether the object is a patch of kustomize, which has only the fields that it changes."""
        is_selected = self.kind in SELECTOR_KINDS
        return is_selected and not self.root.at("spec", "selector") and not self.template.at("metadata", "labels")

    @cached_property
    def replicas(self) -> int:
        """Number of pods that run at the same time, as far as it is written; 1 without."""
        if self.kind == "TrainJob":
            return self.spec["trainer"]["numNodes"].number or 1
        count = 1
        for around, name in itertools.product((self.group, self.group.at("template", "spec")), _COUNTS):
            written = around[name].number
            count *= 1 if written is None else written
        return count

    @cached_property
    def gang_pods(self) -> int | None:
        """Number of pods of the whole job; None where it is not written, may change, or pods are independent."""
        spec = self.root["spec"]
        if self.kind == "TrainJob":
            return spec["trainer"]["numNodes"].number
        if self.kind == "Job" and spec["completionMode"].text == "Indexed":
            return spec["completions"].number
        if self.kind not in REPLICA_KINDS or spec["elasticPolicy"]:
            return None
        return sum(each.replicas for each in pod_templates(self.kind, "", self.root)) or None

    @cached_property
    def containers(self) -> list[Container]:
        """The containers that run the work; of a TrainJob its trainer, which has the same fields."""
        if self.kind == "TrainJob":
            return [Container(self, self.spec["trainer"])] if self.spec["trainer"].is_map else []
        return [Container(self, each) for each in self.spec["containers"].items if each.is_map]

    @cached_property
    def all_containers(self) -> list[Container]:
        """The containers, init containers included."""
        first = [Container(self, each) for each in self.spec["initContainers"].items if each.is_map]
        return [*first, *self.containers]

    @cached_property
    def labels(self) -> dict[str, str]:
        """The labels of the pods."""
        return {name: value.text for name, value in self.template.at("metadata", "labels").fields.items()}

    @property
    def is_gang(self) -> bool:
        """Tells whether the pod is one of a distributed job."""
        return self.kind in GANG_KINDS


@dataclass(eq=False)
class Container:
    """One container of a pod template."""

    pod: PodTemplate
    value: Value

    @cached_property
    def resources(self) -> Value:
        """Its resources."""
        return self.value["resources"] or self.value["resourcesPerNode"]

    @cached_property
    def limits(self) -> dict[str, Value]:
        """Its limits by resource."""
        return self.resources["limits"].fields

    @cached_property
    def requests(self) -> dict[str, Value]:
        """Its requests by resource."""
        return self.resources["requests"].fields

    @cached_property
    def gpus(self) -> int:
        """Number of whole GPUs that it requests."""
        amounts = {**self.requests, **self.limits}
        return sum(
            int(amounts[name].text) for name in GPU_RESOURCES if name in amounts and amounts[name].text.isdecimal()
        )

    @cached_property
    def env(self) -> dict[str, Value]:
        """Its variables by name: the entries of `env`."""
        return {entry["name"].text: entry for entry in self.value["env"].items}

    @cached_property
    def meeting_pods(self) -> int:
        """Number of pods whose ranks meet at a rendezvous; 1 if the pod trains alone."""
        nodes, address = node_count_of(self.words) or 1, self.variable("MASTER_ADDR")
        is_one_job = self.pod.is_gang or nodes > 1 or (address is not None and address.text not in LOCAL_HOSTS)
        return max(self.pod.gang_pods or 1, self.pod.replicas) if is_one_job else 1

    def variable(self, name: str) -> Value | None:
        """The value of a variable; None if it is not set, or not written here."""
        value = self.env[name]["value"] if name in self.env else None
        return value or None

    @property
    def command(self) -> Value:
        """Its command, or its arguments if it has no command: the place of faults of the command line."""
        return self.value["command"] or self.value["args"]

    @cached_property
    def line(self) -> list[str]:
        """Command and arguments as written."""
        return [*self.value["command"].texts, *self.value["args"].texts]

    @cached_property
    def words(self) -> list[str]:
        """Words of the command line, also within a script for a shell."""
        words = words_of(self.line)
        return list(itertools.chain.from_iterable(word.split() for word in words)) if len(self.line) > 2 else words


def pod_templates(kind: str, group: str, root: Value) -> list[PodTemplate]:
    """The pod templates of a manifest."""
    paths = _PATHS.get(kind, ())
    if kind == "Job":
        paths = paths[1:] if group == "batch.volcano.sh" else paths[:1] if group == "batch" else ()
    return [PodTemplate(kind, root, *found) for path in paths for found in _find(root, path) if found[0].is_map]


def _find(root: Value, path: str) -> Iterator[tuple[Value, str, Value]]:
    """Each value at a path, with the name of its `*` and the value below which that stands."""
    head, star, rest = path.partition(".*.")
    if not star:
        found = root.at(*head.split(".")) if head else root
        yield found, "", root.at(*head.split(".")[:-1]) if head else root
        return
    for each in _children(root.at(*head.split("."))):
        role = each.name or each["name"].text or each["groupName"].text
        yield each.at(*rest.split(".")), role, each


def _children(value: Value) -> list[Value]:
    return value.items or list(value.fields.values())
