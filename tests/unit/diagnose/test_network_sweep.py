"""Verdicts of the network test from its lines: slow nodes and pairs, blocked ports, wrong results, hostile lines."""

import csv
import io
import json

import pytest

from windlass.diagnose.network.charts import csv_text, format_rate, plain_sweep, report_lines, svg
from windlass.diagnose.network.measurements import CollectiveMeasurement, read_sweep
from windlass.diagnose.network.sweep_worker import MARK
from windlass.diagnose.network.verdict import judge_sweep

GIGABYTE = 10**9


def line(**event):
    return f"[r0 n1] {MARK}{json.dumps(event)}"


def sweep_of(rates, nodes=("n1", "n2", "n3"), latencies=None, wrong=0, *, end=True):
    """A test in which the pairs have these bandwidths in GB/s and latencies in µs."""
    lines = [line(kind="start", nodes=list(nodes), ranks=len(nodes), backend="gloo", device="cpu")]
    for number, ((a, b), rate) in enumerate(rates.items()):
        latency = (latencies or {}).get((a, b), 50) / 1e6
        seconds = 2**20 / (rate * GIGABYTE)
        fault = wrong if number == 0 else 0
        lines.append(line(kind="pair", a=a, b=b, latency_s=latency, bytes=2**20, seconds=seconds, wrong=fault))
    lines.append(line(kind="collective", operation="all-reduce", bytes=4096, seconds=0.001, ranks=4, wrong=0))
    lines.append(line(kind="collective", operation="all-gather", bytes=4096, seconds=0.001, ranks=4, wrong=0))
    return read_sweep([*lines, *([line(kind="end")] if end else [])])


def texts(sweep):
    return [finding.text for finding in judge_sweep(sweep).findings]


def test_equal_pairs_are_no_finding():
    sweep = sweep_of({(0, 1): 10, (0, 2): 9.5, (1, 2): 10.2})
    assert judge_sweep(sweep).is_ok
    assert list(report_lines(sweep, judge_sweep(sweep)))[-1] == (
        "✓ 3 nodes, 3 ranks, gloo: every result is right; no pair is an outlier"
    )


def test_a_node_whose_pairs_are_all_slow_is_named_once():
    sweep = sweep_of({(0, 1): 10, (0, 2): 5, (1, 2): 5})
    assert texts(sweep) == ["node n3: bandwidth of all its pairs is below 85% of the median 10,000 MB/s"]
    assert judge_sweep(sweep).slow_pairs == {(0, 2), (1, 2)}


def test_a_single_slow_path_is_a_pair():
    rates = {(0, 1): 10, (0, 2): 10, (0, 3): 10, (1, 2): 10, (1, 3): 4, (2, 3): 10}
    assert texts(sweep_of(rates, ("a", "b", "c", "d"))) == ["b – d: bandwidth is below 85% of the median 10,000 MB/s"]


def test_a_pair_at_85_percent_is_not_slow():
    assert judge_sweep(sweep_of({(0, 1): 10, (0, 2): 10, (1, 2): 8.6})).is_ok
    assert not judge_sweep(sweep_of({(0, 1): 10, (0, 2): 10, (1, 2): 8.4})).is_ok


def test_a_high_latency_is_named_too():
    found = texts(sweep_of({(0, 1): 10, (0, 2): 10, (1, 2): 10}, latencies={(0, 2): 5000, (1, 2): 5000}))
    assert found == ["node n3: latency of all its pairs is above 2 × the median 50 µs"]


def test_two_nodes_have_no_outlier():
    sweep = sweep_of({(0, 1): 10}, ("n1", "n2"))
    assert judge_sweep(sweep).is_ok
    assert "no other to compare it with" in list(report_lines(sweep, judge_sweep(sweep)))[-1]


def test_one_node_has_no_pair():
    sweep = sweep_of({}, ("n1",))
    assert list(report_lines(sweep, judge_sweep(sweep)))[-1] == (
        "✓ 1 node, 1 rank, gloo: every result is right; one node has no pair"
    )


def test_wrong_data_is_a_finding():
    assert texts(sweep_of({(0, 1): 10, (0, 2): 10, (1, 2): 10}, wrong=3)) == ["n1 and n2: 3 messages came back changed"]


