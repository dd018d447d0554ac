"""The objects that describe external gangs, by dialect: their API resources, and the job ids of their gangs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from windlass.backends.kubernetes.client.resources import JOBS, Resource, named
from windlass.jobs.kubernetes.external.membership import GangKey
from windlass.jobs.kubernetes.gang_dialects import OBJECT_KINDS, POD_GROUPS, Dialect

_PLURALS = {"PodGroup": "podgroups", "JobSet": "jobsets"}
_WORDS = {Dialect.JOB: "job", Dialect.JOB_SET: "jobset", Dialect.GANG_SIZE: "gang", Dialect.ALONE: "pod"}


def _resource(dialect: Dialect) -> Resource:
    kind = OBJECT_KINDS[dialect]
    return named(kind.api_version, _PLURALS[kind.kind], kind.kind)


RESOURCES: Mapping[Dialect, Resource] = {
    **{dialect: _resource(dialect) for dialect in (*POD_GROUPS, Dialect.JOB_SET)},
    Dialect.JOB: JOBS,
}
"""API resource by dialect; the other dialects have no object."""
OPTIONAL = tuple(resource for dialect, resource in RESOURCES.items() if dialect is not Dialect.JOB)
"""Resources that a cluster may lack."""


def job_id(member: GangKey, name: str) -> str:
    """Returns the controller's id of a gang of this name: `team/podgroup/digits`, `team/pod/shell`."""
    return f"{member.namespace}/{_WORDS.get(member.dialect, 'podgroup')}/{name}"


def group_object(body: bytes) -> dict[str, Any]:
    """Decodes one of these objects without unused parts: a Job's template may be large, and Jobs are many."""
    found: dict[str, Any] = orjson.loads(body)
    found["metadata"].pop("managedFields", None)
    if isinstance(spec := found.get("spec"), dict):
        spec.pop("template", None)
    return found
