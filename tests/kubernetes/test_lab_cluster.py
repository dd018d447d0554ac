"""The cluster of the workshop: Windlass is installed on it, and a learner's commands reach its operator."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from planes.fixtures import refuse

import strays
from windlass.controlplane import kueue
from windlass.controlplane.cluster_folder import ClusterFolder
from windlass.controlplane.lasting_cluster import LastingState
from windlass.labs.errors import LabStateError
from windlass.labs.lab_cluster import cluster_down, cluster_status, cluster_up

pytestmark = [pytest.mark.installers, pytest.mark.timeout(500)]


QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: small}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu, memory, nvidia.com/gpu]
    flavors:
    - name: any
      resources:
      - {name: cpu, nominalQuota: 100}
      - {name: memory, nominalQuota: 1Ti}
      - {name: nvidia.com/gpu, nominalQuota: 1}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: small, namespace: default}
spec: {clusterQueue: small}
"""
"""A queue of Kueue with one GPU."""
JOB = """
image: any
command: sleep 60
gpus: 1
labels: {kueue.x-k8s.io/queue-name: small}
"""


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "cluster"
    cluster_down(tmp_path / "cluster")


def shell(root: Path, line: str) -> str:
    """Runs what a learner types, with the programs and the kubeconfig of the cluster."""
    folder = ClusterFolder(root)
    path = f"{Path(sys.executable).parent}:{folder.programs}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "KUBECONFIG": str(folder.kubeconfig), "WINDLASS_CONFIG": f"{root}/config.yaml"}
    done = subprocess.run(["sh", "-euc", line], check=False, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.controllers
def test_on_fake_nodes_jobs_are_scheduled_and_namespaces_can_be_deleted(root: Path) -> None:
    told: list[str] = []
    cluster_up(root, told.append, real=False, gpus=4)
    assert told[-1] == "installation of Windlass, and start of its operator"
    found = cluster_status(root)
    assert (found.cluster.state, found.nodes_ready, found.trouble) == (LastingState.READY, 2, "")
    assert found.operator
    with pytest.raises(LabStateError, match=r"is up already .*\nend it: windlass lab cluster down"):
        cluster_up(root, told.append, real=False)
    # the queries of the operator, through the API server
    shell(root, "kubectl wait --for=condition=Available apiservice/v1.queries.windlass.dev --timeout=60s")
    assert "0/4" in shell(root, "windlass nodes --on kubernetes")
    # a gang of two pods, each with four GPUs: one for each node
    shell(root, "kubectl create namespace lab-a1")
    submit = (
        "windlass submit --on kubernetes --namespace lab-a1 --name gang --image any -N 2 --gpus 4 --procs 1 -- true"
    )
    shell(root, submit)
    shell(root, "kubectl -n lab-a1 wait --for=condition=Ready pod --all --timeout=60s")
    nodes = shell(root, "kubectl -n lab-a1 get pods -o jsonpath='{.items[*].spec.nodeName}'")
    assert sorted(nodes.split()) == ["n1", "n2"]
    # the reset of a lab
    shell(root, "kubectl delete namespace lab-a1 --timeout=60s")
    assert cluster_down(root)
    assert list(root.rglob("history*")) == []
    assert cluster_status(root).cluster.state is LastingState.DOWN


@pytest.mark.controllers
def test_with_kueue_a_job_of_windlass_waits_for_its_quota(root: Path, tmp_path: Path) -> None:
    if lacking := kueue.lacking():
        refuse(lacking)
    cluster_up(root, print, real=False, kueue=True)
    (tmp_path / "queue.yaml").write_text(QUEUE)
    shell(root, f"kubectl apply -f {tmp_path}/queue.yaml")
    for name in ("first", "second"):
        (tmp_path / f"{name}.yaml").write_text(f"name: {name}\n{JOB}")
        shell(root, f"windlass submit --on kubernetes {tmp_path}/{name}.yaml")
    give_up = time.monotonic() + strays.TIMEOUT_S
    while (found := sorted(admitted(root))) != ["<none>", "True"]:
        assert time.monotonic() < give_up, found
        time.sleep(0.2)


def admitted(root: Path) -> list[str]:
    """The conditions Admitted of all Workloads of Kueue."""
    columns = "custom-columns=A:.status.conditions[?(@.type=='Admitted')].status"
    return shell(root, f'kubectl get workloads.kueue.x-k8s.io --no-headers -o "{columns}"').split()


@pytest.mark.real_nodes
def test_on_real_nodes_a_gang_runs_to_its_end(root: Path) -> None:
    cluster_up(root, print, real=True)
    code = "import os; print(os.environ['RANK'], os.environ['WORLD_SIZE'])"
    command = "windlass run --on kubernetes --image windlass-examples:1 -N 2 --cpus 0.2"
    output = shell(root, f'{command} -- python -c "{code}"')
    assert {line.partition("] ")[2] for line in output.splitlines()} == {"0 2", "1 2"}
