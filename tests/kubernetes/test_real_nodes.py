"""The nodes of the third grade run what clusters run: torchrun across nodes, mpirun over SSH, and what ends badly."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from windlass.controlplane.api import Api, ApiError
from windlass.controlplane.images import IMAGE
from windlass.controlplane.real_nodes import RealCluster

pytestmark = pytest.mark.timeout(300)
CORE = "/api/v1/namespaces/default"
TIMEOUT_S = 200.0
"""Seconds: processes that import torch take ten on an idle machine."""

SUM = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} on {os.uname().nodename}: {total.item()}")
dist.destroy_process_group()
"""


def pod(name: str, node: str, command: Sequence[str], **more: Any) -> dict[str, Any]:
    """Bound already: this is no test of schedulers. `more` goes into the container."""
    container = {"name": "main", "image": IMAGE, "command": [*command], **more}
    spec = {"nodeName": node, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"metadata": {"name": name, "labels": {"pod": name}}, "spec": spec}


async def until(api: Api, name: str, found: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            if found(one := await api.get(f"{CORE}/pods/{name}")):
                return one
            await asyncio.sleep(0.1)


async def until_gone(api: Api, name: str) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            try:
                await api.get(f"{CORE}/pods/{name}")
            except ApiError as failed:
                if failed.status == 404:
                    return
                raise
            await asyncio.sleep(0.1)


def phase(*wanted: str) -> Callable[[dict[str, Any]], bool]:
    return lambda one: one["status"]["phase"] in wanted


async def end_of(api: Api, name: str) -> tuple[str, str]:
    """The phase in which a pod ended, and what it said."""
    ended = await until(api, name, phase("Succeeded", "Failed"))
    return ended["status"]["phase"], (await api.get(f"{CORE}/pods/{name}/log"))["text"]


async def headless(api: Api, name: str) -> None:
    """A service without an address of its own: its name is its pod's address, ready or not."""
    spec = {"clusterIP": "None", "selector": {"pod": name}, "publishNotReadyAddresses": True}
    await api.post(f"{CORE}/services", {"metadata": {"name": name}, "spec": spec})


async def remove(api: Api, *names: str) -> None:
    for name in names:
        await api.delete(f"{CORE}/pods/{name}", gracePeriodSeconds=1)
    for name in names:
        await until_gone(api, name)


def test_torchrun_ranks_meet_across_nodes_by_the_name_of_a_service(real_nodes: RealCluster) -> None:
    async def story() -> None:
        async with real_nodes.plane.api() as api:
            await api.post(f"{CORE}/configmaps", {"metadata": {"name": "script"}, "data": {"sum.py": SUM}})
            await headless(api, "job-master-0")
            names = ["job-master-0", "job-worker-0"]
            for rank, (name, node) in enumerate(zip(names, real_nodes.nodes, strict=True)):
                torchrun = ["torchrun", "--nnodes=2", "--nproc-per-node=1", f"--node-rank={rank}"]
                meet = ["--master-addr=job-master-0", "--master-port=23456", "/code/sum.py"]
                member = pod(name, node.name, [*torchrun, *meet], env=[{"name": "OMP_NUM_THREADS", "value": "1"}])
                member["spec"]["volumes"] = [{"name": "code", "configMap": {"name": "script"}}]
                member["spec"]["containers"][0]["volumeMounts"] = [{"name": "code", "mountPath": "/code"}]
                await api.post(f"{CORE}/pods", member)
            ends = [await end_of(api, name) for name in names]
            assert [phase for phase, _ in ends] == ["Succeeded", "Succeeded"], ends
            assert "rank 0 of 2 on job-master-0: 2.0" in ends[0][1]
            assert "rank 1 of 2 on job-worker-0: 2.0" in ends[1][1]
            await remove(api, *names)

    asyncio.run(story())


def test_mpirun_reaches_its_workers_over_ssh(real_nodes: RealCluster) -> None:
    async def story() -> None:
        workers = ["mpi-worker-0", "mpi-worker-1"]
        mount = [{"name": "keys", "mountPath": "/root/.ssh"}]
        keys = [{"name": "keys", "secret": {"secretName": "mpi-keys", "defaultMode": 0o600}}]
        async with real_nodes.plane.api() as api:
            await api.post(f"{CORE}/secrets", {"metadata": {"name": "mpi-keys"}, "data": ssh_keys()})
            for name, node in zip(workers, real_nodes.nodes, strict=True):
                await headless(api, name)
                worker = pod(name, node.name, ["/usr/sbin/sshd", "-De"], volumeMounts=mount)
                worker["spec"]["volumes"] = keys
                await api.post(f"{CORE}/pods", worker)
            for name in workers:
                await until(api, name, phase("Running"))
            mpirun = "mpirun --allow-run-as-root -n 4 --host mpi-worker-0:2,mpi-worker-1:2 hostname"
            # mpirun's own warnings (a `setpgid` after the child's exec) are no output of a rank
            ranks_only = ["sh", "-c", f"{mpirun} 2>/tmp/errors || {{ cat /tmp/errors; exit 1; }}"]
            launcher = pod("mpi-launcher", real_nodes.nodes[0].name, ranks_only, volumeMounts=mount)
            launcher["spec"]["volumes"] = keys
            await api.post(f"{CORE}/pods", launcher)
            ended, output = await end_of(api, "mpi-launcher")
            assert (ended, sorted(output.split())) == ("Succeeded", sorted(workers * 2))
            await remove(api, "mpi-launcher", *workers)

    asyncio.run(story())


def ssh_keys() -> dict[str, str]:
    key = ed25519.Ed25519PrivateKey.generate()
    openssh, pem = serialization.PrivateFormat.OpenSSH, serialization.Encoding.PEM
    private = key.private_bytes(pem, openssh, serialization.NoEncryption())
    form, encoding = serialization.PublicFormat.OpenSSH, serialization.Encoding.OpenSSH
    public = key.public_key().public_bytes(encoding, form)
    files = {"id_ed25519": private, "authorized_keys": public}
    return {name: base64.b64encode(content).decode() for name, content in files.items()}


def test_a_container_that_exceeds_its_memory_limit_is_killed(real_nodes: RealCluster) -> None:
    async def story() -> None:
        async with real_nodes.plane.api() as api:
            limits = {"limits": {"memory": "64Mi"}}
            greedy = pod("greedy", "n1", ["python", "-c", "x = bytearray(256 * 2**20)"], resources=limits)
            await api.post(f"{CORE}/pods", greedy)
            failed = await until(api, "greedy", phase("Failed"))
            assert failed["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] == "OOMKilled"
            await remove(api, "greedy")

    asyncio.run(story())


def test_an_image_has_every_given_name_and_no_other(real_nodes: RealCluster) -> None:
    async def story() -> None:
        real_nodes.know_images("kubeflow/pytorch-mnist:v1")
        async with real_nodes.plane.api() as api:
            await api.post(f"{CORE}/pods", pod("known", "n1", ["true"], image="kubeflow/pytorch-mnist:v1"))
            await until(api, "known", phase("Succeeded"))
            nowhere = {"image": "localhost/nowhere:1", "imagePullPolicy": "Never"}
            await api.post(f"{CORE}/pods", pod("unknown", "n2", ["true"], **nowhere))
            await until(api, "unknown", lambda one: "ErrImageNeverPull" in str(one["status"]))
            await remove(api, "known", "unknown")

    asyncio.run(story())


def test_a_deleted_pod_runs_on_while_its_node_is_silent(real_nodes: RealCluster) -> None:
    async def story() -> None:
        node = real_nodes.nodes[1]
        async with real_nodes.plane.api() as api:
            await api.post(f"{CORE}/pods", pod("split", node.name, ["sleep", "1000"]))
            await until(api, "split", phase("Running"))
            node.kubelet.pause()
            try:
                await until(api, "split", lambda one: "deletionTimestamp" in one["metadata"])
                assert "sleep 1000" in node.machine.run("ps", "ax", "-o", "args")
            finally:
                node.kubelet.proceed()
            await until_gone(api, "split")
            assert "sleep 1000" not in node.machine.run("ps", "ax", "-o", "args")
            await real_nodes.ready()

    asyncio.run(story())
