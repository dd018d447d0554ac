"""The operator's own objects: the deployment, and what keeps it running and lets it be looked at."""

from __future__ import annotations

from dataclasses import dataclass

from windlass.deploy.labels import labels_of, selector_of
from windlass.deploy.own_kinds import GROUP, VERSION
from windlass.deploy.roles import OPERATOR
from windlass.jobs.kubernetes.manifest_reader import Manifest

NAMESPACE = "windlass-system"
PORT = 8080
"""Metrics and probes."""
AGENTS_PORT = 8081
"""Agents in pods; only the leader listens there."""
_AGENTS = f"{OPERATOR}-agents"
REPLICAS = 2
"""One leads, the other takes over."""
_USER = 65_532
"""Nobody's; the image's own user."""
_HISTORY = "/var/lib/windlass"
"""Lives as long as the pod; a PostgreSQL server, named by --history, outlives it."""
_GRACE = 20
"""Seconds to hand the lease over and end what was begun."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What an installation may choose."""

    image: str
    namespace: str = NAMESPACE
    replicas: int | str = REPLICAS
    """A text stands for a number that is filled in later."""
    pull_policy: str = "IfNotPresent"
    cpu: str = "200m"
    memory: str = "512Mi"


def namespace(setup: Setup) -> Manifest:
    """Held to the strictest of the pod security standards."""
    enforced = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    labels = {**labels_of("operator"), **enforced}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": setup.namespace, "labels": labels}}


def operator_objects(setup: Setup) -> list[Manifest]:
    """All but the namespace, the roles and the definitions."""
    metrics = _service(setup, f"{OPERATOR}-metrics", "metrics", PORT)
    return [_deployment(setup), _budget(setup), metrics, _service(setup, _AGENTS, "agents", AGENTS_PORT)]


def default_queue() -> Manifest:
    """The queue of jobs that name none, for whoever wants to give it a quota; there is one without an object, too."""
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
            # The old leader goes only when a new follower is there.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": labels}, "spec": _pod(setup)},
        },
    }


def _pod(setup: Setup) -> Manifest:
    return {
        "serviceAccountName": OPERATOR,
        "priorityClassName": "system-cluster-critical",
        "terminationGracePeriodSeconds": _GRACE,
        "topologySpreadConstraints": [_spread("kubernetes.io/hostname"), _spread("topology.kubernetes.io/zone")],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(setup)],
        "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "history", "emptyDir": {"sizeLimit": "1Gi"}}],
    }


def _container(setup: Setup) -> Manifest:
    return {
        "name": "operator",
        "image": setup.image,
        "imagePullPolicy": setup.pull_policy,
        "args": [
            "operator",
            "run",
            "--namespace=$(NAMESPACE)",
            f"--lease={OPERATOR}",
            f"--metrics-port={PORT}",
            f"--agents-address={_AGENTS}.$(NAMESPACE).svc:{AGENTS_PORT}",
            f"--agents-port={AGENTS_PORT}",
            f"--history=sqlite:///{_HISTORY}/history.sqlite",
        ],
        "env": [{"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
        "ports": [{"name": "metrics", "containerPort": PORT}, {"name": "agents", "containerPort": AGENTS_PORT}],
        "livenessProbe": _probe("/healthz", period=10, failures=6),
        "readinessProbe": _probe("/readyz", period=5, failures=3),
        "resources": {
            "requests": {"cpu": setup.cpu, "memory": setup.memory},
            "limits": {"memory": setup.memory},  # no limit of CPU: a burst of jobs is when it is needed
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - inside of the container
            {"name": "history", "mountPath": _HISTORY},
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
    """Rather apart than together, but not at the price of waiting."""
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


def _service(setup: Setup, name: str, what: str, number: int) -> Manifest:
    port = {"name": what, "port": number, "targetPort": what}
    about = {**_about(setup), "name": name}
    spec = {"selector": selector_of("operator"), "ports": [port]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": about, "spec": spec}


def _about(setup: Setup) -> Manifest:
    return {"name": OPERATOR, "namespace": setup.namespace, "labels": labels_of("operator")}
