"""Gangs of every kind that Windlass takes, by name. Each object says its size and the end that its program has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from external import other_kinds
from faults import jobs

from windlass.jobs.kubernetes.labels import RUNTIME

from .cluster_view import ENDS, GANG, SIZE
from .schedule import Arrival

KUBEFLOW = "/apis/kubeflow.org/v1"
PATHS = {
    "TrainingJob": jobs.TRAININGJOBS,
    "PyTorchJob": jobs.PYTORCHJOBS,
    "TFJob": f"{KUBEFLOW}/tfjobs",
    "JAXJob": f"{KUBEFLOW}/jaxjobs",
    "XGBoostJob": f"{KUBEFLOW}/xgboostjobs",
    "PaddleJob": f"{KUBEFLOW}/paddlejobs",
    "MPIJob": "/apis/kubeflow.org/v2beta1/mpijobs",
    "TrainJob": "/apis/trainer.kubeflow.org/v1alpha1/trainjobs",
    "Job": "/apis/batch/v1/jobs",
    "Pod": "/api/v1/pods",
    "Node": "/api/v1/nodes",
}
"""Lists that the witness watches, by kind."""
GROUPS = (
    jobs.POD_GROUPS,
    "/apis/scheduling.volcano.sh/v1beta1/podgroups",
    "/apis/scheduling.k8s.io/v1alpha2/podgroups",
    "/apis/jobset.x-k8s.io/v1alpha2/jobsets",
)
CREATED = (*(path for kind, path in PATHS.items() if kind not in ("Pod", "Node")), *GROUPS)
"""Lists of everything that a schedule creates, but for pods."""
Manifest = dict[str, Any]


def gang(name: str, arrival: Arrival) -> list[Manifest]:
    """The objects of one gang, in the order in which to create them."""
    return _LOADS[arrival.load](name, arrival.size, arrival.work)


def path(manifest: Manifest) -> str:
    """API path under which objects of this kind are created."""
    version, kind = manifest["apiVersion"], manifest["kind"]
    if kind in PATHS:
        root, _, plural = PATHS[kind].rpartition("/")
    else:
        root, plural = f"/apis/{version}", f"{kind.lower()}s"
    return f"{root}/namespaces/{jobs.NAMESPACE}/{plural}"


def _described(manifest: Manifest, size: int, ends: str = "Succeeded") -> Manifest:
    about = manifest["metadata"]
    about["annotations"] = {**about.get("annotations", {}), SIZE: str(size), ENDS: ends}
    return manifest


def _training_job(name: str, size: int, work: float) -> list[Manifest]:
    return [_described(jobs.training_job(name, size, work), size)]


def _failing_training_job(name: str, size: int, work: float) -> list[Manifest]:
    """Ends with code 1, which its policy does not restart."""
    spec = {"command": jobs.command(work, 1), "restarts": 0}
    return [_described(jobs.training_job(name, size, **spec), size, "Failed")]


def _pytorch_job(name: str, size: int, work: float) -> list[Manifest]:
    return [_described(jobs.pytorch_job(name, size, work), size)]


def _pytorch_job_as_gang(name: str, size: int, work: float) -> list[Manifest]:
    return [_described(jobs.pytorch_job(name, size, work, gang=True), size)]


def _kubeflow(kind: str, field: str, container: str, lead: str) -> Callable[[str, int, float], list[Manifest]]:
    """Makes jobs of a kind with replica specs: one pod of the type `lead`, if any, and workers."""

    def made(name: str, size: int, work: float) -> list[Manifest]:
        counts = {lead: 1, "Worker": size - 1} if lead else {"Worker": size}
        pod = {"spec": _pod(work, container)}
        specs = {role: {"replicas": count, "template": pod} for role, count in counts.items()}
        return [_described(_object("kubeflow.org/v1", kind, name, {field: specs}), size)]

    return made


def _mpi_job(name: str, size: int, work: float) -> list[Manifest]:
    """The launcher is a pod of a Job, beside `size` workers that run until they are deleted."""
    roles = {"Launcher": (1, _pod(work, "mpi")), "Worker": (size, _pod(None, "mpi"))}
    del roles["Launcher"][1]["containers"][0]["resources"]
    specs = {role: {"replicas": count, "template": {"spec": pod}} for role, (count, pod) in roles.items()}
    for each in specs.values():
        each["template"]["spec"]["restartPolicy"] = "Never"
    spec = {"slotsPerWorker": 1, "runPolicy": {"cleanPodPolicy": "Running"}, "mpiReplicaSpecs": specs}
    return [_described(_object("kubeflow.org/v2beta1", "MPIJob", name, spec), size)]


def _train_job(name: str, size: int, work: float) -> list[Manifest]:
    trainer = {
        "image": "example.com/job:1",
        "command": jobs.command(work),
        "numNodes": size,
        "resourcesPerNode": {"limits": {jobs.GPU: "1"}},
    }
    spec = {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer}
    made = _object("trainer.kubeflow.org/v1alpha1", "TrainJob", name, spec)
    made["metadata"]["annotations"] = {**made["metadata"].get("annotations", {}), RUNTIME: "built-in"}
    return [_described(made, size)]


def _batch_job(name: str, size: int, work: float) -> list[Manifest]:
    job = other_kinds.batch_job(name, size)
    job["spec"]["template"]["spec"] |= {"restartPolicy": "Never", **_pod(work, "main")}
    return [_described(job, size)]


def _job_set(name: str, size: int, work: float) -> list[Manifest]:
    """The JobSet and its pods, as its controller creates them."""
    pods = [other_kinds.of_job_set(name, "workers", index) for index in range(size)]
    return [other_kinds.job_set(name, workers=size), *(_member(pod, name, size, work) for pod in pods)]


def _coscheduling_group(name: str, size: int, work: float) -> list[Manifest]:
    pods = [other_kinds.coscheduled(name, f"{name}-{index}") for index in range(size)]
    return [other_kinds.coscheduling(name, size), *(_member(pod, name, size, work) for pod in pods)]


def _volcano_group(name: str, size: int, work: float) -> list[Manifest]:
    named = {other_kinds.VOLCANO_NAME: name}
    pods = [other_kinds.pod(f"{name}-{index}", annotations=dict(named)) for index in range(size)]
    return [other_kinds.volcano(name, size), *(_member(pod, name, size, work) for pod in pods)]


def _native_group(name: str, size: int, work: float) -> list[Manifest]:
    pods = [other_kinds.pod(f"{name}-{index}", schedulingGroup={"podGroupName": name}) for index in range(size)]
    return [other_kinds.native(name, size), *(_member(pod, name, size, work) for pod in pods)]


def _sized_gang(name: str, size: int, work: float) -> list[Manifest]:
    """Pods with our label and the number of them, without another object."""
    about = {"labels": {"windlass.dev/gang": name}, "annotations": {"windlass.dev/gang-size": str(size)}}
    pods = [other_kinds.pod(f"{name}-{index}", labels=about["labels"]) for index in range(size)]
    for pod in pods:
        pod["metadata"]["annotations"] = dict(about["annotations"])
    return [_member(pod, name, size, work) for pod in pods]


def _single_pod(name: str, _size: int, work: float) -> list[Manifest]:
    return [_member(other_kinds.pod(name), name, 1, work)]


def _member(pod: Manifest, gang_name: str, size: int, work: float) -> Manifest:
    pod["spec"]["containers"][0]["command"] = jobs.command(work)
    about = pod["metadata"]
    about["annotations"] = {**about.get("annotations", {}), GANG: gang_name}
    return _described(pod, size)


def _pod(work: float | None, container: str) -> Manifest:
    limits = {"limits": {jobs.GPU: "1"}}
    main = {"name": container, "image": "example.com/job:1", "command": jobs.command(work), "resources": limits}
    return {"schedulerName": "windlass", "terminationGracePeriodSeconds": 1, "containers": [main]}


def _object(version: str, kind: str, name: str, spec: Manifest) -> Manifest:
    about = {"name": name, "namespace": jobs.NAMESPACE}
    return {"apiVersion": version, "kind": kind, "metadata": about, "spec": spec}


_LOADS: Mapping[str, Callable[[str, int, float], list[Manifest]]] = {
    "training_job": _training_job,
    "failing_training_job": _failing_training_job,
    "pytorch_job": _pytorch_job,
    "pytorch_job_as_gang": _pytorch_job_as_gang,
    "tf_job": _kubeflow("TFJob", "tfReplicaSpecs", "tensorflow", "Chief"),
    "jax_job": _kubeflow("JAXJob", "jaxReplicaSpecs", "jax", ""),
    "xgboost_job": _kubeflow("XGBoostJob", "xgbReplicaSpecs", "xgboost", "Master"),
    "paddle_job": _kubeflow("PaddleJob", "paddleReplicaSpecs", "paddle", ""),
    "mpi_job": _mpi_job,
    "train_job": _train_job,
    "batch_job": _batch_job,
    "job_set": _job_set,
    "coscheduling_group": _coscheduling_group,
    "volcano_group": _volcano_group,
    "native_group": _native_group,
    "sized_gang": _sized_gang,
    "single_pod": _single_pod,
}
