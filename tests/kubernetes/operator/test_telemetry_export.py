"""The operator's export by OTLP and remote write: jobs on a real API server, a real Prometheus, another leader."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from backend_host import Behaviour
from operator_place import leading
from operator_server import operator_server
from otlp_receiver import OtlpReceiver, attributes, events, otlp_receiver

import strays
from processes.prometheus.prometheus_server import Prometheus, prometheus
from windlass.controlplane import cluster
from windlass.controlplane.cluster import ControlPlane
from windlass.deploy.operator import Setup
from windlass.server.operator.endpoints import EndpointSettings
from windlass.server.telemetry_export.settings import ExportSettings, RemoteWriteSettings

pytestmark = pytest.mark.apiserver
IMAGE = "example.com/windlass:1"


@pytest.fixture
def installed(apiserver: ControlPlane, tmp_path: Path) -> Iterator[ControlPlane]:
    """An API server for an installation, whose policies stay. `apiserver` only provides the programs."""
    own = cluster.start(tmp_path / "plane", cluster.Settings())
    yield own
    own.close()


async def receive(receiver: OtlpReceiver, jobs: int) -> None:
    """Waits for the spans of that many jobs."""
    await asyncio.to_thread(receiver.wait, lambda found: len(found.named("windlass.job")) >= jobs)


def test_traces_go_on_under_another_leader(apiserver: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async def story(receiver: OtlpReceiver) -> None:
        exports = ExportSettings(metrics=True, traces=True, metrics_interval_s=0.5)
        settings = EndpointSettings(open_queries=True, exports=exports)
        async with (
            asyncio.timeout(strays.TIMEOUT_S * 4),
            leading(apiserver, tmp_path, settings=settings) as place,
        ):
            await place.submit("bad", Behaviour.FAIL)
            await place.phase("bad", "Failed")
            await place.submit("long", replicas=2)
            await place.phase("long", "Running")
            successor = await place.successor()
            await successor.delete("long")
            await receive(receiver, 2)

    with otlp_receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
        asyncio.run(story(receiver))

    spans = {span.span_id: span for span in receiver.spans}.values()
    named = Counter((attributes(span)["windlass.job.id"], span.name) for span in spans)
    names = ("windlass.job", "windlass.queue", "windlass.attempt")
    assert named == {(f"default/{job}", name): 1 for job in ("bad", "long") for name in names}
    jobs = {attributes(span)["windlass.job.id"]: span for span in receiver.named("windlass.job")}
    assert attributes(jobs["default/bad"])["k8s.namespace.name"] == "default"
    assert "failure" in events(jobs["default/bad"])
    assert jobs["default/bad"].status.message

    found = {metric.name: metric for metric in receiver.metrics}
    assert found["windlass.nodes"].gauge.data_points[0].as_double == 2
    leads = [each.gauge.data_points[0].as_double for each in receiver.metrics if each.name == "windlass.leader"]
    assert 1 in leads
    assert found["windlass.turn.seconds"].histogram.data_points[0].count > 0
    assert found["windlass.api.requests"].sum.is_monotonic


@contextmanager
def receiving(folder: Path) -> Iterator[Prometheus]:
    """A Prometheus that takes samples by remote write."""
    folder.mkdir()
    with prometheus(folder, lambda: b"", flags=["--web.enable-remote-write-receiver"]) as server:
        yield server


def written(server: Prometheus, expression: str) -> list[dict[str, Any]]:
    """The series of a query, once there are any."""
    end = time.monotonic() + strays.TIMEOUT_S
    while not (found := server.query(expression)):
        assert time.monotonic() < end, expression
        time.sleep(0.2)
    return found


def test_each_leader_writes_its_jobs_and_its_own_work_to_prometheus(apiserver: ControlPlane, tmp_path: Path):
    async def story(server: Prometheus) -> None:
        remote = RemoteWriteSettings(f"{server.address}/api/v1/write", interval_s=0.5)
        settings = EndpointSettings(open_queries=True, exports=ExportSettings(remote_write=remote))
        async with (
            asyncio.timeout(strays.TIMEOUT_S * 4),
            leading(apiserver, tmp_path, settings=settings) as place,
        ):
            await place.submit("long", replicas=2)
            await place.phase("long", "Running")
            attempt = 'windlass_job_attempt{job="windlass",job_id="default/long"}'
            (found,) = await asyncio.to_thread(written, server, attempt)
            assert found["value"][1] == "1"
            assert server.query("windlass_nodes")[0]["value"][1] == "2"
            assert float(server.query("windlass_turn_seconds_count")[0]["value"][1]) > 0

            successor = await place.successor()
            await successor.submit("late")
            await successor.phase("late", "Running")
            await asyncio.to_thread(written, server, 'windlass_job_attempt{job_id="default/late"}')
            assert not place.troubles

    with receiving(tmp_path / "prometheus") as server:
        asyncio.run(story(server))


def test_the_operator_reads_the_receiver_and_its_token_from_the_environment(
    installed: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    monkeypatch.setenv("WINDLASS_REMOTE_WRITE_INTERVAL", "0.5")
    with receiving(tmp_path / "prometheus") as server:
        monkeypatch.setenv("WINDLASS_REMOTE_WRITE_URL", f"{server.address}/api/v1/write")
        with operator_server(installed, tmp_path, Setup(IMAGE, diagnoses_at_once=0)) as log:
            assert written(server, 'windlass_leader{job="windlass"} == 1')
            assert written(server, "windlass_api_requests_total > 0")
    assert "cannot be sent" not in log.read_text()

    with otlp_receiver() as receiver:
        monkeypatch.setenv("WINDLASS_REMOTE_WRITE_URL", f"{receiver.endpoint}/api/v1/write")
        monkeypatch.setenv("WINDLASS_REMOTE_WRITE_TOKEN_FILE", str(token))
        with operator_server(installed, tmp_path, Setup(IMAGE, diagnoses_at_once=0)):
            receiver.wait(lambda found: "Authorization" in found.headers)
    assert receiver.headers["Authorization"] == "Bearer s3cret"
