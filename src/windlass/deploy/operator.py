"""Objects of the operator: namespace, deployment, disruption budget, services, default queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from windlass.deploy.labels import labels_of, selector_of
from windlass.deploy.own_kinds import GROUP, VERSION
from windlass.jobs.kubernetes import query_api
from windlass.jobs.kubernetes.gang_dialects import Dialect
from windlass.jobs.kubernetes.manifest_reader import Manifest
from windlass.jobs.kubernetes.operator_names import (
    AGENTS_PORT,
    CONTAINER,
    DASHBOARD_PORT,
    METRICS_PORT,
    NAMESPACE,
    OPERATOR,
)
from windlass.jobs.kubernetes.pods.container_security import USER_ID

_AGENTS = f"{OPERATOR}-agents"
REPLICAS = 2
"""One leader and one replica that can take over."""
_HISTORY = "/var/lib/windlass"
"""Volume that lives as long as the pod. History in PostgreSQL (--history) outlives it."""
ALL_NAMESPACES, LABELLED_NAMESPACES = "all", "labelled"
TELEMETRY = f"{OPERATOR}-telemetry"
"""Name of the ConfigMap and of the Secret with the variables of the export, which need not exist."""
TELEMETRY_FILES = "/etc/windlass/telemetry"
"""Folder with the values of that Secret as files, for WINDLASS_REMOTE_WRITE_TOKEN_FILE."""
_OPERATOR_GRACE_S = 20
"""Seconds to release the lease and finish requests."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Options of an installation."""

    image: str
    namespace: str = NAMESPACE
    replicas: int | str = REPLICAS
    """A text is a template that Helm replaces by a number."""
    pull_policy: str = "IfNotPresent"
    cpu: str = "200m"
    memory: str = "512Mi"
    mpijob_v1: bool | str = False
    """Whether the operator has the rights that MPIJobs of version v1 need. A text is a template of Helm."""
    diagnoses_at_once: int | str = 1
    """Failed attempts that are diagnosed at the same time; 0: none is. A text is a template of Helm."""
    cordon_bad_nodes: int | str = 0
    """Maximum number of nodes that are cordoned because diagnoses prove them bad. A text is a template of Helm."""
    cull_notebooks: str = ""
    """Idle time after which Notebooks are stopped, such as "24h"; "": never."""
    managed_namespaces: str = ALL_NAMESPACES
    """"all": those without `windlass.dev/managed: "false"`; "labelled": only those with "true"."""
    foreign_schedulers: str = ""
    """Rules for jobs whose templates name another scheduler: `NAME=ACTION,…` (`jobs.kubernetes.foreign_schedulers`)."""
    network: str = ""
    """Parameters of network profiles: `PROFILE,NAME=VALUE,…;…` (`hardware.network.request`)."""
    metrics_level: str = "job"
    """Finest level of the operator's metrics, "job" or "rank". A text is a template of Helm."""
    monitoring: bool = False
    """Whether a ServiceMonitor and alert rules are installed, for the Prometheus operator."""
    pod_groups: tuple[Dialect, ...] = ()
    """Dialects of PodGroups, besides coscheduling, that the operator has the rights to create."""


def namespace(setup: Setup) -> Manifest:
    """Namespace with the pod security standard `restricted`."""
    enforced = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    labels = {**labels_of("operator"), **enforced}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": setup.namespace, "labels": labels}}


def operator_objects(setup: Setup) -> list[Manifest]:
    """Objects except the namespace, the roles and the definitions."""
    services = [
        _service(setup, f"{OPERATOR}-metrics", "metrics", METRICS_PORT),
        _service(setup, _AGENTS, "agents", AGENTS_PORT),
        _leader_service(setup),
    ]
    return [_deployment(setup), _budget(setup), *services, _api_service(setup)]


def default_queue() -> Manifest:
    """Queue of jobs that name none. It exists without this object, which allows to give it a quota."""
    about = {"name": "default", "labels": labels_of("queue")}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Queue", "metadata": about, "spec": {}}


def _deployment(setup: Setup) -> Manifest:
    labels = labels_of("operator")
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _about(setup),
        "spec": {
            "replicas": setup.replicas,
            "selector": {"matchLabels": selector_of("operator")},
            # The old leader ends only after a new replica is ready.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": labels, "annotations": _rights(setup)}, "spec": _pod(setup)},
        },
    }


def _rights(setup: Setup) -> Mapping[str, str]:
    """An annotation of the pods, so that they are replaced when their account gets optional rights."""
    return {
        f"{GROUP}/mpijob-v1": str(setup.mpijob_v1).lower() if isinstance(setup.mpijob_v1, bool) else setup.mpijob_v1
    }


