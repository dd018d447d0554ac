"""The cases: variations of the plain manifests, with what is done to the job and to its pods."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from windlass.controlplane.fake_pod import Script

from . import cases_of_ends  # noqa: F401 - its cases are the first
from .kinds import (
    KINDS,
    V2,
    VARIATIONS,
    Case,
    Do,
    Kind,
    Manifest,
    base,
    each_pod,
    each_spec,
    finish,
    has_lead,
    is_first,
    of,
    replica_spec,
    run_policy,
    variation,
)

# --- suspension and scaling -----------------------------------------------------------------------------------


def suspend(is_suspended: bool) -> Do:
    return Do("patch", patch={"spec": {"runPolicy": {"suspend": is_suspended}}})


@variation()
def _suspended(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    run_policy(kind, manifest, suspend=True)
    return ()


@variation()
def _resumed(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    run_policy(kind, manifest, suspend=True)
    return suspend(False), *finish(kind)


@variation()
def _suspended_running(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    return suspend(True), suspend(False), *finish(kind)


def scale(kind: Kind, count: int) -> Do:
    return Do("patch", patch={"spec": {kind.specs: {"Worker": {"replicas": count}}}})


@variation()
def _scaled_up(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    return scale(kind, 3), *finish(kind)


@variation()
def _scaled_down(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    return scale(kind, 1), *finish(kind)


@variation(of("PyTorchJob"))
def _elastic(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    del manifest["spec"][kind.specs]["Master"]
    manifest["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 3, "rdzvBackend": "c10d", "maxRestarts": 10}
    return scale(kind, 3), Do("end")


def grows(kind: Kind) -> bool:
    return kind.name in ("PyTorchJob", "PaddleJob")


@variation(grows)
def _elastic_metrics(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    target = {"type": "Utilization", "averageUtilization": 80}
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    manifest["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 3, "maxRestarts": 3, "metrics": metrics}
    return ()


@variation(of("PyTorchJob"))
def _elastic_rendezvous(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    del manifest["spec"][kind.specs]["Master"]
    meeting = {"rdzvHost": "meeting", "rdzvPort": 29401, "rdzvId": "run", "rdzvBackend": "etcd"}
    more = {"rdzvConf": [{"key": "read_timeout", "value": "30"}], "nProcPerNode": 2}
    manifest["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 2, **meeting, **more}
    return ()


@variation(of("PyTorchJob"))
def _elastic_standalone(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    del manifest["spec"][kind.specs]["Master"]
    manifest["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 2, "standalone": True}
    return ()


# --- shapes of manifests --------------------------------------------------------------------------------------


@variation(has_lead)
def _lead_alone(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    specs = manifest["spec"][kind.specs]
    for role in [each for each in specs if each != kind.lead]:
        del specs[role]
    return finish(kind)


@variation(of("PyTorchJob"))
def _workers_alone(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    del manifest["spec"][kind.specs]["Master"]
    return (Do("end"),)


@variation()
def _no_replicas(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    """Without numbers: one of each type."""
    for spec in each_spec(kind, manifest):
        del spec["replicas"]
    return finish(kind)


@variation()
def _labels(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    manifest["metadata"] |= {"labels": {"team": "vision"}, "annotations": {"note": "of the job"}}
    for spec in each_spec(kind, manifest):
        spec["template"]["metadata"] = {"labels": {"app": "train"}, "annotations": {"note": "of the pod"}}
    return ()


@variation()
def _ports(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    for pod in each_pod(kind, manifest):
        pod["containers"][0]["ports"] = [{"name": f"{kind.name.lower()}-port", "containerPort": 24000}]
    return ()


@variation()
def _environment(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    for pod in each_pod(kind, manifest):
        pod["containers"][0]["env"] = [{"name": "MASTER_PORT", "value": "1"}, {"name": "MINE", "value": "2"}]
    return ()


@variation()
def _sidecar(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    for pod in each_pod(kind, manifest):
        pod["containers"].append({"name": "logs", "image": "example.com/logs:1"})
    return ()


@variation()
def _init_container(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    for pod in each_pod(kind, manifest):
        pod["initContainers"] = [{"name": "fetch", "image": "example.com/fetch:1"}]
    return ()


@variation()
def _host_network(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    for pod in each_pod(kind, manifest):
        pod["hostNetwork"] = True
    return ()


@variation()
def _gpus(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    for pod in each_pod(kind, manifest):
        pod["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 2, "cpu": "1", "memory": "1Gi"}}
    return finish(kind)


@variation()
def _volumes(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    for pod in each_pod(kind, manifest):
        pod["volumes"] = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]
        pod["containers"][0]["volumeMounts"] = [{"name": "shm", "mountPath": "/dev/shm"}]
    return ()


@variation()
def _arguments(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    for pod in each_pod(kind, manifest):
        pod["containers"][0] |= {"args": ["--epochs", "3"], "workingDir": "/srv"}
    return ()


@variation()
def _image_alone(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    for pod in each_pod(kind, manifest):
        del pod["containers"][0]["command"]
    return ()


@variation()
def _min_available(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    run_policy(kind, manifest, schedulingPolicy={"minAvailable": 2, "queue": "default"})
    return ()


@variation(of("PyTorchJob"))
def _processes_per_node(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    manifest["spec"]["nprocPerNode"] = "4"
    return ()


@variation(of("TFJob"))
def _dynamic_workers(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    manifest["spec"]["enableDynamicWorker"] = True
    manifest["spec"][kind.specs]["Worker"]["replicas"] = 2
    return ()


@variation(of("MPIJob"))
def _slots(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    manifest["spec"]["slotsPerWorker"] = 4
    return ()


@variation(of("MPIJob"))
def _fields_of_the_first_version(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    """v2beta1 does not have them."""
    manifest["spec"] |= {"mainContainer": "mpi", "cleanPodPolicy": "All"}
    return finish(kind)


@variation(is_first)
def _main_container(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    """The ranks of a worker start in its second container."""
    for pod in each_pod(kind, manifest):
        pod["containers"].append({"name": "ranks", "image": "example.com/ranks:1"})
    manifest["spec"]["mainContainer"] = "ranks"
    return finish(kind)


@variation(is_first)
def _own_clean_policy(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    manifest["spec"]["cleanPodPolicy"] = "Running"
    return finish(kind)


@variation(is_first)
def _both_clean_policies(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    manifest["spec"]["cleanPodPolicy"] = "All"
    run_policy(kind, manifest, cleanPodPolicy="None")
    return finish(kind)


@variation(is_first)
def _fields_of_the_second_version(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    launcher = {"runLauncherAsWorker": True, "launcherCreationPolicy": "WaitForWorkersReady"}
    manifest["spec"] |= {**launcher, "sshAuthMountPath": "/home/mpi/.ssh", "mpiImplementation": "Intel"}
    return finish(kind)


@variation(lambda kind: kind is V2)
def _keys_elsewhere(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    manifest["spec"]["sshAuthMountPath"] = "/home/mpi/.ssh"
    return finish(kind)


@variation(lambda kind: kind is V2)
def _intel(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    manifest["spec"]["mpiImplementation"] = "Intel"
    return ()


@variation(lambda kind: kind is V2)
def _mpich(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    manifest["spec"]["mpiImplementation"] = "MPICH"
    return ()


@variation(lambda kind: kind is V2)
def _launcher_as_worker(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    manifest["spec"]["runLauncherAsWorker"] = True
    return finish(kind)


@variation(lambda kind: kind is V2)
def _launcher_waits(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    manifest["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady"
    return finish(kind)


@variation(lambda kind: kind is V2)
def _launcher_as_worker_alone(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    manifest["spec"]["runLauncherAsWorker"] = True
    del manifest["spec"][kind.specs]["Worker"]
    return finish(kind)


@variation(lambda kind: kind is V2)
def _intel_launcher_as_worker(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    manifest["spec"] |= {"runLauncherAsWorker": True, "mpiImplementation": "Intel", "slotsPerWorker": 2}
    return scale(kind, 3), *finish(kind)


@variation(lambda kind: kind is V2)
def _launcher_waits_in_vain(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    """A worker's image cannot be pulled."""
    manifest["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady"
    annotations = Script(image_error="not found").annotation()
    manifest["spec"][kind.specs]["Worker"]["template"]["metadata"] = {"annotations": annotations}
    return ()


@variation(lambda kind: kind is V2)
def _launcher_waits_again(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    """The workers are created anew, after a suspension."""
    manifest["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady"
    return suspend(True), suspend(False), *finish(kind)


@variation()
def _managed_by_another(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    run_policy(kind, manifest, managedBy="kueue.x-k8s.io/multikueue")
    return ()


@variation()
def _wrong_container(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    for pod in each_pod(kind, manifest):
        pod["containers"][0]["name"] = "main"
    return ()


@variation()
def _wrong_role(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    manifest["spec"][kind.specs]["Helper"] = replica_spec(kind, 1)
    return ()


@variation(has_lead)
def _two_leads(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    manifest["spec"][kind.specs][kind.lead]["replicas"] = 2
    return ()


@variation(lambda kind: kind.name in ("PyTorchJob", "PaddleJob"))
def _no_workers(kind: Kind, manifest: Manifest) -> tuple[Do, ...]:
    manifest["spec"][kind.specs]["Worker"]["replicas"] = 0
    return ()


def cases(kinds: tuple[Kind, ...] = KINDS) -> Iterator[Case]:
    for kind in kinds:
        for name, (change, applies) in VARIATIONS.items():
            if applies(kind):
                manifest = copy.deepcopy(base(kind))
                actions = change(kind, manifest)
                yield Case(kind, name, manifest, (Do("create"), *actions))
