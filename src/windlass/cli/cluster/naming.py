"""What people call jobs on a cluster: `name`, `kind/name`, `namespace/name`, `namespace/kind/name`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from windlass.jobs.kubernetes.kinds import KINDS
from windlass.worlds.kubernetes.client.resources import Resource, named

OWN = "trainingjob"
RESOURCES = tuple(named(kind.api_version, kind.plural, kind.name) for kind in KINDS)
_KNOWN = tuple(dict.fromkeys(resource.kind.lower() for resource in RESOURCES))


@dataclass(frozen=True, slots=True)
class Meant:
    """One name. `kind` "" is any; `namespace` "" means those of the user."""

    name: str
    namespace: str
    kind: str = ""


def meant(text: str, namespace: str) -> tuple[Meant, ...]:
    """What a text can mean, the likeliest first. `namespace` is where bare names are looked up."""
    match text.split("/"):
        case [name]:
            return (Meant(name, namespace),)
        case [first, name] if first in _KNOWN:
            return (Meant(name, namespace, first), Meant(name, first))
        case [first, name]:
            return (Meant(name, first),)
        case [first, kind, name] if kind in _KNOWN:
            return (Meant(name, first, kind),)
    return ()


def resources_of(kind: str) -> Sequence[Resource]:
    """Where objects of a kind may be found; "": of every kind, our own first."""
    return sorted(
        (each for each in RESOURCES if kind in ("", each.kind.lower())), key=lambda each: each.kind.lower() != OWN
    )
