"""A bucket of an S3 server, in which tests inject failures."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from pathlib import Path

import pytest
import training
from fault_injection.faulty_storage import CREDENTIALS

MIB = 1 << 20


@pytest.fixture(scope="session")
def port():
    """The port of an S3 server. Its client is imported here, so that forked ranks need not."""
    pytest.importorskip("moto", reason="S3 is played by moto")
    pytest.importorskip("s3fs")
    command = [sys.executable, Path(__file__).with_name("s3_server.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        yield int(server.stdout.readline())
        server.stdin.close()


@pytest.fixture
def store(port, monkeypatch, tmp_path):
    """A bucket; the yielded function sets its faults."""
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        **CREDENTIALS,
        "WINDLASS_SCRATCH": str(tmp_path / "scratch"),
    }.items():
        monkeypatch.setenv(name, value)

    def fail(**faults):
        asked(port, "POST", "/-/faults", json.dumps(faults))

    fail()
    asked(port, "PUT", "/bucket")
    yield fail
    fail()


@pytest.fixture
def place(store, request):
    return f"s3://bucket/{abs(hash(request.node.name))}/run"


@pytest.fixture
def single_try(monkeypatch):
    """The S3 client tries once, so that retries are those of Windlass."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr("s3fs.S3FileSystem.retries", 1)


@pytest.fixture
def multipart_uploads(monkeypatch):
    """Files of 5 MiB and more are uploaded in parts, as files of 100 MiB are by default."""
    core = pytest.importorskip("s3fs.core")
    monkeypatch.setattr(core, "calculate_chunksize", lambda *_size, **_words: 5 * MIB)
    monkeypatch.setattr(training, "WIDTH", 3 * MIB)


def asked(port, method, path, body=""):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, body)
    assert connection.getresponse().status < 300
