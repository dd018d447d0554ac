"""Receivers of OTLP/HTTP: metrics and spans, by OpenTelemetry's own exporters. Imported by the thread that sends."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

import windlass
from windlass.server.telemetry_export.job_trace import JobSpan, SpanEvent
from windlass.server.telemetry_export.otlp_metrics import instrumentation_scope, to_metrics_data
from windlass.server.telemetry_export.push_queue import RefusedError, UnreachableError
from windlass.telemetry.samples import HistogramSample, Sample

_NS_PER_MS = 1_000_000
_RETRIED = {408, 429, 502, 503, 504}


def send_metrics(started: int) -> Callable[[Sequence[Sample | HistogramSample]], None]:
    """Returns a function that sends samples. `started`: begin of the counters in ms."""
    session, resource = _OneAttempt(), _resource()
    exporter = OTLPMetricExporter(session=session)

    def send(samples: Sequence[Sample | HistogramSample]) -> None:
        result = exporter.export(to_metrics_data(samples, resource, started))
        session.check(is_sent=result is MetricExportResult.SUCCESS)

    return send


def send_spans() -> Callable[[Sequence[JobSpan]], None]:
    """Returns a function that sends spans."""
    session, resource = _OneAttempt(), _resource()
    exporter = OTLPSpanExporter(session=session)

    def send(spans: Sequence[JobSpan]) -> None:
        result = exporter.export([to_readable_span(span, resource) for span in spans])
        session.check(is_sent=result is SpanExportResult.SUCCESS)

    return send


def to_readable_span(span: JobSpan, resource: Resource) -> ReadableSpan:
    """The span in the data model of the SDK, with its own ids."""
    parent = None if span.parent_id is None else _context(span.trace_id, span.parent_id)
    return ReadableSpan(
        span.name,
        _context(span.trace_id, span.span_id),
        parent,
        resource,
        span.attributes,
        [_event(each) for each in span.events],
        kind=SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.OK),
        start_time=span.start * _NS_PER_MS,
        end_time=span.end * _NS_PER_MS,
        instrumentation_scope=instrumentation_scope(),
    )


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _event(event: SpanEvent) -> Event:
    return Event(event.name, event.attributes, event.at * _NS_PER_MS)


def _resource() -> Resource:
    """This process; `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` take precedence."""
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())  # the queue reports failures, once
    own = {"service.name": "windlass", "service.version": windlass.__version__, "host.name": socket.gethostname()}
    return Resource.create().merge(Resource(own)).merge(OTELResourceDetector().detect())


class _OneAttempt(requests.Session):
    """A session after whose failure the exporter does not repeat an export: the queue does, with longer pauses."""

    def __init__(self) -> None:
        super().__init__()
        self._failure: Exception | None = None

    def request(self, *arguments: Any, **options: Any) -> requests.Response:
        """Makes one request. Raises UnreachableError, RefusedError."""
        self._failure = None
        try:
            response = super().request(*arguments, **options)
        except requests.RequestException as error:
            self._failure = UnreachableError(f"it does not answer ({type(error).__name__})")
            raise self._failure from error
        if response.status_code in _RETRIED:
            self._failure = UnreachableError(f"it answers with status {response.status_code}")
        elif not response.ok or response.is_redirect:
            self._failure = RefusedError(f"it refuses them with status {response.status_code}")
        if self._failure is not None:
            raise self._failure
        return response

    def check(self, *, is_sent: bool) -> None:
        """Raises what has kept the last export from being sent."""
        if not is_sent:
            raise self._failure or RefusedError("the exporter of OpenTelemetry cannot encode them")
