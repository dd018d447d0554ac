"""Gangs of every kind, small and short-lived. A program is its command: ["work", seconds, exit code]."""

from __future__ import annotations

from typing import Any

from windlass.controlplane.fake_pod import Script

NAMESPACE = "default"
PYTORCHJOBS = "/apis/kubeflow.org/v1/pytorchjobs"
TRAININGJOBS = "/apis/windlass.dev/v1alpha1/trainingjobs"
POD_GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
JOB_LISTS = (TRAININGJOBS, PYTORCHJOBS)
SCHEDULES = "/apis/windlass.dev/v1alpha1/crontrainingjobs"
LISTS = (SCHEDULES, *JOB_LISTS, POD_GROUPS, "/api/v1/services", "/api/v1/configmaps")
GPU = "nvidia.com/gpu"
Manifest = dict[str, Any]


def program(pod: Manifest) -> Script:
    """The behaviour of a pod: works for some seconds, or without end, and exits with this code."""
    command = pod["spec"]["containers"][0].get("command") or ["work"]
    has_end = command[0] == "work" and len(command) > 1
    return Script(work=float(command[1]), code=int(command[2])) if has_end else Script()


def command(work: float | None, code: int = 0) -> list[str]:
    return ["work"] if work is None else ["work", str(work), str(code)]


def training_job(name: str, size: int, work: float | None = None, namespace: str = NAMESPACE, **more: Any) -> Manifest:
    spec = {"nodes": size, "gpus": 1, "image": "example.com/job:1", "command": command(work), "grace": "1s", **more}
    return _object("windlass.dev/v1alpha1", "TrainingJob", name, spec, namespace)


def schedule(name: str, work: float | None = None, **spec: Any) -> Manifest:
    """A suspended schedule of every hour, whose runs are gangs of two."""
    template = {"spec": training_job(name, 2, work)["spec"]}
    fields = {"schedule": "0 * * * *", "suspend": True, "jobTemplate": template, **spec}
    return _object("windlass.dev/v1alpha1", "CronTrainingJob", name, fields)


def pytorch_job(name: str, size: int, work: float | None = None, *, gang: bool = False, code: int = 0) -> Manifest:
    """`gang`: restarted as a whole; otherwise its pods restart one by one."""
    roles = {"Master": 1, "Worker": size - 1}
    specs = {
        role: {"replicas": count, "restartPolicy": "OnFailure", "template": {"spec": _pod(command(work, code))}}
        for role, count in roles.items()
        if count
    }
    policy = {"cleanPodPolicy": "None", **({"restartMode": "gang"} if gang else {})}
    return _object("kubeflow.org/v1", "PyTorchJob", name, {"runPolicy": policy, "pytorchReplicaSpecs": specs})


def pod_group(name: str, size: int, work: float | None = None) -> list[Manifest]:
    """An external gang: the PodGroup and its pods."""
    group = _object("scheduling.x-k8s.io/v1alpha1", "PodGroup", name, {"minMember": size})
    return [group, *(_grouped(name, index, work) for index in range(size))]


def single(name: str, work: float | None = None, scheduler: str = "default-scheduler") -> Manifest:
    """A single pod."""
    return _object("v1", "Pod", name, {"restartPolicy": "Never", **_pod(command(work)), "schedulerName": scheduler})


def path(manifest: Manifest) -> str:
    """API path under which objects of this kind are created."""
    plurals = {
        "Pod": "pods",
        "PodGroup": "podgroups",
        "TrainingJob": "trainingjobs",
        "PyTorchJob": "pytorchjobs",
        "CronTrainingJob": "crontrainingjobs",
    }
    version, plural = manifest["apiVersion"], plurals[manifest["kind"]]
    root = "/api/v1" if version == "v1" else f"/apis/{version}"
    return f"{root}/namespaces/{manifest['metadata']['namespace']}/{plural}"


def mixture(number: int, work: float) -> list[Manifest]:
    """The objects of one gang; kinds and sizes alternate with the number."""
    name, size = f"gang-{number}", 2 + number % 3
    return (
        lambda: [training_job(name, size, work)],
        lambda: [pytorch_job(name, size, work)],
        lambda: [pytorch_job(name, size, work, gang=True)],
        lambda: pod_group(name, size, work),
    )[number % 4]()


def _pod(command: list[str]) -> Manifest:
    limits = {"limits": {GPU: "1"}}
    container = {"name": "pytorch", "image": "example.com/job:1", "command": command, "resources": limits}
    return {"schedulerName": "windlass", "terminationGracePeriodSeconds": 1, "containers": [container]}


def _grouped(group: str, index: int, work: float | None) -> Manifest:
    pod = single(f"{group}-{index}", work, "windlass")
    pod["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": group}
    return pod


def _object(api_version: str, kind: str, name: str, spec: Manifest, namespace: str = NAMESPACE) -> Manifest:
    about = {"name": name, "namespace": namespace}
    return {"apiVersion": api_version, "kind": kind, "metadata": about, "spec": spec}
