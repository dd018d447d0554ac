"""All objects of an installation, in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Sequence

from windlass import __version__
from windlass.deploy.admission import admission_objects
from windlass.deploy.crds import DEFAULT, crds
from windlass.deploy.job_policies import job_policies, user_policies
from windlass.deploy.monitoring.prometheus_operator import monitoring_objects
from windlass.deploy.network_policies import operator_policies
from windlass.deploy.operator import Setup, default_queue, namespace, operator_objects
from windlass.deploy.pod_policy import pod_policies
from windlass.deploy.roles import cordon_roles, cull_roles, mpijob_v1_roles, operator_roles, pod_group_roles, user_roles
from windlass.deploy.trainer_objects import trainer_objects
from windlass.jobs.kubernetes.manifest_reader import Manifest

IMAGE = f"windlass:{__version__}"
"""Image of the Dockerfile, under the name without a registry."""


def installation_objects(setup: Setup, groups: Sequence[str] = DEFAULT, *, trainer: bool = False) -> list[Manifest]:
    """Definitions of the groups, namespace, permissions, policies, operator and default queue.

    `trainer`: also the standard runtimes of TrainJobs, and what the Kubeflow SDK looks for.
    """
    return [
        *crds(groups),
        namespace(setup),
        *permission_objects(setup),
        *policy_objects(setup),
        *user_policies(),
        *operator_policies(setup),
        *operator_objects(setup),
        default_queue(),
        *(monitoring_objects(setup) if setup.monitoring else []),
        *(trainer_objects() if trainer else []),
    ]


def permission_objects(setup: Setup) -> list[Manifest]:
    """Roles of the operator, and rules added to the roles of users."""
    optional = mpijob_v1_roles(setup.namespace) if setup.mpijob_v1 else []
    optional += cordon_roles(setup.namespace) if setup.cordon_bad_nodes else []
    optional += cull_roles(setup.namespace) if setup.cull_notebooks else []
    groups = pod_group_roles(setup.namespace, setup.pod_groups)
    return [*operator_roles(setup.namespace), *optional, *groups, *user_roles()]


def policy_objects(setup: Setup) -> list[Manifest]:
    """Admission policies."""
    return [*job_policies(), *pod_policies(), *admission_objects(setup.namespace, setup.managed_namespaces)]
