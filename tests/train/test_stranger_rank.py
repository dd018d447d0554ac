"""A stranger that takes the place of a rank, through torch's store and gloo, sends objects that run code."""

from __future__ import annotations

import os
import pickle
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from forked_ranks import ranks

from windlass import wire
from windlass.train import authentication, process_group
from windlass.train.checkpoint.rank_group import RankGroup, run_on_all
from windlass.train.checkpoint.replicas import replica_file
from windlass.train.checkpoint.store.errors import DamagedError, RankGoneError
from windlass.train.health import failure_report
from windlass.train.recovery.state_broadcast import broadcast_object

SECRET = "5f" * 32


class Attack:
    """An object that creates a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def gather(group: dist.ProcessGroup, value: Any) -> Any:
    return run_on_all(RankGroup(group, dist.get_rank(), 2), lambda: value)


def broadcast(group: dist.ProcessGroup, value: Any) -> Any:
    return broadcast_object(group, 1, value)


def send(group: dist.ProcessGroup, value: Any) -> Any:
    """Sends as torch's pipeline stages do."""
    box = [value]
    if dist.get_rank():
        dist.send_object_list(box, dst=0, group=group)
    else:
        dist.recv_object_list(box, src=1, group=group)
    return box


def receive(exchange: Any, path: Path, *, stranger: bool) -> str:
    """Rank 0 belongs to the gang, and receives from rank 1."""
    is_stranger = stranger and os.environ["RANK"] == "1"
    if is_stranger:
        dist.init_process_group("gloo")
        control = dist.new_group(backend="gloo")
    else:
        os.environ[wire.GANG_SECRET] = SECRET
        control = process_group.join().control
    try:
        return str(exchange(control, Attack(path) if is_stranger else f"from {os.environ['RANK']}"))
    except (authentication.ForgedError, RankGoneError, pickle.UnpicklingError) as error:
        return f"refused: {error}"
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("exchange", [gather, broadcast, send])
def test_an_object_of_a_stranger_is_refused_before_it_is_unpickled(exchange, tmp_path):
    mine, _ = ranks(2, receive_from_stranger, exchange, tmp_path / "run")
    assert mine.startswith("refused: ")
    assert mine.endswith("is not from a rank of this gang")
    assert not (tmp_path / "run").exists()


def publish(path: Path) -> failure_report.FailureReport | None:
    """Rank 0 reads the failure that rank 1 publishes in the store; a file is a sign that the other one is done."""
    is_stranger = os.environ["RANK"] == "1" and path.name == "stranger"
    os.environ[wire.GANG_SECRET] = SECRET[::-1] if is_stranger else SECRET
    process_group.join()
    if os.environ["RANK"] == "1":
        failure_report.publish(failure_report.FailureReport(1, 85, "all is lost"))
        path.touch()
    while not path.exists():
        time.sleep(0.01)
    found = failure_report.read_peer_report()
    dist.barrier()
    dist.destroy_process_group()
    return found


@pytest.mark.parametrize(("sender", "code"), [("rank", 85), ("stranger", None)])
def test_only_a_failure_that_a_rank_of_the_gang_reports_is_believed(sender, code, tmp_path):
    report, _ = ranks(2, publish, tmp_path / sender)
    assert (report.code if report else None) == code


def receive_from_stranger(exchange: Any, path: Path) -> str:
    return receive(exchange, path, stranger=True)


def receive_from_rank(exchange: Any, path: Path) -> str:
    return receive(exchange, path, stranger=False)


@pytest.mark.parametrize("exchange", [gather, broadcast, send])
def test_ranks_with_the_secret_exchange_objects(exchange, tmp_path):
    mine, _ = ranks(2, receive_from_rank, exchange, tmp_path / "run")
    assert "from 1" in mine


@pytest.mark.parametrize("secret", [SECRET[::-1], ""])
def test_a_replica_of_a_stranger_is_refused_before_it_is_unpickled(secret, tmp_path, monkeypatch):
    monkeypatch.setenv(wire.GANG_SECRET, secret)
    replica_file.write_replica(tmp_path / "copy", {"w": torch.ones(2)}, {"step": Attack(tmp_path / "run")})
    monkeypatch.setenv(wire.GANG_SECRET, SECRET)
    data = replica_file.map_file(tmp_path / "copy")
    with pytest.raises(DamagedError, match="copy was not written by a rank of this gang"):
        replica_file.verify(replica_file.bytes_view(data), "copy")
    with pytest.raises(authentication.ForgedError):
        replica_file.unpack(data)
    assert not (tmp_path / "run").exists()
