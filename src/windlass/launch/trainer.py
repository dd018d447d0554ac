"""TrainJob's contract: the variables of its pods, by the framework that its runtime names.

Source: kubeflow/trainer v2.3, pkg/runtime/framework/plugins/{torch,jax,xgboost,mpi}. A pod's rank is its index among
the trainer's pods: a literal here, where the operator reads it from an annotation.
"""

from __future__ import annotations

from dataclasses import dataclass

PORT = 29_500
HOSTFILE_FOLDER = "/etc/mpi"
HOSTFILE = "hostfile"


@dataclass(frozen=True, slots=True)
class Nodes:
    """The trainer's pods."""

    master: str
    """Host name of the first pod."""
    count: int
    procs: str
    """Ranks of each: a number, or auto."""
    workers: int = 1
    """XGBoost workers of each pod: one per GPU, or one without GPUs."""


def torch(nodes: Nodes, index: int) -> dict[str, str]:
    """Options of torchrun."""
    return {
        "PET_NNODES": str(nodes.count),
        "PET_NPROC_PER_NODE": nodes.procs,
        "PET_NODE_RANK": str(index),
        "PET_MASTER_ADDR": nodes.master,
        "PET_MASTER_PORT": str(PORT),
    }


def jax(nodes: Nodes, index: int) -> dict[str, str]:
    """Variables of JAX, with one process a pod."""
    return {
        "JAX_NUM_PROCESSES": str(nodes.count),
        "JAX_PROCESS_ID": str(index),
        "JAX_COORDINATOR_ADDRESS": f"{nodes.master}:{PORT}",
    }


def xgboost(nodes: Nodes, index: int) -> dict[str, str]:
    """Variables of XGBoost's Rabit tracker, which the first pod runs."""
    return {
        "DMLC_TRACKER_URI": nodes.master,
        "DMLC_TRACKER_PORT": str(PORT),
        "DMLC_TASK_ID": str(index),
        "DMLC_NUM_WORKER": str(nodes.count * nodes.workers),
    }


def mpi_launcher(slots: int) -> dict[str, str]:
    """Options of Open MPI for the launcher; the other pods get none."""
    return {
        "OMPI_MCA_orte_default_hostfile": f"{HOSTFILE_FOLDER}/{HOSTFILE}",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_set_default_slots": str(slots),
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    }


def mpi_hostfile(hosts: list[str], slots: int) -> str:
    """The hostfile in the format of Open MPI."""
    return "".join(f"{host} slots={slots}\n" for host in hosts)
