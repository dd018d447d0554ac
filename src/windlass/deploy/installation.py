"""All objects of an installation, in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Sequence

from windlass import __version__
from windlass.deploy.crds import DEFAULT, crds
from windlass.deploy.job_policies import job_policies, user_policies
from windlass.deploy.operator import Setup, default_queue, namespace, operator_objects
from windlass.deploy.roles import operator_roles, user_roles
from windlass.jobs.kubernetes.manifest_reader import Manifest

IMAGE = f"windlass:{__version__}"
"""Image of the Dockerfile, under the name without a registry."""


def installation_objects(setup: Setup, groups: Sequence[str] = DEFAULT) -> list[Manifest]:
    """Definitions of the groups, namespace, permissions, admission policies, operator and default queue."""
    before = [*crds(groups), namespace(setup), *permission_objects(setup), *job_policies(), *user_policies()]
    return [*before, *operator_objects(setup), default_queue()]


def permission_objects(setup: Setup) -> list[Manifest]:
    """Roles of the operator, and rules added to the roles of users."""
    return [*operator_roles(setup.namespace), *user_roles()]
