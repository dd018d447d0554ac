"""The TrainerClient of the Kubeflow SDK against the operator, on a real API server."""

from __future__ import annotations

import asyncio

from backend_host import Behaviour
from controlplane.cluster import ControlPlane
from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import CustomTrainerContainer, TrainerClient
from operator_place import OperatorPlace
from train_jobs import CLUSTER_RUNTIMES, RUNTIMES, clear, images, runtime

from windlass.jobs.kubernetes.train_runtimes import CLUSTER_RUNTIME


def test_a_trainer_client_lists_runtimes_and_follows_its_jobs(tell, apiserver: ControlPlane) -> None:
    def use_sdk(loop: asyncio.AbstractEventLoop, place: OperatorPlace) -> None:
        client = TrainerClient(KubernetesBackendConfig(namespace="default", config_file=str(apiserver.kubeconfig)))
        assert {each.name: each.kind.value for each in client.list_runtimes()} == {
            "torch-distributed": CLUSTER_RUNTIME,
            "own": "TrainingRuntime",
        }
        # 1. A job that runs, with the image and the size of the client, and then is deleted.
        trainer = CustomTrainerContainer("mine:1", num_nodes=2)
        name = client.train(client.get_runtime("torch-distributed"), trainer=trainer)
        running = client.wait_for_job_status(name, {"Running"}, timeout=100, polling_interval=1)
        assert [step.name for step in sorted(running.steps, key=lambda step: step.name)] == ["node-0", "node-1"]
        assert asyncio.run_coroutine_threadsafe(images(place, name), loop).result() == ["mine:1", "mine:1"]
        client.delete_job(name)
        # 2. A job of a runtime of the namespace, to its end.
        name = client.train("own")
        done = client.wait_for_job_status(name, timeout=100, polling_interval=1)
        assert (done.status, done.num_nodes, done.runtime.name) == ("Complete", 1, "own")
        assert name in [each.name for each in client.list_jobs()]

    async def story(place: OperatorPlace) -> None:
        await place.api.post(CLUSTER_RUNTIMES, runtime("torch-distributed", "site:1", 1, Behaviour.RUN))
        await place.api.post(RUNTIMES, {**runtime("own", "own:1", 1), "kind": "TrainingRuntime"})
        await asyncio.to_thread(use_sdk, asyncio.get_running_loop(), place)
        await clear(place)

    tell(story)
