"""The operator's export by OTLP, with jobs on a real API server and another leader in between."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from backend_host import Behaviour
from controlplane.cluster import ControlPlane
from operator_place import leading
from otlp_receiver import OtlpReceiver, attributes, events, otlp_receiver

import strays
from windlass.server.operator.endpoints import EndpointSettings
from windlass.server.telemetry_export.settings import ExportSettings

pytestmark = pytest.mark.apiserver


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
