"""A right manifest of each kind, and faults that can be planted in it, each the only one of its slot."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class PlantedFault:
    """One fault. Faults of different slots concern different fields."""

    name: str
    rule: str
    plant: Callable[[dict[str, Any]], None]
    is_name: bool = False
    """It renames a field, and is planted after all others, the innermost first."""


def at(document, *path):
    """The value at a path."""
    for part in path:
        document = document[part]
    return document


def put(*path, value):
    """Writes a value at a path."""

    def plant(document):
        at(document, *path[:-1])[path[-1]] = copy.deepcopy(value)

    return plant


def add(*path, item):
    """Adds an item to the list at a path."""

    def plant(document):
        at(document, *path[:-1]).setdefault(path[-1], []).append(copy.deepcopy(item))

    return plant


def drop(*path):
    """Removes the field at a path."""
    return lambda document: at(document, *path[:-1]).pop(path[-1])


def misspell(*path, name):
    """Writes the field at a path under another name, at its place in the order."""

    def plant(document):
        part = at(document, *path[:-1])
        items = [(name if key == path[-1] else key, value) for key, value in part.items()]
        part.clear()
        part.update(items)

    return plant


def container(name, **fields):
    """A container that trains."""
    return {"name": name, "image": "train:1", "command": ["python", "train.py"], "env": [], **fields}


def template(name="main", policy=None):
    """A pod template."""
    spec = {"containers": [container(name)], "volumes": [], "tolerations": [], "nodeSelector": {}}
    if policy:
        spec["restartPolicy"] = policy
    return {"metadata": {"labels": {"app": "train"}}, "spec": spec}


def object_of(version, kind, spec):
    """An object."""
    about = {"name": "train", "labels": {"team": "a"}, "annotations": {}}
    return {"apiVersion": version, "kind": kind, "metadata": about, "spec": spec}


def replica_job(kind, specs, name, version="kubeflow.org/v1", lead="Master"):
    """A job of Kubeflow's operators."""
    roles = {lead: {"replicas": 1, "template": template(name)}, "Worker": {"replicas": 2, "template": template(name)}}
    return object_of(version, kind, {"runPolicy": {"cleanPodPolicy": "None", "backoffLimit": 3}, specs: roles})


def ray_cluster():
    """The spec of a Ray cluster."""
    group = {"groupName": "workers", "replicas": 2, "minReplicas": 1, "maxReplicas": 4, "rayStartParams": {}}
    head = {"rayStartParams": {"port": "6379"}, "template": template("ray")}
    return {"rayVersion": "2.46.0", "headGroupSpec": head, "workerGroupSpecs": [{**group, "template": template("ray")}]}


