from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import windlass
from windlass.client.connection import TargetConnection


def test_a_client_may_be_closed_in_several_threads_at_once(tmp_path: Path):
    connection = TargetConnection("local", "", tmp_path)
    go_on = threading.Event()
    running = connection.start(lambda _: go_on.wait(10))
    with ThreadPoolExecutor(8) as threads:
        closings = [threads.submit(connection.close) for _ in range(8)]
        go_on.set()
        assert [each.result(10) for each in closings] == [None] * 8
    assert running.result()
    with pytest.raises(windlass.InvalidRequestError, match="the client is closed\nopen a new one"):
        connection.start(lambda _: None)
