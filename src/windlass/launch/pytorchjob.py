"""PyTorchJob's contract: the variables of its pods by which torchrun or a plain script finds the other pods.

Source: kubeflow/training-operator v1.9, pkg/controller.v1/pytorch/{envvar,master,elastic}.go. RANK and WORLD_SIZE
count pods there, not processes: torchrun numbers the processes that it starts in a pod.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass.launch.replica_names import replica_name

MASTER = "master"


@dataclass(frozen=True, slots=True)
class Elastic:
    """The elasticPolicy of a job with its defaults; fields that are None give no variable."""

    fewest: int
    most: int
    endpoint: str
    """host:port of the rendezvous."""
    backend: str = "c10d"
    max_restarts: int | None = None
    nproc_per_node: int | None = None
    rdzv_id: str | None = None
    rdzv_conf: tuple[tuple[str, str], ...] = ()
    standalone: bool = False


@dataclass(frozen=True, slots=True)
class PyTorchGang:
    """All pods of one job."""

    job: str
    pods: int
    """Over all roles."""
    master_port: int | None = None
    """Port of the Master; None: the job has no Master."""
    nproc_per_node: str | None = None
    """A number, or auto, cpu, gpu; None: the elastic policy gives it."""
    elastic: Elastic | None = None


def environment(gang: PyTorchGang, role: str, index: int) -> dict[str, str]:
    """The variables of one pod, in the order in which the operator appends them."""
    variables = {"PYTHONUNBUFFERED": "1"}
    if gang.master_port is not None:
        variables |= _with_a_master(gang, gang.master_port, role, index)
    if gang.nproc_per_node is not None:
        variables["PET_NPROC_PER_NODE"] = gang.nproc_per_node
    return variables | (_elastic(gang.elastic) if gang.elastic else {"PET_NNODES": str(gang.pods)})


def _with_a_master(gang: PyTorchGang, master_port: int, role: str, index: int) -> dict[str, str]:
    rank = index if role == MASTER else index + 1
    port, address = str(master_port), replica_name(gang.job, MASTER, 0)
    return {
        "MASTER_PORT": port,
        "PET_MASTER_PORT": port,
        "MASTER_ADDR": address,
        "PET_MASTER_ADDR": address,
        "WORLD_SIZE": str(gang.pods * procs_of(gang.nproc_per_node)),
        "RANK": str(rank),
        "PET_NODE_RANK": str(rank),
    }


def procs_of(nproc_per_node: str | None) -> int:
    """Processes of a pod as far as the operator can know them: a word such as auto counts as one."""
    plain = nproc_per_node or ""
    return int(plain) if plain.isascii() and plain.isdigit() and len(plain) < 10 else 1


def _elastic(policy: Elastic) -> dict[str, str]:
    variables = {
        "PET_RDZV_ENDPOINT": policy.endpoint,
        "PET_RDZV_BACKEND": policy.backend,
        "PET_NNODES": f"{policy.fewest}:{policy.most}",
        "PET_MAX_RESTARTS": policy.max_restarts,
        "PET_NPROC_PER_NODE": policy.nproc_per_node,
        "PET_RDZV_ID": policy.rdzv_id,
        "PET_RDZV_CONF": ",".join(f"{key}={value}" for key, value in policy.rdzv_conf) or None,
        "PET_STANDALONE": "" if policy.standalone else None,
    }
    return {name: str(value) for name, value in variables.items() if value is not None}
