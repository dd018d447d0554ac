"""The last network tests of a cluster's nodes, as steps of its check list."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from checked_objects import NOW, node, survey

from windlass.diagnose.cluster.checks.network_test_checks import check_network_tests
from windlass.diagnose.network.result_log import NetworkResult, read_result, write_result
from windlass.diagnose.steps import State

MOMENT = int(NOW.timestamp() * 1000)
NODES = [node("n1"), node("n2")]


def result(*nodes: str, ago_min: int = 5, gpus: int = 0, **event: Any) -> NetworkResult:
    start = {"kind": "start", "nodes": nodes, "ranks": len(nodes), "backend": "gloo"}
    pair = {"kind": "pair", "a": 0, "b": 1, "latency_s": 1e-5, "bytes": 10**6, "seconds": 0.01, "wrong": 0}
    events = [start, {**pair, **event}, {"kind": "end"}]
    return read_result(write_result("", MOMENT - ago_min * 60_000, nodes, gpus, [*map(json.dumps, events)]))


def steps(*tests: NetworkResult):
    found = replace(survey(nodes=NODES), network_tests=tests)
    return {step.name: step for step in check_network_tests(found)}


def test_a_good_result_tells_its_age_and_bandwidth():
    (step,) = steps(result("n1", "n2", ago_min=300)).values()
    assert step.state is State.OK
    assert step.text == ("n1, n2 (CPUs), measured 5 h ago: every result is right, the median pair has 100 MB/s")


def test_a_bad_result_is_a_warning_with_the_fix():
    (step,) = steps(result("n1", "n2", wrong=3, gpus=8)).values()
    assert step.state is State.WARNING
    assert step.text == "n1, n2 (8 GPUs each), measured 5 min ago: n1 and n2: 3 messages came back changed"
    assert step.fix.endswith("; then measure again: windlass network test")


def test_results_of_nodes_that_are_gone_are_left_out():
    assert steps(result("n1", "n9"))["network.test"].state is State.ABSENT


def test_each_set_of_nodes_has_a_step():
    assert list(steps(result("n1", "n2"), result("n1", "n2", gpus=8))) == ["network.test:1", "network.test:2"]
