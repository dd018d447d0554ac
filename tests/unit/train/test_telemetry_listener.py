"""A listener receives the reports of the first rank, with or without an agent, and no step waits for it."""

import socket

import pytest

from windlass import wire
from windlass.train.telemetry.heartbeat import HeartbeatSender


@pytest.mark.parametrize(("rank", "hears"), [(0, True), (1, False)])
def test_the_first_rank_also_reports_to_a_listener(rank, hears, tmp_path):
    path = str(tmp_path / "ear.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(path)
        ear.setblocking(False)
        heart = HeartbeatSender(rank, {wire.TELEMETRY_SOCKET: path})
        heart.step = 10
        heart.publish_metrics({"step_ms": 4.0})
        if hears:
            assert wire.decode(ear.recv(65536)) == wire.Telemetry(0, 1, 10, {"step_ms": 4.0})
        else:
            with pytest.raises(BlockingIOError):
                ear.recv(1)


def test_a_missing_listener_is_no_error(tmp_path):
    HeartbeatSender(0, {wire.TELEMETRY_SOCKET: str(tmp_path / "nobody.sock")}).publish_metrics({"step_ms": 4.0})
