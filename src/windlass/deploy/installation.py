"""Everything that an installation applies, in its order."""

from __future__ import annotations

from collections.abc import Sequence

from windlass import __version__
from windlass.deploy.crds import DEFAULT, crds
from windlass.deploy.operator import Setup, default_queue, namespace, operator_objects
from windlass.deploy.roles import operator_roles, user_roles
from windlass.jobs.kubernetes.manifest_reader import Manifest

IMAGE = f"windlass:{__version__}"
"""Of the Dockerfile; wherever a cluster gets it from."""


def installation_objects(setup: Setup, groups: Sequence[str] = DEFAULT) -> list[Manifest]:
    """The definitions of some groups, the namespace, the permissions, the operator, and the default queue."""
    return [*crds(groups), namespace(setup), *permission_objects(setup), *operator_objects(setup), default_queue()]


def permission_objects(setup: Setup) -> list[Manifest]:
    """The operator's own, and what is added to people's roles."""
    return [*operator_roles(setup.namespace), *user_roles()]
