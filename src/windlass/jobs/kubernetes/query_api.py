"""Names of the operator's queries as an aggregated API of Kubernetes."""

from __future__ import annotations

from windlass.jobs.kubernetes.operator_names import OPERATOR

GROUP = "queries.windlass.dev"
VERSION = "v1"
API_SERVICE = f"{VERSION}.{GROUP}"
"""Name of the APIService."""
GROUP_PRIORITY = 100
"""Priority of the group. It is below that of custom resources (1000): `kubectl get queues` means the objects."""
PREFIX = f"/apis/{GROUP}/{VERSION}"
SERVICE = f"{OPERATOR}-queries"
"""Name of the Service of the leader's port for queries."""
PORT = 8443
CERTIFICATE = f"{OPERATOR}-tls"
"""Name of the Secret with the certificate of that port and of the port for agents."""
LEADER = "windlass.dev/leader"
"""Label of the leader's pod, by which the Service selects it."""
OF_JOBS = ("jobs", "jobs/why", "jobs/log", "jobs/prospect", "reasons", "history")
"""Resources that show jobs of one namespace, or of all."""
OF_CLUSTER = ("status", "nodes", "queues", "shares", "reservations")
"""Resources that show the cluster, without jobs of namespaces that the user may not list."""
SNAPSHOTS = "snapshots"
"""Resource that shows all jobs of the cluster."""
