"""Network policies: which connections the operator's pods accept, and, for namespaces of jobs, the pods of jobs.

Without a policy a pod accepts every connection. Policies have an effect where the cluster's network enforces them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from windlass.deploy.labels import labels_of, selector_of
from windlass.deploy.operator import Setup
from windlass.jobs.kubernetes import query_api
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.operator_names import AGENTS_PORT, DASHBOARD_PORT, METRICS_PORT, OPERATOR

_PORTS = (METRICS_PORT, AGENTS_PORT, query_api.PORT, DASHBOARD_PORT)


def operator_policies(setup: Setup) -> list[Manifest]:
    """Policy of the operator's pods.

    They accept connections only on the ports of metrics and probes, agents, queries and the dashboard. Their sources
    are kubelets, Prometheus, pods of all namespaces, proxies and the API server, of which most have addresses that no
    selector names.
    """
    ports = [{"protocol": "TCP", "port": number} for number in _PORTS]
    about = {"name": OPERATOR, "namespace": setup.namespace, "labels": labels_of("operator")}
    return [_policy(about, {"matchLabels": selector_of("operator")}, [{"ports": ports}])]


def job_namespace_policy() -> Manifest:
    """Policy for a namespace of jobs: its pods accept connections only from pods of the same namespace.

    The ports of ranks (rendezvous, store, NCCL, gloo) cannot be authenticated by Windlass. Egress is not limited: the
    agents connect to the operator, and jobs read their data.
    """
    about = {"name": "windlass-jobs", "labels": labels_of("jobs")}
    return _policy(about, {}, [{"from": [{"podSelector": {}}]}])


def _policy(about: Manifest, pods: Mapping[str, Any], ingress: Sequence[Mapping[str, Any]]) -> Manifest:
    spec = {"podSelector": pods, "policyTypes": ["Ingress"], "ingress": list(ingress)}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": about, "spec": spec}
