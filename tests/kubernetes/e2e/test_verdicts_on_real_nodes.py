"""Failures of real containers get their verdict by themselves, while the job waits or when it has ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from e2e.user import IMAGE, User, inside, until
from windlass.controlplane.real_nodes import RealCluster

pytestmark = [pytest.mark.timeout(600), pytest.mark.real_nodes]
EAT_MEMORY = "import time; held = [bytes(1 << 24).replace(b'\\0', b'x') for _ in range(64)]; time.sleep(60)"
FILL = "open('{}/checkpoint', 'wb').write(bytes(1 << 28))"
SHARE = "import torch; torch.ones(1 << 26).share_memory_()"
TAKEN = (
    "import socket; first, second = socket.socket(), socket.socket(); [s.bind(('', 29500)) for s in (first, second)]"
)
KILLED = "import os, sys; sys.exit(128 + 9 * (os.fork() == 0 and not os.kill(os.getpid(), 9) or os.wait()[1] == 9))"
SMALL_DISK = {"name": "disk", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}}
SCRIPTS = {"name": "scripts", "configMap": {"name": "scripts", "defaultMode": 0o755}}
NO_FOLDER = {"name": "data", "hostPath": {"path": "/no-such-folder", "type": "Directory"}}
NO_MAP = {"name": "scripts", "configMap": {"name": "no-such-map"}}
UNEXECUTABLE = {"name": "scripts", "configMap": {"name": "scripts", "defaultMode": 0o644}}


class Case(NamedTuple):
    """A job that fails or waits, and the reason of its condition Diagnosed."""

    reason: str
    command: list[str]
    container: Mapping[str, Any] = {}
    volumes: tuple[tuple[Mapping[str, Any], str], ...] = ()
    """Volumes with the paths at which the container mounts them."""
    policy: Mapping[str, Any] = {}


def python(script: str) -> list[str]:
    return ["python3", "-c", script]


def claim(name: str) -> tuple[Mapping[str, Any], str]:
    return {"name": "data", "persistentVolumeClaim": {"claimName": name}}, "/data"


LIMIT = {"resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}}}
NO_IMAGE = {"image": "windlass-no-such-image:1", "imagePullPolicy": "Never"}
NO_CONFIG = {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "no-such-map", "key": "a"}}}]}

ENDS = {
    "killed": Case("Exit137", python(KILLED)),
    "hungry": Case("HostOomKilled", python(EAT_MEMORY), LIMIT),
    "full-disk": Case("DiskFull", python(FILL.format("/disk")), {}, ((SMALL_DISK, "/disk"),)),
    "small-shm": Case("ShmTooSmall", python(SHARE)),
    "no-package": Case("PackageMissing", python("import no_such_package")),
    "port-taken": Case("RendezvousPortInUse", python(TAKEN)),
    "no-program": Case("ExecutableMissing", ["no-such-program"]),
    "wrong-format": Case("ExecFormat", ["/scripts/bad"], {}, ((SCRIPTS, "/scripts"),)),
    "not-executable": Case("ExecutableMissing", ["/scripts/bad"], {}, ((UNEXECUTABLE, "/scripts"),)),
    "too-long": Case("DeadlineExceeded", ["sleep", "100"], policy={"activeDeadlineSeconds": 2}),
}
WAITS = {
    "no-image": Case("ImagePull", ["true"], NO_IMAGE),
    "no-claim": Case("VolumeClaim", ["true"], volumes=(claim("no-such-claim"),)),
    "unbound-claim": Case("VolumeClaim", ["true"], volumes=(claim("unbound"),)),
    "no-config": Case("ConfigMissing", ["true"], NO_CONFIG),
    "no-mount": Case("VolumeMount", ["true"], volumes=((NO_FOLDER, "/data"),)),
    "no-map": Case("ConfigMissing", ["true"], volumes=((NO_MAP, "/scripts"),)),
}


def one_pod(name: str, case: Case) -> dict[str, Any]:
    """A PyTorchJob of one worker that is not restarted."""
    usual = {"name": "pytorch", "image": IMAGE, "command": case.command, "resources": {"requests": {"cpu": "10m"}}}
    mounts = [{"name": volume["name"], "mountPath": path} for volume, path in case.volumes]
    container = {**usual, "volumeMounts": mounts, **case.container}
    spec = {
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [each for each, _ in case.volumes],
    }
    workers = {"replicas": 1, "restartPolicy": "Never", "template": {"spec": spec}}
    about = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name}}
    return {
        **about,
        "spec": {"runPolicy": {"backoffLimit": 0, **case.policy}, "pytorchReplicaSpecs": {"Worker": workers}},
    }


@pytest.fixture(scope="module")
def failing(operated: RealCluster) -> Iterator[User]:
    """A namespace in which a job of each case was submitted, all at once."""
    with inside(operated, "failing") as user:
        broken = {"metadata": {"name": "scripts"}, "binaryData": {"bad": "f0VMRmJhZAo="}}
        size = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}
        user.apply(
            {"apiVersion": "v1", "kind": "ConfigMap", **broken},
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "unbound"}, "spec": size},
            *(one_pod(name, case) for name, case in {**ENDS, **WAITS}.items()),
        )
        yield user


def verdict(user: User, job: str) -> tuple[str, str]:
    """Reason and message of the condition Diagnosed, once a job has it."""

    def found() -> tuple[str, str] | None:
        conditions = user.status(f"pytorchjobs/{job}").get("conditions") or []
        return next(((each["reason"], each["message"]) for each in conditions if each["type"] == "Diagnosed"), None)

    return until(f"the verdict on {job}", found)


@pytest.mark.parametrize("name", ENDS)
def test_a_job_that_has_failed_has_its_verdict(failing: User, name: str) -> None:
    reason, message = verdict(failing, name)
    assert (reason, message.partition(": ")[0]) == (ENDS[name].reason, "attempt 1"), message
    until("its event", lambda: ("PyTorchJobDiagnosed", message) in failing.events(f"PyTorchJob/{name}"))


@pytest.mark.parametrize("name", WAITS)
def test_a_job_that_waits_has_its_verdict_and_goes_on_waiting(failing: User, name: str) -> None:
    reason, message = verdict(failing, name)
    assert (reason, "waits: " in message) == (WAITS[name].reason, True), message
    until("its event", lambda: ("PyTorchJobDiagnosed", message) in failing.events(f"PyTorchJob/{name}"))
    assert not failing.ended(f"pytorchjobs/{name}")
    asked = until("the same cause on request", lambda: failing.doctor(name)["verdict"], timeout=60)
    assert asked["rule"].replace("-", "") == reason.lower()


def test_pods_that_a_resource_quota_refuses_are_told(user: User) -> None:
    user.kubectl("create", "quota", "none", "--hard=pods=0")
    user.apply(one_pod("refused", Case("QuotaExceeded", ["true"])))
    reason, message = verdict(user, "refused")
    assert reason == "QuotaExceeded", message
    assert "exceeded quota: none" in message
