"""The last network tests of a cluster's nodes: what they have measured, and when."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.diagnose.cluster.survey import ClusterSurvey, text
from windlass.diagnose.network.result_log import NetworkResult
from windlass.diagnose.network.verdict import judge_sweep
from windlass.diagnose.steps import CheckStep, State, absent, ok

_MAX_TESTS = 8
"""Tests that are told, the newest."""
_MAX_NAMES = 4
_MAX_FINDINGS = 8
_AGAIN = "then measure again: windlass network test"


def check_network_tests(survey: ClusterSurvey) -> Iterator[CheckStep]:
    """Yields a step for each set of nodes that still exist and were measured. A finding is as old as the test."""
    nodes = {text(node, "metadata", "name") for node in survey.of("nodes")}
    tests = [test for test in survey.network_tests if not nodes or nodes.issuperset(test.nodes)]
    for number, test in enumerate(tests[:_MAX_TESTS], 1):
        yield _judge(f"network.test:{number}", test, survey.now)
    if not tests and len(nodes) > 1:
        yield absent("network.test", "no result for these nodes is kept here: windlass network test measures them")


def _judge(name: str, test: NetworkResult, now: int) -> CheckStep:
    verdict = judge_sweep(test.sweep)
    measured = f"{_describe_nodes(test)}, measured {_age(now - test.at)} ago"
    if verdict.is_ok:
        return ok(name, f"{measured}: every result is right, the median pair has {verdict.bandwidth / 1e6:,.0f} MB/s")
    findings = tuple(finding.text for finding in verdict.findings[:_MAX_FINDINGS])
    more = f" and {len(verdict.findings) - 1} more" if len(verdict.findings) > 1 else ""
    fix = f"{verdict.findings[0].fix}; {_AGAIN}"
    return CheckStep(name, State.WARNING, f"{measured}: {findings[0]}{more}", fix, findings[1:])


def _describe_nodes(test: NetworkResult) -> str:
    names = ", ".join(test.nodes[:_MAX_NAMES])
    more = f" and {len(test.nodes) - _MAX_NAMES} more" if len(test.nodes) > _MAX_NAMES else ""
    return f"{names}{more} ({test.gpus} GPUs each)" if test.gpus else f"{names}{more} (CPUs)"


def _age(milliseconds: int) -> str:
    minutes = max(0, milliseconds) // 60_000
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // 1440} days"
