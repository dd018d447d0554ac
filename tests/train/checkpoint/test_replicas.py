"""In-memory replicas: damaged ones are not loaded, and after any kill all ranks have one step in common."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest
import ranks
import torch

from windlass.train.checkpoint.rank_group import new_rank_group
from windlass.train.checkpoint.replicas import replica_file, replica_placement, replica_search
from windlass.train.checkpoint.replicas.replica_writer import ReplicaWriter
from windlass.train.checkpoint.store.errors import DamagedError

RUN, SIZE = replica_placement.RunKey("0badcafe", "dp=2", 2), 50_000


def state_of(rank, step):
    """Return a state that is a function of step and rank, so that a load can be checked."""
    return {
        "model": {"w": torch.full((SIZE,), step * 10.0 + rank), "b": torch.full((3,), step, dtype=torch.bfloat16)},
        "empty": torch.zeros(0),
        "step": step,
    }


def test_a_replica_has_the_copied_state(tmp_path):
    state = {"w": torch.arange(7, dtype=torch.float64), "b": torch.ones(3, dtype=torch.bfloat16), "lr": 0.5}
    replica_file.write_replica(tmp_path / "copy", state, {"step": 3})
    facts, back = replica_file.unpack(replica_file.map_file(tmp_path / "copy"))
    assert facts == {"step": 3}
    assert back["lr"] == 0.5
    assert all(torch.equal(back[name], state[name]) for name in ("w", "b"))


def test_a_flipped_bit_anywhere_is_detected(tmp_path):
    replica_file.write_replica(tmp_path / "copy", {"w": torch.ones(9)}, {})
    good, chance = (tmp_path / "copy").read_bytes(), random.Random(2)  # noqa: S311 - a dice
    for bit in chance.sample(range(len(good) * 8), 200):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        (tmp_path / "bad").write_bytes(bad)
        with pytest.raises(DamagedError):
            replica_file.verify(replica_file.bytes_view(replica_file.map_file(tmp_path / "bad")), "bad")


def copying(rank, folder, steps):
    """Write a replica after each step, as two nodes of one rank each."""
    mine = folder / f"node-{rank}"
    copies = ReplicaWriter(mine, new_rank_group(), ["a", "b"], RUN, print)
    for step in range(1, steps + 1):
        copies.begin(state_of(rank, step), step, {}, ())
        copies.wait_until_staged()
    copies.wait()
    copies.close()
    return sorted(path.name for path in mine.iterdir())


def recovered(rank, folder):
    """Return the common step, after a check of every value, and the messages about skipped ones."""
    everybody, reports = new_rank_group(), []
    found = replica_search.find_newest(folder / f"node-{rank}", everybody, RUN, reports.append, least=1)
    if found is None:
        return None, reports
    step, data = found
    _, back = replica_search.restore_state(data, state_of(rank, 0), everybody)
    wanted = state_of(rank, step)
    assert back["step"] == step
    assert all(torch.equal(back["model"][name], wanted["model"][name]) for name in ("w", "b"))
    return step, reports


@pytest.fixture
def nodes(tmp_path):
    for rank in (0, 1):
        (tmp_path / f"node-{rank}").mkdir()
    return tmp_path


def test_each_node_has_its_own_and_its_partners_replica_and_no_older_ones(nodes, tmp_path):
    there = [replica_placement.file_name(replica_placement.Replica(RUN, 5, rank)) for rank in (0, 1)]
    assert ranks.run(tmp_path / "ranks", 2, copying, nodes, 5) == [there, there]


def test_a_replacement_node_receives_its_replica_from_the_partner(nodes, tmp_path):
    ranks.run(tmp_path / "ranks", 2, copying, nodes, 3)
    for left in (nodes / "node-1").iterdir():
        left.unlink()
    assert ranks.run(tmp_path / "again", 2, recovered, nodes) == [(3, [])] * 2


def test_damaged_replicas_are_skipped(nodes, tmp_path):
    ranks.run(tmp_path / "ranks", 2, copying, nodes, 3)
    path = nodes / "node-0" / replica_placement.file_name(replica_placement.Replica(RUN, 3, 0))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 8
    path.write_bytes(data)
    (step, reports), (also, _) = ranks.run(tmp_path / "again", 2, recovered, nodes)
    assert step is also is None
    assert reports == [
        f"skipping the in-memory replicas of step 3: rank 0: {path.name} was changed after it was written"
    ]


@pytest.mark.timeout(300)
def test_ranks_killed_at_any_instant_have_one_step_in_common(nodes, tmp_path):
    chance = random.Random(11)  # noqa: S311 - a dice
    for attempt in range(8):
        started = ranks.start(tmp_path / f"ranks-{attempt}", 2, copying, nodes, 100_000)
        _copied(nodes)
        time.sleep(chance.uniform(0.0, 0.05))
        for rank in chance.choice([started[:1], started[1:], started]):
            os.kill(rank.pid, signal.SIGKILL)
        ranks.ended(started)
        ((step, reports), (also, _)) = ranks.run(tmp_path / f"again-{attempt}", 2, recovered, nodes)
        assert step == also is not None
        assert reports == []
        for path in nodes.glob("node-*/*"):
            path.unlink()


def _copied(nodes):
    """Wait until a first step is stored on both nodes."""
    until = time.monotonic() + ranks.TIMEOUT_S
    while (
        min(
            len([path for path in node.iterdir() if replica_placement.parse_file_name(path.name)])
            for node in nodes.glob("node-*")
        )
        < 2
    ):
        assert time.monotonic() < until
        time.sleep(0.002)


def test_replicas_of_the_same_run_on_more_ranks_are_removed_and_those_of_other_runs_stay(tmp_path):
    former, other = RUN._replace(world=3), RUN._replace(location="0badbeef")
    for run in (former, other):
        (tmp_path / replica_placement.file_name(replica_placement.Replica(run, 4, 0))).write_bytes(b"")
    alone = RUN._replace(world=1)
    copies = ReplicaWriter(tmp_path, new_rank_group(), ["a"], alone, print)
    copies.begin(state_of(0, 5), 5, {}, ())
    copies.close()
    left = {replica_placement.parse_file_name(path.name) for path in tmp_path.iterdir()}
    assert left == {replica_placement.Replica(alone, 5, 0), replica_placement.Replica(other, 4, 0)}
