"""XGBoostJob's contract: a tracker on the master, and for LightGBM the list of all workers.

Source: kubeflow/training-operator v1.9, pkg/controller.v1/xgboost/xgboost.go.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.launch.replica_names import replica_name


@dataclass(frozen=True, slots=True)
class XGBoostGang:
    """All pods of one job: one master, and the workers."""

    job: str
    workers: int
    master_port: int
    worker_port: int


def environment(gang: XGBoostGang, role: str, index: int) -> dict[str, str]:
    """The variables of one pod."""
    variables = {
        "MASTER_PORT": str(gang.master_port),
        "MASTER_ADDR": replica_name(gang.job, "master", 0),
        "WORLD_SIZE": str(1 + gang.workers),
        "RANK": str(index if role == "master" else index + 1),
        "PYTHONUNBUFFERED": "1",
    }
    if gang.workers:
        addresses = [replica_name(gang.job, "worker", worker) for worker in range(gang.workers)]
        variables |= {"WORKER_PORT": str(gang.worker_port), "WORKER_ADDRS": ",".join(addresses)}
    return variables
