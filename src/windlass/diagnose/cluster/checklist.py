"""The check list of a cluster: access, node pools, network, scheduler and queues, stuck pods, operators."""

from __future__ import annotations

from collections.abc import Iterator

from windlass.diagnose.cluster.checks.fabric_checks import check_fabrics
from windlass.diagnose.cluster.checks.network_test_checks import check_network_tests
from windlass.diagnose.cluster.checks.node_checks import check_pools
from windlass.diagnose.cluster.checks.operator_checks import check_operators
from windlass.diagnose.cluster.checks.pod_checks import check_claims, check_pods
from windlass.diagnose.cluster.checks.queue_checks import check_queues
from windlass.diagnose.cluster.survey import ClusterSurvey
from windlass.diagnose.steps import CheckStep, ok, unseen


def check_cluster(survey: ClusterSurvey) -> tuple[CheckStep, ...]:
    """Returns all steps of a cluster."""
    nodes = (_check_access, check_pools, check_fabrics, check_network_tests)
    areas = (*nodes, check_queues, check_pods, check_claims, check_operators)
    return tuple(step for area in areas for step in area(survey))


def _check_access(survey: ClusterSurvey) -> Iterator[CheckStep]:
    """Yields what the caller may not see, so that a clean report is not taken for a clean cluster."""
    for kind, reason in survey.refused.items():
        yield unseen(f"access.{kind}", reason, f"kubectl auth can-i list {kind} --all-namespaces")
    if survey.namespace:
        fix = "ask for a role that may list pods in all namespaces"
        yield unseen("access.namespaces", f"only objects of the namespace {survey.namespace} could be listed", fix)
    if not survey.refused and not survey.namespace:
        yield ok("access.kinds", "everything that the checks read may be listed")
