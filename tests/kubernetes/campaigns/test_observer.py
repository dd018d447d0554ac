"""The witness sees violations on a real API server: they are made by hand, without an operator."""

from __future__ import annotations

import asyncio

import pytest
from controlplane.cluster import ControlPlane
from controlplane.fake_kubelet import FakeKubelets
from controlplane.tidy import clear
from faults import jobs

from . import load
from .cluster_view import Verb
from .judge import Judge
from .observer import Observer
from .schedule import Arrival


@pytest.mark.controllers
def test_pods_bound_by_hand_are_reported(campaign_plane: ControlPlane) -> None:
    judge = Judge(window=0.0)

    async def scenario() -> None:
        async with campaign_plane.api() as api, FakeKubelets(campaign_plane.admin, script_of=jobs.program) as kubelets:
            await kubelets.add_nodes(["n1"], gpus=1)
            try:
                async with Observer(api, judge, load.PATHS) as observer, asyncio.timeout(30):
                    _group, *pods = load.gang("group", Arrival(0, "coscheduling_group", 3, 30))
                    for each in pods[:2]:
                        each["spec"]["nodeName"] = "n1"
                    for each in (*load.gang("lost", Arrival(0, "training_job", 2, 1)), *pods):
                        await api.post(load.path(each), each)
                    await api.delete(f"{load.path(load.gang('lost', Arrival(0, 'training_job', 2, 1))[0])}/lost")
                    while len(judge.violations) < 4:
                        await asyncio.sleep(0.1)
                        observer.observe(Verb.TIME)
                        observer.check_running()
            finally:
                await clear(api, *load.CREATED)

    asyncio.run(scenario())
    assert {(each.rule, each.subject) for each in judge.violations.values()} == {
        ("over_allocated_node", "n1"),
        ("partly_bound_gang", "group"),
        ("wrong_end", "group-1"),  # refused by the kubelet
        ("lost_object", "lost"),
    }
