"""A Prometheus on a port of its own that scrapes texts of a test, for tests of what is sent to it."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

import strays

Json = dict[str, Any]
_SCRAPED = 3
"""Scrapes before queries: a rate needs two."""


class Prometheus:
    """Queries of a running server."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"

    def query(self, expression: str) -> list[Json]:
        """Series of an instant query. Raises HTTPError for one that does not parse."""
        answer = self._get(f"/api/v1/query?{urlencode({'query': expression})}")
        return list(answer["data"]["result"])

    def is_scraped(self) -> bool:
        """Whether the target was scraped often enough."""
        try:
            counted = self.query("count_over_time(up[10m])")
        except URLError:
            return False
        return bool(counted) and int(counted[0]["value"][1]) >= _SCRAPED and bool(self.query("up == 1"))

    def _get(self, path: str) -> Json:
        with urlopen(self.address + path, timeout=10) as reply:  # noqa: S310 - an address of ours
            return json.loads(reply.read())  # type: ignore[no-any-return]


@contextmanager
def prometheus(
    folder: Path, text: Callable[[], bytes], relabelings: Sequence[Json] = (), flags: Sequence[str] = (), port: int = 0
) -> Iterator[Prometheus]:
    """A server that scrapes `text` every second. Skips the test where Prometheus is not installed. `port` 0: any."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no prometheus: apt-get install prometheus")
    with _exposition(text) as target:
        port = port or _free_port()
        scrape = {
            "job_name": "windlass",
            "honor_labels": True,
            "static_configs": [{"targets": [target]}],
            "metric_relabel_configs": list(relabelings),
        }
        config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [scrape]}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        words = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}"]
        words += flags
        with (folder / "log").open("wb") as log, subprocess.Popen([program, *words], cwd=folder, stderr=log) as process:
            try:
                found = Prometheus(port)
                _wait(found.is_scraped, folder / "log")
                yield found
            finally:
                process.kill()


@contextmanager
def _exposition(text: Callable[[], bytes]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _wait(condition: Callable[[], bool], log: Path) -> None:
    end = time.monotonic() + strays.TIMEOUT_S
    while not condition():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.1)
