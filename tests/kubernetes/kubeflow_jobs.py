"""Jobs as Kubeflow's operators leave them: their objects, pods, services and statuses, for a takeover.

Written from the sources of kubeflow/training-operator v1.9.0 (pkg/controller.v1/common, pkg/util/status.go) and
kubeflow/mpi-operator v0.8.2 (pkg/controller/mpi_job_controller.go), not from Windlass's own output. Pods bear the name
of the default scheduler, and are bound where a node is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kubeflow_operators import kinds
from kubeflow_operators.kinds import Kind, Manifest

from windlass.controlplane.api import Api

LABEL = "training.kubeflow.org/"
V1, V2, TRAINER = "kubeflow.org/v1", "kubeflow.org/v2beta1", "trainer.kubeflow.org/v1alpha1"
REPLICAS = {"TFJob": {"Chief": 1, "Worker": 2}, "PaddleJob": {"Worker": 2}}
"""Replicas of the jobs of some kinds; others have those of the plain manifests."""
KINDS = {
    f"{kind.name}V2" if kind is kinds.V2 else kind.name: replace(kind, replicas=REPLICAS.get(kind.name, kind.replicas))
    for kind in kinds.KINDS
}
STATES = ("created", "running", "restarting", "suspended", "succeeded", "failed")
RUNS = ("running", "restarting")


@dataclass
class LeftJob:
    """One job of a kind in one of STATES, with its object as the API server has it."""

    kind: Kind
    state: str
    name: str
    object: Manifest = field(default_factory=dict)

    @property
    def path(self) -> str:
        return f"/apis/{self.kind.version}/namespaces/default/{self.kind.plural}"

    async def get(self, api: Api) -> Manifest:
        return await api.get(f"{self.path}/{self.name}")


def conditions(job: LeftJob) -> list[Manifest]:
    """The conditions of a job in its state, in the order in which the operator has added them."""
    present = {
        "created": ("Created",),
        "running": ("Created", "Running"),
        "restarting": ("Created", "Restarting"),
        "suspended": ("Created", "Suspended"),
        "succeeded": ("Created", "Running", "Succeeded"),
        "failed": ("Created", "Running", "Failed"),
    }[job.state]
    last, at = present[-1], job.object["metadata"]["creationTimestamp"]
    words = {"Succeeded": "successfully completed", "Failed": "failed because 1 Worker replica(s) failed"}
    return [
        {
            "type": each,
            "status": "True" if each in (last, "Created") else "False",
            "reason": f"{job.kind.name}{each}",
            "message": f"{job.kind.name} {job.name} is {words.get(each, each.lower())}.",
            "lastUpdateTime": at,
            "lastTransitionTime": at,
        }
        for each in present
    ]


def status(job: LeftJob) -> Manifest:
    ended = job.state in ("succeeded", "failed")
    counted = {"running": "active", "restarting": "active", "succeeded": "succeeded", "failed": "failed"}
    counts = {counted[job.state]: 1} if job.state in counted else {}
    selector = f"{LABEL}job-name={job.name},{LABEL}operator-name={job.kind.name.lower()}-controller"
    replicas = {
        role: {**({name: count * number for name, number in counts.items()}), "selector": f"{selector},r={role}"}
        for role, count in job.kind.replicas.items()
    }
    at = job.object["metadata"]["creationTimestamp"]
    started = {} if job.state == "suspended" else {"startTime": at}
    return {
        "conditions": conditions(job),
        "replicaStatuses": replicas,
        **started,
        **({"completionTime": at} if ended else {}),
    }


def manifest(job: LeftJob, run_policy: Manifest | None = None) -> Manifest:
    container = {"name": job.kind.container, "image": "example.com/job:1", "command": ["run"]}
    container["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    replica = {"restartPolicy": "OnFailure" if job.state == "restarting" else "Never"}
    template = {"spec": {"containers": [container]}}
    specs = {role: {"replicas": count, **replica, "template": template} for role, count in job.kind.replicas.items()}
    policy = {"cleanPodPolicy": "None", **({"suspend": True} if job.state == "suspended" else {}), **(run_policy or {})}
    return {
        "apiVersion": job.kind.version,
        "kind": job.kind.name,
        "metadata": {"name": job.name, "namespace": "default"},
        "spec": {"runPolicy": policy, job.kind.specs: specs},
    }


def pods(job: LeftJob) -> list[Manifest]:
    """The pods of a job, without nodes, the master or launcher first; that of a launcher's Job is not among them."""
    spec, found = job.object["spec"][job.kind.specs], []
    for role, count in job.kind.replicas.items():
        for index in range(count):
            if job.kind.version == V2 and role == "Launcher":
                continue
            only = job.kind.name == "MPIJob" and role == "Launcher"
            name = f"{job.name}-{role.lower()}" + ("" if only else f"-{index}")
            labels = _labels(job, role, index)
            about = {"name": name, "namespace": "default", "labels": labels, "ownerReferences": [owner(job.object)]}
            template = spec[role]["template"]["spec"]
            pod_spec = {"restartPolicy": spec[role]["restartPolicy"], **template, "schedulerName": "default-scheduler"}
            found.append({"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": pod_spec})
    return found


