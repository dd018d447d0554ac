"""Settings of the export by environment variables."""

import pytest

from windlass.server.telemetry_export.settings import ExportSettings, RemoteWriteSettings, read_export_settings

HERE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


def test_nothing_is_exported_by_default():
    assert read_export_settings({}) == ExportSettings()
    assert not read_export_settings({}).is_on


def test_an_endpoint_switches_both_signals_on_and_each_can_be_switched_off():
    both = read_export_settings({**HERE, "OTEL_METRIC_EXPORT_INTERVAL": "5000"})
    assert (both.metrics, both.traces, both.metrics_interval_s) == (True, True, 5.0)
    assert not read_export_settings({**HERE, "OTEL_TRACES_EXPORTER": "none"}).traces
    assert not read_export_settings({**HERE, "OTEL_SDK_DISABLED": "true"}).is_on
    only = read_export_settings({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"})
    assert (only.metrics, only.traces) == (False, True)


def test_another_protocol_is_named_with_the_one_that_is_spoken():
    found = read_export_settings({**HERE, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
    assert not found.is_on
    assert len(found.faults) == 2
    assert "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL=http/protobuf" in found.faults[0]
    own = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}
    assert read_export_settings({**HERE, **own}).traces


def test_remote_write_has_a_url_a_token_and_an_interval():
    variables = {
        "WINDLASS_REMOTE_WRITE_URL": "https://prometheus:9090/api/v1/write",
        "WINDLASS_REMOTE_WRITE_TOKEN_FILE": "/token",
        "WINDLASS_REMOTE_WRITE_INTERVAL": "30",
        "WINDLASS_METRICS_LEVEL": "rank",
    }
    found = read_export_settings(variables)
    assert found.remote_write == RemoteWriteSettings("https://prometheus:9090/api/v1/write", "/token", 30.0)
    assert found.ranks
    assert found.faults == ()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("WINDLASS_REMOTE_WRITE_URL", "ftp://prometheus/write", "use http://HOST:PORT/api/v1/write"),
        ("WINDLASS_REMOTE_WRITE_URL", "http://host:port/write", "use http://HOST:PORT/api/v1/write"),
        ("WINDLASS_REMOTE_WRITE_URL", "http://[::1/write", "use http://HOST:PORT/api/v1/write"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "soon", "name a number from 100 to 3.6e+06"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "nan", "name a number"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "0", "name a number"),
        ("WINDLASS_METRICS_LEVEL", "all", "name job or rank"),
    ],
)
def test_a_value_that_cannot_be_used_is_one_sentence_with_the_way_out(name: str, value: str, words: str):
    found = read_export_settings({name: value})
    assert len(found.faults) == 1
    assert name in found.faults[0]
    assert words in found.faults[0]
    assert not found.is_on