def _pod(setup: Setup) -> Manifest:
    return {
        "serviceAccountName": OPERATOR,
        "priorityClassName": "system-cluster-critical",
        "terminationGracePeriodSeconds": _OPERATOR_GRACE_S,
        "topologySpreadConstraints": [_spread("kubernetes.io/hostname"), _spread("topology.kubernetes.io/zone")],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(setup)],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            {"name": "history", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "telemetry", "secret": {"secretName": TELEMETRY, "optional": True}},
        ],
    }


def _container(setup: Setup) -> Manifest:
    return {
        "name": CONTAINER,
        "image": setup.image,
        "imagePullPolicy": setup.pull_policy,
        "args": [
            "operator",
            "run",
            "--namespace=$(NAMESPACE)",
            f"--lease={OPERATOR}",
            f"--managed-namespaces={setup.managed_namespaces}",
            f"--foreign-schedulers={setup.foreign_schedulers}",
            f"--network={setup.network}",
            f"--metrics-port={METRICS_PORT}",
            f"--metrics-level={setup.metrics_level}",
            f"--queries-port={query_api.PORT}",
            f"--dashboard-port={DASHBOARD_PORT}",
            f"--agents-address={_AGENTS}.$(NAMESPACE).svc:{AGENTS_PORT}",
            f"--agents-port={AGENTS_PORT}",
            f"--history=sqlite:///{_HISTORY}/history.sqlite",
            f"--diagnoses-at-once={setup.diagnoses_at_once}",
            f"--cordon-bad-nodes={setup.cordon_bad_nodes}",
            f"--cull-notebooks={setup.cull_notebooks}",
        ],
        "env": [{"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
        "envFrom": [{kind: {"name": TELEMETRY, "optional": True}} for kind in ("configMapRef", "secretRef")],
        "ports": [
            {"name": "metrics", "containerPort": METRICS_PORT},
            {"name": "agents", "containerPort": AGENTS_PORT},
            {"name": "queries", "containerPort": query_api.PORT},
            {"name": "dashboard", "containerPort": DASHBOARD_PORT},
        ],
        "livenessProbe": _probe("/healthz", period=10, failures=6),
        "readinessProbe": _probe("/readyz", period=5, failures=3),
        "resources": {
            "requests": {"cpu": setup.cpu, "memory": setup.memory},
            "limits": {"memory": setup.memory},  # no CPU limit: a burst of jobs needs CPU
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - inside of the container
            {"name": "history", "mountPath": _HISTORY},
            {"name": "telemetry", "mountPath": TELEMETRY_FILES, "readOnly": True},
        ],
    }


def _probe(path: str, *, period: int, failures: int) -> Manifest:
    return {
        "httpGet": {"path": path, "port": "metrics"},
        "periodSeconds": period,
        "timeoutSeconds": 3,
        "failureThreshold": failures,
    }


def _spread(level: str) -> Manifest:
    """Preferred, not required, spread of the replicas over a topology level."""
    return {
        "maxSkew": 1,
        "topologyKey": level,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": selector_of("operator")},
    }


def _budget(setup: Setup) -> Manifest:
    selector = {"matchLabels": selector_of("operator")}
    spec = {"maxUnavailable": 1, "selector": selector, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": _about(setup), "spec": spec}


def _api_service(setup: Setup) -> Manifest:
    """Makes the queries an API of the cluster. The operator adds the authority of its certificate."""
    spec = {
        "group": query_api.GROUP,
        "version": query_api.VERSION,
        "groupPriorityMinimum": query_api.GROUP_PRIORITY,
        "versionPriority": 15,
        "service": {"name": query_api.SERVICE, "namespace": setup.namespace, "port": query_api.PORT},
    }
    about = {"name": query_api.API_SERVICE, "labels": labels_of("operator")}
    return {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": about, "spec": spec}


def _leader_service(setup: Setup) -> Manifest:
    """The Service of the leader: queries, which the API server asks, and the dashboard."""
    service = _service(setup, query_api.SERVICE, "queries", query_api.PORT)
    service["spec"]["selector"][query_api.LEADER] = "true"
    service["spec"]["ports"].append(_port("dashboard", DASHBOARD_PORT))
    return service


def _service(setup: Setup, name: str, what: str, number: int) -> Manifest:
    """A Service of the operator's pods."""
    about = {**_about(setup), "name": name}
    spec = {"selector": dict(selector_of("operator")), "ports": [_port(what, number)]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": about, "spec": spec}


def _port(what: str, number: int) -> Manifest:
    return {"name": what, "port": number, "targetPort": what}


def _about(setup: Setup) -> Manifest:
    return {"name": OPERATOR, "namespace": setup.namespace, "labels": labels_of("operator")}
