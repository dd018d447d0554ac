"""Settings of an installation for `kinds` and `pods`: images, names, runtimes, PodGroups.

The operator gets them as options; `backends.kubernetes.settings` has the settings of the backend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from windlass import __version__
from windlass.hardware.network.automatic import NodeFabric
from windlass.hardware.network.request import NetworkRequest
from windlass.jobs.kubernetes.foreign_schedulers import DEFAULT_RULES, SchedulerRules
from windlass.jobs.kubernetes.train_runtimes import Lookup, built_in

AGENT_IMAGE = f"windlass:{__version__}"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of an installation that decide what jobs become.

    They are the training operator's flags of the same meaning, with its defaults.
    """

    cluster_domain: str = ""
    """Suffix of the names of services, such as "cluster.local"; empty: they end in `.svc`. ($CUSTOM_CLUSTER_DOMAIN)"""
    waiter_image: str = "alpine:3.10"
    """Image of the init container in which workers of a PyTorchJob wait for it. (--pytorch-init-container-image)"""
    waiter_tries: int = 100
    """Number of its attempts, one in two seconds. (--pytorch-init-container-max-tries)"""
    pod_groups: bool = False
    """Each job has a PodGroup of the coscheduling dialect as well, for tools that read it. Costs a write a job."""
    foreign_schedulers: SchedulerRules = DEFAULT_RULES
    """Rules for jobs whose templates name another scheduler. (--gang-scheduler-name)"""
    runtimes: Lookup = built_in
    """Lookup of the runtimes that TrainJobs name: without a cluster the standard ones."""
    kubectl_image: str = "kubeflow/kubectl-delivery:latest"
    """Image that installs kubectl for the launcher of an MPIJob v1. (--mpi-kubectl-delivery-image)"""
    agent_image: str = AGENT_IMAGE
    """The operator's own image, with the entry point `windlass`: it packs the agent for pods."""
    agent_endpoint: str = ""
    """HOST:PORT of the operator's endpoint for agents; empty: agents agree on their members among themselves."""
    agent_authority: str = ""
    """Certificate (PEM) of the authority by which agents know that endpoint."""
    networks: Mapping[str, NetworkRequest] = field(default_factory=dict)
    """Parameters of network profiles by profile, for jobs that do not set them. (--network)"""
    nodes: Callable[[], Sequence[NodeFabric]] | None = None
    """The nodes of the cluster, from which the profile `auto` is chosen; None without a cluster."""
