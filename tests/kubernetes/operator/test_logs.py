"""The last lines of a pod's log, through a real API server and kubelets that have only logs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from backend_host import Behaviour
from node_logs import logs_of_nodes
from operator_place import leading

import strays
from windlass.controlplane.cluster import ControlPlane

pytestmark = pytest.mark.apiserver


def ten_thousand_lines(pod: str) -> str:
    return "".join(f"{pod} line {number}\n" for number in range(10_000))


def test_the_last_lines_of_every_member_outlive_the_job(apiserver: ControlPlane, tmp_path: Path):
    async def read_logs() -> None:
        async with (
            asyncio.timeout(strays.TIMEOUT_S * 4),
            leading(apiserver, tmp_path) as place,
            logs_of_nodes(apiserver, place.api, ten_thousand_lines) as asked,
        ):
            await place.submit("digits", Behaviour.FAIL, replicas=2)
            await place.phase("digits", "Failed")
            found = await place.until("/v1/jobs/digits/logs", lambda answer: len(answer["logs"]) == 2)
            await place.delete("digits")
            await place.until("/v1/ping", lambda _: not list(place.world.jobs))

            kept = (await place.get("/v1/jobs/digits/logs"))["logs"]
            assert kept == found["logs"]
            assert [(log["job"], log["generation"], log["rank"], log["pod"]) for log in kept] == [
                ("default/digits", 1, 0, "digits-worker-0"),
                ("default/digits", 1, 1, "digits-worker-1"),
            ]
            for log in kept:
                lines = log["text"].splitlines()
                assert (len(lines), lines[-1], log["missing"]) == (500, f"{log['pod']} line 9999", "")
            assert sorted(set(asked)) == [
                "/containerLogs/default/digits-worker-0/main",
                "/containerLogs/default/digits-worker-1/main",
            ]

    asyncio.run(read_logs())


def test_an_unread_log_has_a_reason(apiserver: ControlPlane, tmp_path: Path):
    async def read_logs() -> None:
        async with asyncio.timeout(strays.TIMEOUT_S * 4), leading(apiserver, tmp_path) as place:
            await place.api.patch("/api/v1/nodes/n1/status", _closed_address())
            await place.api.patch("/api/v1/nodes/n2/status", _closed_address())
            await place.submit("digits", Behaviour.SUCCEED)
            answer = await place.until("/v1/jobs/digits/logs", lambda answer: answer["logs"])
            [log] = answer["logs"]
            assert log["text"] == ""
            assert log["missing"].startswith("its log could not be read: ")

    asyncio.run(read_logs())


def _closed_address() -> dict[str, object]:
    """The status of a node with an address without a listener."""
    return {
        "status": {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 1}},
        }
    }
