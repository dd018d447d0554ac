"""What an installation sets for all of its jobs."""

from __future__ import annotations

from dataclasses import dataclass

from windlass import __version__
from windlass.jobs.kubernetes.train_runtimes import Lookup, built_in

AGENT_IMAGE = f"windlass:{__version__}"


@dataclass(frozen=True, slots=True)
class Settings:
    """The training operator's flags of the same meaning, with its defaults but for `kubectl_image`."""

    cluster_domain: str = ""
    """Ends the names of services, such as "cluster.local"; empty: they end with `.svc`. ($CUSTOM_CLUSTER_DOMAIN)"""
    waiter_image: str = "alpine:3.10"
    """What a PyTorchJob's workers wait for their master with. (--pytorch-init-container-image)"""
    waiter_tries: int = 100
    """Every two seconds. (--pytorch-init-container-max-tries)"""
    pod_groups: bool = False
    """Each job has a PodGroup of the coscheduling dialect besides, for tools that look at those. One write a job."""
    runtimes: Lookup = built_in
    """The runtimes that TrainJobs name; those that are shipped are known anyway."""
    kubectl_image: str = "mpioperator/kubectl-delivery:latest"
    """Brings a kubectl to the launcher of an MPIJob v1. (--mpi-kubectl-delivery-image)"""
    agent_image: str = AGENT_IMAGE
    """The operator's own, whose entry point is `windlass`: packs the agent for pods that are to have it."""
    agents: str = ""
    """HOST:PORT at which the operator answers agents; empty: they agree among themselves who is a member."""
