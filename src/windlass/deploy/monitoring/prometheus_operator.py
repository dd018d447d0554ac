"""Objects for clusters with the Prometheus operator: a ServiceMonitor, and the alert rules as a PrometheusRule."""

from __future__ import annotations

from windlass.deploy.labels import labels_of, selector_of
from windlass.deploy.monitoring.alert_rules import rule_groups
from windlass.deploy.operator import Setup
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.operator_names import OPERATOR

API_VERSION = "monitoring.coreos.com/v1"


def monitoring_objects(setup: Setup) -> list[Manifest]:
    """The ServiceMonitor and the PrometheusRule. Their kinds must exist in the cluster."""
    return [_service_monitor(setup), _object(setup, "PrometheusRule", rule_groups())]


def _service_monitor(setup: Setup) -> Manifest:
    """Scrapes every replica: only the leader exports jobs and queues."""
    endpoint = {"port": "metrics", "path": "/metrics", "interval": "15s"}
    spec = {"selector": {"matchLabels": selector_of("operator")}, "endpoints": [endpoint]}
    return _object(setup, "ServiceMonitor", spec)


def _object(setup: Setup, kind: str, spec: Manifest) -> Manifest:
    about = {"name": OPERATOR, "namespace": setup.namespace, "labels": labels_of("operator")}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": about, "spec": spec}
