"""Parses names of jobs on a cluster: `name`, `kind/name`, `namespace/name`, `namespace/kind/name`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.backends.kubernetes.client.resources import CONFIG_MAPS, Resource, named
from windlass.jobs.kubernetes.kinds.registry import KINDS

OWN_KIND = "trainingjob"
RESOURCES = tuple(named(kind.api_version, kind.plural, kind.name) for kind in KINDS)
_BY_KIND = {(each.api_version, each.kind): each for each in (CONFIG_MAPS, *RESOURCES)}
_KNOWN = tuple(dict.fromkeys(resource.kind.lower() for resource in RESOURCES))


@dataclass(frozen=True, slots=True)
class JobName:
    """One meaning of a typed name. `kind` "": any kind."""

    name: str
    namespace: str
    kind: str = ""


def parse_job_name(text: str, namespace: str) -> tuple[JobName, ...]:
    """Returns the possible meanings of a name, likeliest first. `namespace`: that of names without one."""
    match text.split("/"):
        case [name]:
            return (JobName(name, namespace),)
        case [first, name] if first in _KNOWN:
            return (JobName(name, namespace, first), JobName(name, first))
        case [first, name]:
            return (JobName(name, first),)
        case [first, kind, name] if kind in _KNOWN:
            return (JobName(name, first, kind),)
    return ()


def resource_of(manifest: Mapping[str, Any]) -> Resource | None:
    """Returns the resource of a job's manifest or of a ConfigMap, else None."""
    return _BY_KIND.get((str(manifest.get("apiVersion")), str(manifest.get("kind"))))


def resources_of(kind: str) -> Sequence[Resource]:
    """Returns the resources of a kind; "": of every kind, TrainingJob first."""
    return sorted(
        (each for each in RESOURCES if kind in ("", each.kind.lower())), key=lambda each: each.kind.lower() != OWN_KIND
    )
