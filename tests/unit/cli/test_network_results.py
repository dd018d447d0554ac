"""The kept results of the network test: one for each set of nodes, a bounded number, damaged files left out."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from windlass.backends.errors import BackendError
from windlass.cli.network_results import MAX_RESULTS, keep_result, read_results

HERE, CLUSTER = "", "https://10.0.0.1:6443"


def event(**values) -> str:
    return json.dumps(values)


def events(*nodes: str, seconds: float = 0.001) -> list[str]:
    pair = {"kind": "pair", "a": 0, "b": 1, "latency_s": 1e-5, "bytes": 1000, "seconds": seconds, "wrong": 0}
    start = {"kind": "start", "nodes": nodes, "ranks": 2, "backend": "gloo"}
    return [event(**start), event(**pair), event(kind="end")]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def test_the_last_result_of_each_set_of_nodes_is_kept(state: Path):
    assert keep_result(state, HERE, 1, ["n1", "n2"], 0, events("n1", "n2", seconds=0.5)) == ""
    keep_result(state, HERE, 2, ["n2", "n1"], 0, events("n2", "n1", seconds=0.25))
    keep_result(state, HERE, 3, ["n1", "n2"], 8, events("n1", "n2"))
    keep_result(state, HERE, 4, ["n1", "n3"], 0, events("n1", "n3"))
    kept = read_results(state, HERE)
    assert [(each.at, each.nodes, each.gpus) for each in kept] == [
        (4, ("n1", "n3"), 0),
        (3, ("n1", "n2"), 8),
        (2, ("n1", "n2"), 0),
    ]
    (pair,) = kept[2].sweep.pairs
    assert (pair.seconds, kept[2].sweep.nodes, kept[2].sweep.has_ended) == (0.25, ("n2", "n1"), True)


def test_results_of_clusters_are_told_apart(state: Path):
    keep_result(state, CLUSTER, 1, ["n1"], 0, [])
    assert read_results(state, HERE) == []
    assert [each.cluster for each in read_results(state, CLUSTER)] == [CLUSTER]


def test_the_number_of_results_is_bounded_and_the_oldest_go(state: Path):
    for number in range(MAX_RESULTS + 3):
        keep_result(state, HERE, number, [f"n{number}"], 0, [])
        for age, file in enumerate(sorted((state / "network-tests").iterdir(), key=lambda path: path.stat().st_mtime)):
            os.utime(file, (age, age))
    assert [each.at for each in read_results(state, HERE)] == list(reversed(range(3, MAX_RESULTS + 3)))


def test_a_result_that_is_too_large_is_not_kept(state: Path):
    assert "larger than 16 MiB" in keep_result(state, HERE, 1, ["n1"], 0, ["x" * (17 << 20)])
    assert read_results(state, HERE) == []


def test_only_this_user_can_read_results(state: Path):
    keep_result(state, HERE, 1, ["n1"], 0, [])
    (file,) = (state / "network-tests").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    state.chmod(0o755)
    with pytest.raises(BackendError, match="other users can open it"):
        keep_result(state, HERE, 1, ["n1"], 0, [])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no result",
        'windlass-network-result: {"cluster": "", "at": 1, "nodes": "n1", "gpus": 0',
        'windlass-network-result: {"cluster": "", "at": 1, "nodes": "n1", "gpus": 0}',
        'windlass-network-result: {"cluster": "", "at": true, "nodes": [], "gpus": 0}',
        'windlass-network-result: {"cluster": "", "at": 1, "nodes": ["a\\nb"], "gpus": 0}',
        'windlass-network-result: {"cluster": 3, "at": 1, "nodes": [], "gpus": 0}',
        "windlass-network-result: []",
        "windlass-network-result: " + "[" * 100_000,
    ],
)
def test_a_damaged_file_is_left_out(state: Path, text: str):
    keep_result(state, HERE, 1, ["n1"], 0, [])
    (state / "network-tests/other.log").write_text(text)
    (state / "network-tests/link.log").symlink_to("/etc/passwd")
    assert [each.nodes for each in read_results(state, HERE)] == [("n1",)]
