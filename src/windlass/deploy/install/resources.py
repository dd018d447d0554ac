"""API resources of an installation's objects."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.backends.kubernetes.client.resources import (
    ADMISSION_BINDINGS,
    ADMISSION_POLICIES,
    API_SERVICES,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DEFINITIONS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    NAMESPACES,
    NETWORK_POLICIES,
    PROMETHEUS_RULES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICE_MONITORS,
    SERVICES,
    Resource,
    named,
)
from windlass.deploy.crds import DEFAULT, POD_GROUPS, definitions
from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.manifest_reader import Manifest

KINDS = tuple(
    Resource(each.group, version.name, each.plural, each.kind, each.namespaced)
    for each in definitions((*DEFAULT, POD_GROUPS))
    for version in each.versions
)
"""Resources of every definition and version."""
_BUILT_IN = (
    ADMISSION_BINDINGS,
    ADMISSION_POLICIES,
    API_SERVICES,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DEFINITIONS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    MUTATING_BINDINGS,
    MUTATING_POLICIES,
    NAMESPACES,
    NETWORK_POLICIES,
    PROMETHEUS_RULES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICE_MONITORS,
    SERVICES,
)
_BY_KIND = {(each.api_version, each.kind): each for each in (*_BUILT_IN, *KINDS)}


def resource_of(manifest: Manifest) -> Resource:
    """The resource of an object of an installation."""
    return _BY_KIND[manifest["apiVersion"], manifest["kind"]]


def job_kinds(objects: Iterable[Manifest]) -> list[Resource]:
    """The kinds of jobs that are defined among the objects of an installation, or in their groups."""
    groups = {each["spec"]["group"] for each in objects if each["kind"] == DEFINITIONS.kind}
    found = [named(each.api_version, each.plural, each.name) for each in registry.KINDS]
    return [each for each in found if each.group in groups]


def display_name(manifest: Manifest) -> str:
    """Name for messages, such as "deployment windlass-operator"."""
    return f"{resource_of(manifest).kind.lower()} {manifest['metadata']['name']}"
