"""The guard of admission: whether the API server checks the annotations of jobs, and since when.

Anybody who may write a job may write any annotation. The operator takes a user's name from an annotation only if the
ValidatingAdmissionPolicy of `jobs.kubernetes.job_admission` and its binding are in the cluster, unchanged, and the job
is younger than the last change of both specs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import ADMISSION_BINDINGS, ADMISSION_POLICIES, Resource
from windlass.backends.kubernetes.client.reviews import account_namespace
from windlass.jobs.kubernetes.job_admission import POLICY, binding_spec, is_same_spec, policy_spec
from windlass.jobs.kubernetes.labels import USER
from windlass.jobs.kubernetes.status.status_times import milliseconds

_EFFECT_MS = 10_000
"""Milliseconds after which every API server has noticed a new policy; they look for one once a second."""


@dataclass(frozen=True, slots=True)
class AdmissionGuard:
    """The guard in a cluster. `since`: jobs created later (ms since the epoch) are guarded; None: no job is."""

    since: int | None = None
    fault: str = "is missing"
    """Why there is none, after "the ValidatingAdmissionPolicy windlass-jobs"."""

    def user_of(self, metadata: Mapping[str, Any]) -> str:
        """Returns the user who submitted an object as admission has checked it; "" if it has checked none.

        The ServiceAccounts of a namespace are one user: its users may make and impersonate any number of them.
        """
        created = milliseconds(metadata.get("creationTimestamp"))
        if self.since is None or created is None or created < self.since:
            return ""
        user = str((metadata.get("annotations") or {}).get(USER) or "")
        namespace = account_namespace(user)
        return namespace_user(namespace) if namespace else user


def namespace_user(namespace: str) -> str:
    """Returns the user of jobs of whom admission has checked no other: all of a namespace count as one user."""
    return f"namespace:{namespace}"


async def read_guard(connection: Connection) -> AdmissionGuard:
    """Returns the guard of a cluster. Raises BackendError."""
    policy, binding = await asyncio.gather(_find(connection, ADMISSION_POLICIES), _find(connection, ADMISSION_BINDINGS))
    return guard_of(policy, binding)


def guard_of(policy: Mapping[str, Any] | None, binding: Mapping[str, Any] | None) -> AdmissionGuard:
    """Returns the guard by a policy and its binding, None for a missing one."""
    if policy is None:
        return AdmissionGuard()
    if binding is None:
        return AdmissionGuard(fault="has no binding of its name")
    for each, expected in ((policy, policy_spec()), (binding, binding_spec())):
        if not is_same_spec(each.get("spec") or {}, expected):
            return AdmissionGuard(fault="or its binding is not that of this release")
    changed = _changed_at(policy["metadata"]), _changed_at(binding["metadata"])
    if None in changed:
        return AdmissionGuard(fault="or its binding was changed at an unknown time")
    return AdmissionGuard(max(filter(None, changed), default=0) + _EFFECT_MS, "")


def _changed_at(metadata: Mapping[str, Any]) -> int | None:
    """Returns the time of the last change of an object's spec in ms: its creation, or that of a managed field.

    None if it is not known: the spec was changed after the creation, and no entry of `managedFields` tells when.
    """
    entries = [each for each in metadata.get("managedFields") or () if "f:spec" in (each.get("fieldsV1") or {})]
    times = [at for each in entries if (at := milliseconds(each.get("time"))) is not None]
    if not times and metadata.get("generation", 1) != 1:
        return None
    return max([milliseconds(metadata.get("creationTimestamp")) or 0, *times])


async def _find(connection: Connection, resource: Resource) -> Mapping[str, Any] | None:
    """Returns the object of the policy's name; None if there is none, or it may not be read."""
    try:
        return await connection.get(resource, None, POLICY)
    except ApiError as error:
        if error.is_missing or error.is_forbidden:
            return None
        raise
