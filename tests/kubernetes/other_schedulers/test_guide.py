"""The commands of docs/guides/other-schedulers.md on a cluster with Kueue and an operator."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
from cli.cluster_terminal import WINDLASS, Terminal
from cli.operator_process import operator
from external.rig import until_empty
from operator_account import operator_kubeconfig
from planes.tidy import clear

from windlass.controlplane.build import find
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.fake_kubelet import FakeKubelets

from .kueue_queues import FLAVOR, GROUP

pytestmark = [pytest.mark.controllers, pytest.mark.timeout(240)]
LEASE = "windlass-operator"
JOB_FILE = """\
name: {name}
image: registry.example/digits:1
command: torchrun train.py
nodes: 2
gpus: 2
labels: {{kueue.x-k8s.io/queue-name: research}}
"""


async def until_why(terminal: Terminal, words: str, job: str) -> None:
    """Waits until `windlass why` says some words about a job."""
    said = ""
    try:
        async with asyncio.timeout(90):
            while words not in said:
                ran = await terminal("why", job)
                said = " ".join((ran.out + ran.err).split())
    except TimeoutError:
        raise AssertionError(said) from None


def test_a_submitted_job_waits_for_kueue_and_why_has_its_message(plane: ControlPlane, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with plane.api() as api, FakeKubelets(plane.admin) as kubelets:
            await kubelets.add_nodes(["g1", "g2"], gpus=4, labels=lambda _index: FLAVOR)
            terminal = Terminal(plane.kubeconfig, tmp_path, f"default/{LEASE}")
            async with operator(operator_kubeconfig(plane), LEASE):
                for name in ("first", "second"):
                    (tmp_path / f"{name}.yaml").write_text(JOB_FILE.format(name=name))
                    await terminal.done("submit", f"{name}.yaml")
                await until_why(terminal, "nvidia.com/gpu in flavor a100, 4 more needed", "second")
                await terminal.done("cancel", "first")
                await until_why(terminal, "Running on", "second")
            await api.delete("/apis/windlass.dev/v1alpha1/namespaces/default/trainingjobs")
            await api.delete(f"{GROUP}/namespaces/default/workloads")
            await clear(api)
            await until_empty(api)

    asyncio.run(scenario())


def test_kubectl_applies_what_render_prints(plane: ControlPlane, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB_FILE.format(name="digits"))
    rendered = subprocess.run(
        [WINDLASS, "render", "--for", "kueue", "job.yaml"], cwd=tmp_path, capture_output=True, check=True
    )
    kubectl = [find("kubectl"), "--kubeconfig", plane.kubeconfig]
    applied = subprocess.run([*kubectl, "apply", "-f", "-"], input=rendered.stdout, capture_output=True, check=True)
    assert applied.stdout.decode() == "jobset.jobset.x-k8s.io/digits created\n"
    subprocess.run([*kubectl, "delete", "jobset", "digits"], capture_output=True, check=True)
