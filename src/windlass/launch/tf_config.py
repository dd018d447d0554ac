"""TF_CONFIG: the variable that gives a TensorFlow process its cluster and its own task.

Source: kubeflow/training-operator v1.9, pkg/controller.v1/tensorflow/tensorflow.go; the variable itself is
TensorFlow's, tf.distribute.cluster_resolver.TFConfigClusterResolver.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.launch.replica_names import replica_name

VARIABLE = "TF_CONFIG"
PS, WORKER = "ps", "worker"

Cluster = Mapping[str, Sequence[str]]
"""Role → host:port of each of its replicas."""


def cluster_of(
    job: str, namespace: str, roles: Mapping[str, tuple[int, int]], domain: str = ""
) -> dict[str, list[str]]:
    """The addresses of every replica, by role; `roles` gives (replicas, port) of each.

    `domain`: the cluster's domain, such as "cluster.local"; empty: names end with `.svc`.
    """
    suffix = f"{namespace}.svc" + (f".{domain}" if domain else "")
    return {
        role: [f"{replica_name(job, role, index)}.{suffix}:{port}" for index in range(replicas)]
        for role, (replicas, port) in sorted(roles.items())
    }


def tf_config(cluster: Cluster, role: str, index: int, *, dynamic: bool = False) -> str:
    """The variable's value. `dynamic`: the number of workers changes, so each gets only itself and the servers."""
    value: dict[str, Any] = {
        "cluster": _sparse(cluster, role, index) if dynamic else cluster,
        "task": {"type": role, "index": index},
    }
    if not dynamic:
        value["environment"] = "cloud"  # else estimators up to TensorFlow 1.3 run locally
    return json.dumps(value, separators=(",", ":"))


def _sparse(cluster: Cluster, role: str, index: int) -> dict[str, Any]:
    mine = cluster[role][index]
    if role == WORKER:
        return {"worker": {str(index): mine}, "ps": list(cluster.get(PS, ()))}
    return {"worker": {}, "ps": [mine] if role == PS else []}