def _labels(job: LeftJob, role: str, index: int) -> dict[str, str]:
    if job.kind.version == V2:
        one = {"operator-name": "mpi-operator", "job-name": job.name, "job-role": role.lower()}
        return {f"{LABEL}{name}": value for name, value in {**one, "replica-index": str(index)}.items()}
    one = {"operator-name": f"{job.kind.name.lower()}-controller", "job-name": job.name, "replica-type": role.lower()}
    lead = {"job-role": "master"} if role in ("Master", "Chief", "Launcher") else {}
    return {f"{LABEL}{name}": value for name, value in {**one, "replica-index": str(index), **lead}.items()}


def service(pod: Manifest) -> Manifest:
    about = pod["metadata"]
    shared = {name: about[name] for name in ("name", "namespace", "labels", "ownerReferences")}
    spec = {"clusterIP": "None", "selector": about["labels"], "ports": [{"name": "port", "port": 23456}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": shared, "spec": spec}


def owner(manifest: Manifest, version: str = "", kind: str = "") -> Manifest:
    return {
        "apiVersion": version or manifest["apiVersion"],
        "kind": kind or manifest["kind"],
        "name": manifest["metadata"]["name"],
        "uid": manifest["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def launcher_job(job: LeftJob) -> Manifest:
    """The launcher's Job of an MPIJob v2beta1."""
    labels = _labels(job, "Launcher", 0)
    launcher = job.object["spec"]["mpiReplicaSpecs"]["Launcher"]
    spec = {"restartPolicy": "Never", **launcher["template"]["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{job.name}-launcher",
            "namespace": "default",
            "labels": {"app": job.name},
            "ownerReferences": [owner(job.object)],
        },
        "spec": {"backoffLimit": 6, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }


def launcher_pod(job: LeftJob, made: Manifest) -> Manifest:
    """The pod that the Job controller creates from a launcher's Job."""
    template = made["spec"]["template"]
    about = {"name": f"{job.name}-launcher-x2k9z", "namespace": "default", "labels": _labels(job, "Launcher", 0)}
    about["ownerReferences"] = [owner(made, "batch/v1", "Job")]
    keep = {name: template["spec"][name] for name in ("containers", "restartPolicy")}
    spec = {**keep, "schedulerName": "default-scheduler"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}


async def leave(api: Api, job: LeftJob, nodes: Sequence[str], run_policy: Manifest | None = None) -> list[Manifest]:
    """Creates everything of a job. `nodes`: of its pods, in turn; "": unbound. Returns the pods."""
    job.object = await api.post(job.path, manifest(job, run_policy))
    made: list[Manifest] = []
    wanted: list[Manifest] = []
    if job.state in RUNS or (job.state == "created" and nodes):
        wanted = pods(job)
        if job.kind.version == V2:
            of_launcher = await api.post("/apis/batch/v1/namespaces/default/jobs", launcher_job(job))
            wanted.insert(0, launcher_pod(job, of_launcher))
    for pod, node in zip(wanted, nodes, strict=False):
        pod["spec"] |= {"nodeName": node} if node else {}
        made.append(await api.post("/api/v1/namespaces/default/pods", pod))
        if job.kind.name != "MPIJob":
            await api.post("/api/v1/namespaces/default/services", service(pod))
    job.object = await api.patch(f"{job.path}/{job.name}/status", {"status": status(job)})
    return made


def actions(job: LeftJob, found: Manifest, present: Sequence[Manifest]) -> list[str]:
    """Creations and deletions of pods by which Kubeflow's operator would answer to this object and these pods.

    Sources: training-operator ReconcileJobs and ReconcilePods (pkg/controller.v1/common); for MPIJobs of both
    versions getLauncherJob and getOrCreateWorker, which go by names.
    """
    true = {each["type"] for each in found["status"]["conditions"] if each["status"] == "True"}
    own = [pod for pod in present if _is_claimed(job, found, pod)]
    if true & {"Succeeded", "Failed"}:
        return []
    if found["spec"]["runPolicy"].get("suspend"):
        return [f"delete {pod['metadata']['name']}" for pod in own]
    wanted = []
    for role, count in job.kind.replicas.items():
        for index in range(count):
            if job.kind.version == V2 and role == "Launcher":
                continue
            same = [pod for pod in own if _is_replica(job, pod, role, index)]
            if not same:
                wanted.append(f"create {job.name}-{role.lower()}-{index}")
            elif len(same) > 1:
                wanted.append(f"{len(same)} pods of {job.name}-{role.lower()}-{index}")
            elif same[0]["spec"].get("schedulerName") == "windlass" and not same[0]["spec"].get("nodeName"):
                wanted.append(f"wait for ever for {same[0]['metadata']['name']}")
    return wanted


def _is_claimed(job: LeftJob, found: Manifest, pod: Manifest) -> bool:
    about = pod["metadata"]
    owned = any(each["uid"] == found["metadata"]["uid"] and each["controller"] for each in about["ownerReferences"])
    selector = {name: value for name, value in _labels(job, "Worker", 0).items() if "-name" in name}
    return owned and selector.items() <= about["labels"].items()


def _is_replica(job: LeftJob, pod: Manifest, role: str, index: int) -> bool:
    if job.kind.name == "MPIJob":
        only = job.kind.version == V1 and role == "Launcher"
        return pod["metadata"]["name"] == f"{job.name}-{role.lower()}" + ("" if only else f"-{index}")
    one = {f"{LABEL}replica-type": role.lower(), f"{LABEL}replica-index": str(index)}
    return one.items() <= pod["metadata"]["labels"].items()