JOB_SPEC = {"backoffLimit": 3, "completions": 2, "parallelism": 2, "template": template(policy="Never")}
SERVICE_SPEC = {"replicas": 2, "selector": {"matchLabels": {"app": "train"}}, "template": template()}
TRAIN_SPEC = {
    "runtimeRef": {"name": "torch-distributed"},
    "trainer": {"numNodes": 2, "image": "train:1", "command": ["python", "train.py"], "env": []},
}
QUOTA = {"name": "cpu", "nominalQuota": 9}
GROUP = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [QUOTA]}]}
REPLICAS = {
    "PyTorchJob": ("pytorchReplicaSpecs", "pytorch"),
    "TFJob": ("tfReplicaSpecs", "tensorflow"),
    "XGBoostJob": ("xgbReplicaSpecs", "xgboost"),
    "PaddleJob": ("paddleReplicaSpecs", "paddle"),
}
MANIFESTS = {
    **{kind: replica_job(kind, *names) for kind, names in REPLICAS.items()},
    "MPIJob": replica_job("MPIJob", "mpiReplicaSpecs", "mpi", "kubeflow.org/v2beta1", "Launcher"),
    "TrainJob": object_of("trainer.kubeflow.org/v1alpha1", "TrainJob", TRAIN_SPEC),
    "JobSet": object_of(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        {"replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": JOB_SPEC}}]},
    ),
    "Job": object_of("batch/v1", "Job", JOB_SPEC),
    "CronJob": object_of("batch/v1", "CronJob", {"schedule": "0 3 * * *", "jobTemplate": {"spec": JOB_SPEC}}),
    "Pod": object_of("v1", "Pod", template()["spec"]),
    "Deployment": object_of("apps/v1", "Deployment", SERVICE_SPEC),
    "StatefulSet": object_of("apps/v1", "StatefulSet", {**SERVICE_SPEC, "serviceName": "train"}),
    "Notebook": object_of("kubeflow.org/v1", "Notebook", {"template": {"spec": template("train")["spec"]}}),
    "RayCluster": object_of("ray.io/v1", "RayCluster", ray_cluster()),
    "RayJob": object_of("ray.io/v1", "RayJob", {"entrypoint": "python a.py", "rayClusterSpec": ray_cluster()}),
    "ClusterQueue": object_of(
        "kueue.x-k8s.io/v1beta1", "ClusterQueue", {"namespaceSelector": {}, "resourceGroups": [GROUP]}
    ),
}
PODS = {
    **{kind: ("spec", names[0], "Worker", "template", "spec") for kind, names in REPLICAS.items()},
    "MPIJob": ("spec", "mpiReplicaSpecs", "Worker", "template", "spec"),
    "JobSet": ("spec", "replicatedJobs", 0, "template", "spec", "template", "spec"),
    "Job": ("spec", "template", "spec"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    "Pod": ("spec",),
    **dict.fromkeys(("Deployment", "StatefulSet", "Notebook"), ("spec", "template", "spec")),
    "RayCluster": ("spec", "workerGroupSpecs", 0, "template", "spec"),
    "RayJob": ("spec", "rayClusterSpec", "workerGroupSpecs", 0, "template", "spec"),
}
"""Path of the spec of a pod."""


def of_object(kind):
    """Faults of any object."""
    typed = f"{kind[:-2]}{kind[-1]}{kind[-2]}"
    yield PlantedFault("name", "name-malformed", put("metadata", "name", value="No_Name"))
    yield PlantedFault("label", "metadata-value-no-text", put("metadata", "labels", "team", value=3))
    yield PlantedFault(
        "annotation", "annotation-obsolete", put("metadata", "annotations", "kueue.x-k8s.io/queue-name", value="a")
    )
    yield PlantedFault("kind", "kind-misspelt", put("kind", value=typed))
    yield PlantedFault("metadata", "unknown-field", misspell("metadata", name="metdata"), is_name=True)
    yield PlantedFault("spec", "unknown-field", misspell("spec", name="sepc"), is_name=True)


def of_pod(pod):
    """Faults of a pod template of any kind."""
    first = (*pod, "containers", 0)
    key = {"key": "gpu", "operator": "Exists", "value": "yes"}
    yield PlantedFault("pull policy", "image-pull-policy-unknown", put(*first, "imagePullPolicy", value="always"))
    yield PlantedFault("variable", "env-value-no-text", add(*first, "env", item={"name": "EPOCHS", "value": 3}))
    yield PlantedFault("command", "command-no-list", put(*first, "command", value="python train.py"))
    yield PlantedFault("memory", "amount-malformed", put(*first, "resources", value={"limits": {"memory": "16GB"}}))
    yield PlantedFault(
        "mount", "volume-mount-unknown", put(*first, "volumeMounts", value=[{"name": "a", "mountPath": "/a"}])
    )
    yield PlantedFault("toleration", "toleration-malformed", add(*pod, "tolerations", item=key))
    yield PlantedFault("selector", "metadata-value-no-text", put(*pod, "nodeSelector", "gpu", value=True))
    yield PlantedFault("image", "image-malformed", put(*first, "image", value="Train:1:2"))
    yield PlantedFault("ports", "unknown-field", put(*first, "prots", value=[]))
    yield PlantedFault("containers", "unknown-field", misspell(*pod, "containers", name="contaners"), is_name=True)


def of_replica_job(kind, specs):
    """Faults of the jobs of Kubeflow's operators."""
    lead = "Launcher" if kind == "MPIJob" else "Master"
    worker = ("spec", specs, "Worker")
    if kind not in ("PaddleJob", "TFJob"):
        yield PlantedFault("lead", "invalid-job", put("spec", specs, lead, "replicas", value=2))
    yield PlantedFault("clean", "invalid-job", put("spec", "runPolicy", "cleanPodPolicy", value="running"))
    yield PlantedFault("limit", "unknown-field", misspell("spec", "runPolicy", "backoffLimit", name="backofLimit"))
    yield PlantedFault("policy", "invalid-job", put(*worker, "restartPolicy", value="OnFaliure"))
    yield PlantedFault("replicas", "invalid-job", put(*worker, "replicas", value="two"))
    if kind != "MPIJob":
        yield PlantedFault(
            "main", "invalid-job", put("spec", specs, lead, "template", "spec", "containers", 0, "name", value="a")
        )
    yield PlantedFault("template", "unknown-field", misspell(*worker, "template", name="tempalte"), is_name=True)
    yield PlantedFault("role", "invalid-job", misspell(*worker, name="Wroker"), is_name=True)
    yield PlantedFault("specs", "unknown-field", misspell("spec", specs, name=specs[:-1]), is_name=True)


def index_without_completions(job):
    """Makes a Job indexed, without a number of pods."""
    job["spec"]["completionMode"] = "Indexed"
    del job["spec"]["completions"]


OF_KIND = {
    "TrainJob": [
        PlantedFault("nodes", "invalid-job", put("spec", "trainer", "numNodes", value=-1)),
        PlantedFault("processes", "invalid-job", put("spec", "trainer", "numProcPerNode", value="many")),
        PlantedFault("suspend", "invalid-job", put("spec", "suspend", value="no")),
        PlantedFault("command", "command-no-list", put("spec", "trainer", "command", value="python a.py")),
        PlantedFault("trainer", "unknown-field", misspell("spec", "trainer", name="trianer"), is_name=True),
    ],
    "JobSet": [
        PlantedFault(
            "success", "jobset-reference-unknown", put("spec", "successPolicy", value={"targetReplicatedJobs": ["a"]})
        ),
        PlantedFault("jobs", "unknown-field", misspell("spec", "replicatedJobs", name="replicatedJob"), is_name=True),
    ],
    "Job": [
        PlantedFault("mode", "indexed-without-completions", index_without_completions),
        PlantedFault(
            "policy", "restart-policy-unknown", put("spec", "template", "spec", "restartPolicy", value="never")
        ),
        PlantedFault("limit", "unknown-field", misspell("spec", "backoffLimit", name="backofLimit")),
    ],
    "CronJob": [PlantedFault("schedule", "cron-schedule-malformed", put("spec", "schedule", value="0 0 3 * * *"))],
    "Deployment": [
        PlantedFault("selector", "selector-differs", put("spec", "selector", "matchLabels", "app", value="a"))
    ],
    "RayCluster": [
        PlantedFault("sizes", "ray-replicas-out-of-range", put("spec", "workerGroupSpecs", 0, "minReplicas", value=9)),
        PlantedFault(
            "parameter", "ray-parameter-no-text", put("spec", "headGroupSpec", "rayStartParams", "num-cpus", value=0)
        ),
        PlantedFault(
            "version",
            "ray-version-differs",
            put("spec", "headGroupSpec", "template", "spec", "containers", 0, "image", value="rayproject/ray:2.9.0"),
        ),
        PlantedFault(
            "groups", "unknown-field", misspell("spec", "workerGroupSpecs", name="workerGroupSpec"), is_name=True
        ),
    ],
    "RayJob": [PlantedFault("ttl", "ray-ttl-without-shutdown", put("spec", "ttlSecondsAfterFinished", value=60))],
    "ClusterQueue": [
        PlantedFault(
            "resource",
            "kueue-resources-differ",
            put("spec", "resourceGroups", 0, "coveredResources", value=["cpu", "memory"]),
        ),
        PlantedFault("groups", "unknown-field", misspell("spec", "resourceGroups", name="resourceGroup"), is_name=True),
    ],
}


def faults_of(kind):
    """The faults that can be planted in the manifest of a kind."""
    found = [*of_object(kind), *OF_KIND.get(kind, ())]
    found += of_pod(PODS[kind]) if kind in PODS else ()
    specs = {**REPLICAS, "MPIJob": ("mpiReplicaSpecs", "mpi")}.get(kind)
    return [*found, *(of_replica_job(kind, specs[0]) if specs else ())]


def planted(kind, faults):
    """The manifest of a kind with faults; names are misspelt last, from the innermost out."""
    document = copy.deepcopy(MANIFESTS[kind])
    for fault in sorted(faults, key=lambda each: each.is_name):
        if not fault.is_name:
            fault.plant(document)
    order = ["containers", "template", "role", "specs", "jobs", "groups", "trainer", "metadata", "spec"]
    for fault in sorted((each for each in faults if each.is_name), key=lambda each: order.index(each.name)):
        fault.plant(document)
    return document
