"""Network profiles of jobs on a real API server: the field of a TrainingJob, the annotation of a PyTorchJob."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from backend_host import Behaviour
from kubernetes_host import JOBS, NAMESPACE, namespaced
from operator_place import PYTORCHJOBS, OperatorPlace

import strays

pytestmark = pytest.mark.apiserver
PODS = namespaced("/api/v1/pods")
P5 = {"node.kubernetes.io/instance-type": "p5.48xlarge"}
EFA = {"vpc.amazonaws.com/efa": "32", "hugepages-2Mi": "10Gi"}


async def pods_of(place: OperatorPlace, label: str, count: int) -> list[dict[str, Any]]:
    """The pods of a job, once so many are bound."""
    async with asyncio.timeout(strays.TIMEOUT_S):
        while True:
            found = (await place.api.get(PODS, labelSelector=label))["items"]
            if len([pod for pod in found if pod["spec"].get("nodeName")]) == count:
                return found
            await asyncio.sleep(0.1)


async def event_of(place: OperatorPlace, job: str) -> str:
    events = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
    async with asyncio.timeout(strays.TIMEOUT_S):
        while True:
            query = {"fieldSelector": f"reason=NetworkChosen,regarding.name={job}"}
            if found := (await place.api.get(events, **query))["items"]:
                return str(found[0]["note"])
            await asyncio.sleep(0.1)


def test_auto_gives_pods_the_adapters_of_their_nodes_and_tells_why(tell):
    async def story(place: OperatorPlace) -> None:
        await place.kubelets.add_nodes(["p5-a", "p5-b"], labels=lambda _: P5, more=EFA)
        role = {"image": "example.com/job:1", "command": [Behaviour.RUN.value], "gpus": 4, "procs": 1, "nodes": 4}
        spec = {**role, "network": "auto", "selector": P5}
        job = {
            "apiVersion": "windlass.dev/v1alpha1",
            "kind": "TrainingJob",
            "metadata": {"name": "fabric"},
            "spec": spec,
        }
        await place.api.post(namespaced(JOBS), job)
        pods = await pods_of(place, "windlass.dev/job-name=fabric", 4)
        reason = "efa: nodes offer vpc.amazonaws.com/efa, on 2 of 2 nodes"
        assert {pod["metadata"]["annotations"]["windlass.dev/network"] for pod in pods} == {reason}
        limits = [pod["spec"]["containers"][0]["resources"]["limits"] for pod in pods]
        assert limits == [{"nvidia.com/gpu": "4", "vpc.amazonaws.com/efa": "16", "hugepages-2Mi": "2560Mi"}] * 4
        assert sorted(pod["spec"]["nodeName"] for pod in pods) == ["p5-a", "p5-a", "p5-b", "p5-b"]
        assert await event_of(place, "fabric") == reason

    tell(story)


def test_a_pytorchjob_has_its_profile_by_an_annotation(tell):
    async def story(place: OperatorPlace) -> None:
        main = {"name": "pytorch", "image": "example.com/job:1", "command": [Behaviour.RUN.value]}
        worker = {"replicas": 2, "template": {"spec": {"containers": [main]}}}
        job = {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "metadata": {"name": "sockets", "annotations": {"windlass.dev/network": "tcp,interface=eth0"}},
            "spec": {"pytorchReplicaSpecs": {"Worker": worker}},
        }
        await place.api.post(namespaced(PYTORCHJOBS), job)
        for pod in await pods_of(place, "training.kubeflow.org/job-name=sockets", 2):
            env = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
            assert (env["NCCL_NET"], env["NCCL_SOCKET_IFNAME"]) == ("Socket", "=eth0")

    tell(story)


def test_the_api_server_refuses_a_profile_that_does_not_exist(tell):
    async def story(place: OperatorPlace) -> None:
        spec = {"image": "example.com/job:1", "command": ["run"], "network": "infinband"}
        job = {"apiVersion": "windlass.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "typo"}, "spec": spec}
        with pytest.raises(Exception, match="network"):
            await place.api.post(namespaced(JOBS), job)

    tell(story)
