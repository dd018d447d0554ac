"""Names and ports on which the operator's objects, its process and the command line agree."""

from __future__ import annotations

NAMESPACE = "windlass-system"
"""Namespace of the operator, unless an installation names another."""
OPERATOR = "windlass-operator"
"""Name of the operator's deployment, account, roles and Lease."""
CONTAINER = "operator"
"""Name of the operator's container in its pods."""
METRICS_PORT = 8080
"""Port for metrics and probes."""
AGENTS_PORT = 8081
"""Port for agents in pods; only the leader listens on it."""
DASHBOARD_PORT = 8444
"""Port of the dashboard, on the Service of the leader."""
