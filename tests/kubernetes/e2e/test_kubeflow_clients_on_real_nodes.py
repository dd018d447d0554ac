"""The digits function by both Python clients of Kubeflow, run as a user runs the examples, on two real nodes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from e2e.user import IMAGE, ROOT, User

pytestmark = [pytest.mark.timeout(600), pytest.mark.real_nodes]


def output_of(user: User, script: str, *words: str) -> str:
    command = [sys.executable, str(ROOT / "examples/kubeflow" / script), "--image", IMAGE]
    ran = subprocess.run(
        [*command, "--namespace", user.namespace, "--epochs", "2", *words],
        env={**os.environ, "KUBECONFIG": str(user.kubeconfig)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def test_the_training_client_trains_a_function_on_two_pods(user: User) -> None:
    output = output_of(user, "training_client.py", "--name", "digits")
    assert "2 ranks, test accuracy 0." in output
    assert output.splitlines()[-1] == "Succeeded", output
    replicas = user.status("pytorchjobs/digits")["replicaStatuses"]
    assert [each["succeeded"] for each in replicas.values()] == [1, 1]


def test_the_trainer_client_trains_a_function_on_two_nodes(user: User) -> None:
    output = output_of(user, "trainer_client.py")
    assert "2 ranks, test accuracy 0." in output
    assert output.splitlines()[-1] == "Complete", output