def test_a_test_without_an_end_says_so():
    assert texts(sweep_of({(0, 1): 10, (0, 2): 10, (1, 2): 10}, end=False)) == ["the test did not reach its end"]
    assert texts(read_sweep([])) == ["the test did not reach its end"]


def test_blocked_ports_are_named_by_node_where_no_other_one_reaches_it():
    link = {"to": "n3", "address": "10.0.0.3:4000", "why": "no answer: a firewall drops packets"}
    names = ["n1", "n2", "n3"]
    blocked = read_sweep([line(kind="blocked", nodes=names, links=[{**link, "from": "n1"}, {**link, "from": "n2"}])])
    assert texts(blocked) == ["n3 is reached by no other node: no answer: a firewall drops packets"]
    single = read_sweep([line(kind="blocked", nodes=names, links=[{**link, "from": "n2"}])])
    assert texts(single) == ["n2 cannot reach n3 at 10.0.0.3:4000: no answer: a firewall drops packets"]


def test_errors_of_ranks_are_findings():
    sweep = read_sweep([line(kind="error", rank=1, node="n2", message="torch is not installed")])
    assert texts(sweep) == ["rank 1 on n2: torch is not installed"]


def test_bus_bandwidth_is_that_of_nccl_tests():
    reduce = CollectiveMeasurement("all-reduce", 4 * GIGABYTE, 1.0, 4, 0)
    gather = CollectiveMeasurement("all-gather", 4 * GIGABYTE, 1.0, 4, 0)
    assert (reduce.algorithm_bandwidth, reduce.bus_bandwidth) == (4 * GIGABYTE, 6 * GIGABYTE)
    assert gather.bus_bandwidth == 3 * GIGABYTE


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        "[]",
        '{"kind": "pair", "a": 0, "b": 9, "latency_s": 1, "bytes": 1, "seconds": 1, "wrong": 0}',
        '{"kind": "pair", "a": 0, "b": 1, "latency_s": NaN, "bytes": 1, "seconds": 1, "wrong": 0}',
        '{"kind": "pair", "a": 0, "b": 1, "latency_s": 1, "bytes": 1, "seconds": 0, "wrong": 0}',
        '{"kind": "pair", "a": true, "b": 1, "latency_s": 1, "bytes": 1, "seconds": 1e999, "wrong": 0}',
        '{"kind": "collective", "operation": "x", "bytes": 1, "seconds": 1, "ranks": 1, "wrong": 0}',
        '{"kind": "blocked", "nodes": ["a"], "links": 7}',
        '{"kind": "start", "nodes": "ab", "ranks": 1, "backend": "gloo"}',
        '{"kind": "unknown"}',
        "[" * 100_000,
    ],
)
def test_a_malformed_line_is_left_out(text):
    lines = [line(kind="start", nodes=["n1", "n2"], ranks=2, backend="gloo"), f"{MARK}{text}", line(kind="end")]
    sweep = read_sweep(lines)
    assert (sweep.pairs, sweep.collectives, sweep.blocked) == ([], [], [])
    assert sweep.nodes == ("n1", "n2")


def test_names_of_nodes_are_printable_and_told_apart():
    sweep = read_sweep([line(kind="start", nodes=["a\x1b[31m", "b", "b"], ranks=3, backend="gloo")])
    assert [sweep.name(number) for number in range(3)] == ["a?[31m", "b#1", "b#2"]


def test_forms_of_output_hold_the_same_measurements():
    sweep = sweep_of({(0, 1): 10, (0, 2): 5, (1, 2): 5}, ("=n1", "n2", "n3"))
    verdict = judge_sweep(sweep)
    plain = plain_sweep(sweep, verdict)
    assert [(each["a"], each["slow"]) for each in plain["pairs"]] == [("=n1", False), ("=n1", True), ("n2", True)]
    rows = list(csv.DictReader(io.StringIO(csv_text(sweep, verdict))))
    assert [row["kind"] for row in rows] == ["pair"] * 3 + ["all-reduce", "all-gather"]
    assert rows[0]["a"] == "'=n1"
    drawn = svg(sweep)
    assert drawn.count("<polyline") == 2
    assert "all-gather" in drawn


def test_figures_are_short():
    assert [format_rate(rate) for rate in (5e5, 4.98e7, 1.19e9)] == ["0.5 MB/s", "49.8 MB/s", "1.19 GB/s"]
