"""Failures of real containers get their verdict: a missing image, too little memory, a claim that does not exist."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.user import IMAGE, User, until

pytestmark = [pytest.mark.timeout(600), pytest.mark.real_nodes]
EAT_MEMORY = "import time; held = [bytes(1 << 24).replace(b'\\0', b'x') for _ in range(64)]; time.sleep(60)"


def one_pod(name: str, command: list[str], *, spec: dict[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    """A PyTorchJob of one worker that is not restarted."""
    made = {"name": "pytorch", "image": IMAGE, "command": command, "resources": {"requests": {"cpu": "50m"}}}
    template = {"spec": {"terminationGracePeriodSeconds": 1, **(spec or {}), "containers": [{**made, **container}]}}
    workers = {"replicas": 1, "restartPolicy": "Never", "template": template}
    about = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name}}
    return {**about, "spec": {"runPolicy": {"backoffLimit": 0}, "pytorchReplicaSpecs": {"Worker": workers}}}


def verdict(user: User, job: str) -> tuple[str, str]:
    """Reason and message of the condition Diagnosed, once a job has it."""

    def found() -> tuple[str, str] | None:
        conditions = user.status(f"pytorchjobs/{job}").get("conditions") or []
        return next(((each["reason"], each["message"]) for each in conditions if each["type"] == "Diagnosed"), None)

    return until(f"the verdict on {job}", found)


def cause_of(user: User, job: str) -> str:
    """The cause that `windlass doctor JOB` names, once it names one."""
    return str(until(f"a cause of {job}", lambda: user.doctor(job)["verdict"], timeout=60)["cause"])


def test_memory_images_and_claims(user: User) -> None:
    limit = {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}}
    user.apply(
        one_pod("hungry", ["python3", "-c", EAT_MEMORY], resources=limit),
        one_pod("unknown", ["true"], image="windlass-no-such-image:1", imagePullPolicy="Never"),
        one_pod(
            "homeless",
            ["true"],
            spec={"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "no-such-claim"}}]},
            volumeMounts=[{"name": "data", "mountPath": "/data"}],
        ),
    )
    reason, message = verdict(user, "hungry")
    assert reason == "HostOomKilled", message
    assert ("PyTorchJobDiagnosed", message) in user.events("PyTorchJob/hungry")

    assert cause_of(user, "homeless") == "volume-claim"
    assert cause_of(user, "unknown") == "image-pull"
