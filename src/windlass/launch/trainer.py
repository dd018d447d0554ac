"""What the pods of a TrainJob are told, by the framework that its runtime names.

Source: kubeflow/trainer v2.3, pkg/runtime/framework/plugins/{torch,jax,xgboost,mpi}. A pod's rank is its index among
the trainer's pods; a literal here, which the operator reads from an annotation.
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
    """The first one, as the others reach it."""
    count: int
    procs: str
    """Ranks of each: a number, or auto."""
    workers: int = 1
    """Of XGBoost, in each: one per GPU, one without."""


def torch(nodes: Nodes, index: int) -> dict[str, str]:
    """The options of torchrun."""
    return {
        "PET_NNODES": str(nodes.count),
        "PET_NPROC_PER_NODE": nodes.procs,
        "PET_NODE_RANK": str(index),
        "PET_MASTER_ADDR": nodes.master,
        "PET_MASTER_PORT": str(PORT),
    }


def jax(nodes: Nodes, index: int) -> dict[str, str]:
    """One process a pod."""
    return {
        "JAX_NUM_PROCESSES": str(nodes.count),
        "JAX_PROCESS_ID": str(index),
        "JAX_COORDINATOR_ADDRESS": f"{nodes.master}:{PORT}",
    }


def xgboost(nodes: Nodes, index: int) -> dict[str, str]:
    """The first pod runs the tracker."""
    return {
        "DMLC_TRACKER_URI": nodes.master,
        "DMLC_TRACKER_PORT": str(PORT),
        "DMLC_TASK_ID": str(index),
        "DMLC_NUM_WORKER": str(nodes.count * nodes.workers),
    }


def mpi_launcher(slots: int) -> dict[str, str]:
    """Open MPI's options; the other pods are told nothing."""
    return {
        "OMPI_MCA_orte_default_hostfile": f"{HOSTFILE_FOLDER}/{HOSTFILE}",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_set_default_slots": str(slots),
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    }


def mpi_hostfile(hosts: list[str], slots: int) -> str:
    """Open MPI's form."""
    return "".join(f"{host} slots={slots}\n" for host in hosts)
