"""Jobs of three kinds run to their ends on two real nodes, and restart when a pod is lost."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from e2e.user import IMAGE, ROOT, User, processes_of, provide_checkpoints, true_conditions, until

pytestmark = [pytest.mark.timeout(600), pytest.mark.real_nodes]
EXAMPLES = ROOT / "examples/kubernetes"
PYTHON_ON_EACH = """
import os
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "meets at", os.environ["MASTER_ADDR"])
"""


def two_pods(name: str, script: str) -> dict[str, Any]:
    """A PyTorchJob of two workers; each has its generation in its environment."""
    generation = {"fieldRef": {"fieldPath": "metadata.labels['windlass.dev/generation']"}}
    container = {
        "name": "pytorch",
        "image": IMAGE,
        "command": ["sh", "-c", script],
        "env": [{"name": "GENERATION", "valueFrom": generation}],
        "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}},
    }
    template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}
    workers = {"replicas": 2, "restartPolicy": "OnFailure", "template": template}
    spec = {"runPolicy": {"restartMode": "gang"}, "pytorchReplicaSpecs": {"Worker": workers}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name}, "spec": spec}


def test_digits_training_that_loses_a_process_ends_with_the_same_result(user: User, tmp_path: Path) -> None:
    provide_checkpoints(user, tmp_path / "checkpoints")
    user.kubectl("create", "configmap", "digits", f"--from-file={ROOT / 'examples/digits/train.py'}")
    user.kubectl("apply", "-f", str(EXAMPLES / "digits.yaml"))
    until("both pods to run", lambda: user.running(1, 2))
    master, worker = user.pods(1)
    assert master["spec"]["nodeName"] != worker["spec"]["nodeName"]

    for line in user.follow("digits-master-0"):
        if "epoch 3/" in line:
            os.kill(processes_of(worker)[0], signal.SIGKILL)
    until("generation 2", lambda: user.running(2, 2))
    output = "".join(user.follow("digits-master-0"))
    until("the job to succeed", lambda: user.ended("pytorchjobs/digits"))

    assert re.search(r"resumed after epoch [1-9]", output), output
    assert "test accuracy 0.9889" in output, output  # as on the local backend without a fault
    status = user.status("pytorchjobs/digits")
    assert (status["attempts"], status["failures"]) == (2, {"user": 0, "infrastructure": 1, "preemption": 0})
    assert "digits-worker-0" in status["lastFailure"]["message"]
    assert "SIGKILL" in status["lastFailure"]["message"]
    assert [each.get("succeeded") for each in status["replicaStatuses"].values()] == [1, 1]
    assert not [pod for generation in (1, 3) for pod in user.pods(generation)]


def test_a_deleted_pod_restarts_its_gang_and_is_reported(user: User) -> None:
    user.apply(two_pods("pair", '[ "$GENERATION" = 2 ] || sleep 600'))
    until("both pods to run", lambda: user.running(1, 2))
    first = {pod["metadata"]["uid"] for pod in user.pods(1)}

    user.kubectl("delete", "pod", "pair-worker-1", "--wait=false")
    until("the job to succeed", lambda: user.ended("pytorchjobs/pair"))

    second = user.pods(2)
    assert len(second) == 2
    assert not first & {pod["metadata"]["uid"] for pod in second}
    status = user.status("pytorchjobs/pair")
    assert (status["attempts"], status["failures"]["infrastructure"]) == (2, 1)
    events = user.events("PyTorchJob/pair")
    ends = ("PyTorchJobRestarting", "PyTorchJobSucceeded")
    assert [reason for reason, _ in events if reason in ends][-1] == "PyTorchJobSucceeded"
    restarts = [note for reason, note in events if reason == "PyTorchJobRestarting"]
    assert any("pair-worker-1" in note or "worker/1" in note for note in restarts), events


def test_a_job_recreated_at_once_is_a_new_job(user: User) -> None:
    job = two_pods("again", 'trap "sleep 2; exit 0" TERM; sleep 6 & wait')
    user.apply(job)
    until("both pods to run", lambda: user.running(1, 2))
    first = {pod["metadata"]["uid"] for pod in user.pods(1)}

    user.kubectl("delete", "pytorchjob", "again")
    user.apply(job)
    until("the job to succeed", lambda: user.ended("pytorchjobs/again"))

    assert user.status("pytorchjobs/again")["attempts"] == 1
    assert not first & {pod["metadata"]["uid"] for pod in user.pods(1)}


def test_an_mpijob_reaches_its_workers_and_leaves_its_launchers_log(user: User) -> None:
    user.kubectl("create", "configmap", "pi", f"--from-file={EXAMPLES / 'pi.py'}")
    user.kubectl("apply", "-f", str(EXAMPLES / "pi.yaml"))
    until("the job to succeed", lambda: user.ended("mpijobs/pi"))

    output = user.kubectl("logs", "-l", "training.kubeflow.org/job-role=launcher")
    assert sorted(re.findall(r"rank \d of 4 on (\S+)", output)) == ["pi-worker-0"] * 2 + ["pi-worker-1"] * 2
    assert "pi is about 3.14" in output
    assert user.status("mpijobs/pi")["replicaStatuses"]["Launcher"]["succeeded"] == 1
    until(
        "the workers left",
        lambda: [pod["metadata"]["name"][:11] for pod in user.read("pods")["items"]] == ["pi-launcher"],
    )


def test_an_mpijob_with_gang_restart_restarts_when_a_worker_is_deleted(user: User) -> None:
    user.kubectl("create", "configmap", "pi", f"--from-file={EXAMPLES / 'pi.py'}")
    written = (EXAMPLES / "pi.yaml").read_text()
    gang = written.replace("runPolicy: {", "runPolicy: {restartMode: gang, ")
    assert gang != written
    user.kubectl("apply", "-f", "-", stdin=gang.replace("[mpirun,", "[sh, -c, 'sleep 3; exec \"$@\"', sh, mpirun,"))
    until("launcher and workers to run", lambda: user.running(1, 3))

    user.kubectl("delete", "pod", "pi-worker-1", "--wait=false")  # its sshd exits with 0 on SIGTERM
    until("the job to succeed", lambda: user.ended("mpijobs/pi"))

    status = user.status("mpijobs/pi")
    assert (status["attempts"], status["failures"]["infrastructure"], status["failures"]["user"]) == (2, 1, 0)
    assert "worker/1" in status["lastFailure"]["message"]
    assert "pi is about 3.14" in user.kubectl("logs", "-l", "training.kubeflow.org/job-role=launcher")


def test_the_command_line_ships_the_code_and_ends_with_the_job(user: User, tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text(PYTHON_ON_EACH)
    words = ["run", "--on", "kubernetes", "-n", user.namespace, "--name", "hello", "--image", IMAGE, "--ship", "."]
    output = user.windlass(*words, "-N", "2", "--cpus", "0.1", "--", "python", "hello.py", folder=tmp_path)

    assert [f"[r{rank}" in output and f"rank {rank} of 2 meets at hello-" in output for rank in (0, 1)] == [
        True,
        True,
    ], output
    [job] = user.read("trainingjobs")["items"]
    assert "Succeeded" in true_conditions(job["status"])


def test_the_operator_passes_its_own_check(user: User) -> None:
    found = json.loads(user.windlass("operator", "check", "-o", "json"))
    assert not [row for row in found if row["severity"] == "error"], found
    pods = json.loads(user.kubectl("get", "pods", "-n", "windlass-system", "-o", "json"))["items"]
    assert [pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods] == [0] * len(pods)
    assert "Traceback" not in user.kubectl("logs", "-n", "windlass-system", "deployment/windlass-operator")
