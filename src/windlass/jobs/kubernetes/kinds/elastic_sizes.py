"""How few and how many workers an elastic policy allows.

Source: kubeflow/training-operator v1.9, pkg/apis/kubeflow.org/v1/pytorch_defaults.go, setElasticPolicy.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.jobs.kubernetes.manifests.reader import Spot
from windlass.jobs.kubernetes.parsed import Replicas

WORKER = "Worker"


def elastic_sizes(policy: Spot, replicas: Sequence[Replicas], field: str) -> tuple[int, int] | None:
    """Fewest and most; one that is missing is the other, or else the workers' number. None without a policy.

    `field`: where the replica specs stand. Raises Refused.
    """
    if policy.value is None:
        return None
    worker = next((each for each in replicas if each.type == WORKER), None)
    if worker is None:
        policy.refuse(f"needs a Worker in {field}: workers are what come and go")
    policy["metrics"].items()
    fewest, most = policy["minReplicas"].whole(1), policy["maxReplicas"].whole(1)
    fewest = fewest or most or worker.count
    most = most or fewest
    if fewest > most:
        policy["minReplicas"].refuse(f"must be at most maxReplicas, {most}")
    return fewest, most
