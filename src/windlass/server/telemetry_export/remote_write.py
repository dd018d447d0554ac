"""Prometheus remote write (version 1.0): samples as a protobuf message, compressed by Snappy, in POST requests."""

from __future__ import annotations

import base64
import functools
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from windlass.server.telemetry_export.push_queue import RefusedError, UnreachableError
from windlass.server.telemetry_export.settings import RemoteWriteSettings
from windlass.telemetry.samples import HistogramSample, Sample

Series = dict[tuple[tuple[str, str], ...], list[tuple[float, int]]]
"""Values with their times (ms) by sorted labels; the name of the metric is the label `__name__`."""
_MAX_SERIES = 2_000
"""Series of one request."""
_TIMEOUT_S = 10.0
_RETRIED = {408, 429}
_HEADERS = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
    "User-Agent": "windlass",
}
_MAX_TOKEN_BYTES = 64 << 10


def connect_remote_write(settings: RemoteWriteSettings) -> Callable[[Sequence[Sample | HistogramSample]], None]:
    """Returns a function that sends samples. Raises RefusedError where a library is missing."""
    try:
        encode = _encoder()
    except ImportError as error:
        raise RefusedError(f"{error.name} is missing: pip install 'windlass-train[remote-write]'") from error
    external = {"job": "windlass", "instance": socket.gethostname()}

    def send(samples: Sequence[Sample | HistogramSample]) -> None:
        series = list(to_series(samples, external).items())
        for start in range(0, len(series), _MAX_SERIES):
            _post(settings, encode(series[start : start + _MAX_SERIES]))

    return send


def receiver_address(url: str) -> str:
    """The URL without user and password, for messages."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def to_series(samples: Iterable[Sample | HistogramSample], external: Mapping[str, str]) -> Series:
    """Values by series, each in order of time. `external`: labels of every series. A histogram becomes its buckets."""
    found: Series = {}
    for name, labels, value, time in chain.from_iterable(map(_plain, samples)):
        key = tuple(sorted({"__name__": name, **external, **labels}.items()))
        found.setdefault(key, []).append((value, time))
    return {key: sorted(values, key=lambda each: each[1]) for key, values in found.items()}


def _plain(sample: Sample | HistogramSample) -> Iterator[tuple[str, Mapping[str, str], float, int]]:
    name = sample.metric.name
    if isinstance(sample, Sample):
        yield name, sample.labels, sample.value, sample.time
        return
    below = list(accumulate(sample.counts))
    for bound, count in zip((*map(str, sample.bounds), "+Inf"), below, strict=True):
        yield f"{name}_bucket", {**sample.labels, "le": bound}, count, sample.time
    yield f"{name}_count", sample.labels, below[-1], sample.time
    yield f"{name}_sum", sample.labels, sample.total, sample.time


@functools.cache
def _encoder() -> Callable[[Iterable[tuple[Any, Any]]], bytes]:
    """Returns the function that makes the body of a request."""
    import cramjam  # noqa: PLC0415 - an extra

    request_type = _write_request_type()

    def encode(series: Iterable[tuple[Any, Any]]) -> bytes:
        request = request_type()
        for labels, values in series:
            one = request.timeseries.add()
            for name, value in labels:
                one.labels.add(name=name, value=value.encode("utf-8", "replace").decode())
            for value, time in values:
                one.samples.add(value=value, timestamp=time)
        return bytes(cramjam.snappy.compress_raw(request.SerializeToString()))

    return encode


def _write_request_type() -> Any:
    """The class of the message `prometheus.WriteRequest`, from its description: there is no package that has it."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: PLC0415 - an extra

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="remote_write.proto", package="prometheus", syntax="proto3")
    messages: dict[str, list[tuple[str, int, str]]] = {
        "Label": [("name", kinds.TYPE_STRING, ""), ("value", kinds.TYPE_STRING, "")],
        "Sample": [("value", kinds.TYPE_DOUBLE, ""), ("timestamp", kinds.TYPE_INT64, "")],
        "TimeSeries": [("labels", kinds.TYPE_MESSAGE, "Label"), ("samples", kinds.TYPE_MESSAGE, "Sample")],
        "WriteRequest": [("timeseries", kinds.TYPE_MESSAGE, "TimeSeries")],
    }
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for number, (field, kind, of) in enumerate(fields, start=1):
            label = kinds.LABEL_REPEATED if of else kinds.LABEL_OPTIONAL
            added = message.field.add(name=field, number=number, type=kind, label=label)
            if of:
                added.type_name = f".prometheus.{of}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("prometheus.WriteRequest"))


class _NoRedirects(HTTPRedirectHandler):
    """A redirect could take the credentials to another host; it is an error."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _post(settings: RemoteWriteSettings, body: bytes) -> None:
    request = Request(_without_user(settings.url), body, {**_HEADERS, **_authorization(settings)})  # noqa: S310 - `settings` checks the scheme
    try:
        with build_opener(_NoRedirects).open(request, timeout=_TIMEOUT_S):
            pass
    except HTTPError as error:
        if error.code >= 500 or error.code in _RETRIED:
            raise UnreachableError(f"it answers with status {error.code}") from error
        raise RefusedError(f"it refuses samples with status {error.code}") from error
    except URLError as error:
        raise UnreachableError(f"it does not answer ({error.reason})") from error
    except (OSError, ValueError) as error:
        raise UnreachableError(f"it does not answer ({type(error).__name__})") from error


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment=""))


def _authorization(settings: RemoteWriteSettings) -> dict[str, str]:
    """Basic authentication by the URL's user, or the token of the file. Raises UnreachableError without that file."""
    parts = urlsplit(settings.url)
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    if not settings.token_file:
        return {}
    try:
        with Path(settings.token_file).open("rb") as file:
            token = file.read(_MAX_TOKEN_BYTES).decode().strip()
    except (OSError, ValueError) as error:
        raise UnreachableError(f"the token in {settings.token_file} cannot be read ({type(error).__name__})") from error
    if not token.isprintable():
        raise RefusedError(f"{settings.token_file} has no token in one line")
    return {"Authorization": f"Bearer {token}"}
