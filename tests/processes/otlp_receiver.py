"""A receiver of OTLP/HTTP in the process of a test: decodes the messages of real exporters."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import strays


class OtlpReceiver:
    """The spans and metrics received so far. `status`: of the next answers."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self.status = 200
        self.requests = 0
        self.spans: list[Any] = []
        self.metrics: list[Any] = []
        self.resources: list[dict[str, str]] = []
        self.headers: dict[str, str] = {}

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resources.append(attributes(resource.resource))
                self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        if path == "/v1/metrics":
            for each in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.metrics += [metric for scope in each.scope_metrics for metric in scope.metrics]

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]

    def wait(self, condition: Callable[[OtlpReceiver], object]) -> None:
        end = time.monotonic() + strays.TIMEOUT_S
        while not condition(self):
            assert time.monotonic() < end, (self.spans, self.metrics)
            time.sleep(0.05)


def attributes(owner: Any) -> dict[str, Any]:
    """Attributes of a span, an event, a point or a resource."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in owner.attributes}


def events(span: Any) -> list[str]:
    return [event.name for event in span.events]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def otlp_receiver(port: int = 0) -> Iterator[OtlpReceiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.requests += 1
            receiver.headers = dict(self.headers)
            if receiver.status == 200:
                receiver.take(self.path, gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
            self.send_response(receiver.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    receiver = OtlpReceiver(server.server_port)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
