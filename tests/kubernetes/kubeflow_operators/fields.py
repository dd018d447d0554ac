"""Fields of the manifests of Kubeflow's kinds: the cases that use each, and the reason where a field has none.

Fields above the pod templates are those of our definitions. Fields of templates are those that a case sets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from windlass.deploy.crds import crds

from .cases import cases
from .kinds import KINDS, Case, Kind, Manifest, base

_SPECS = re.compile(r"^[a-z]+ReplicaSpecs\.[^.]+")
_MAPS = ("labels", "annotations", "resources", "minResources")
"""Fields below which names are the user's."""


@dataclass(slots=True)
class Field:
    """A field of one or more kinds."""

    name: str
    kinds: list[Kind] = field(default_factory=list)
    cases: dict[str, list[str]] = field(default_factory=dict)
    """Names of the cases that set or remove it, by label of the kind."""


WITHOUT_CASE: dict[str, tuple[str, str]] = {
    "runPolicy.restartMode": (
        "better",
        "A field of Windlass: `gang` restarts all pods together as a new generation. Those operators drop it.",
    ),
    "runPolicy.schedulingPolicy.priorityClass": (
        "better",
        "It is the priority of the whole job in the queue. Those operators only hand it to another scheduler.",
    ),
    "runPolicy.schedulingPolicy.minResources": ("different", "Has no effect: the job's pods say what it needs."),
    "runPolicy.schedulingPolicy.scheduleTimeoutSeconds": ("different", "Has no effect: a job waits until it fits."),
    "dialect": (
        "different",
        "A field of Windlass for MPIJobs with both versions: the operator by whose rules it runs.",
    ),
}
"""Fields that no case uses: verdict and reason."""


def fields() -> Iterator[Field]:
    """Yields every field, in the order of the definitions, those of templates last."""
    found: dict[str, Field] = {}
    for kind in KINDS:
        for name in schema_fields(kind):
            found.setdefault(name, Field(name)).kinds.append(kind)
    for case in cases():
        for name in sorted(used(case)):
            one = found.setdefault(name, Field(name))
            one.cases.setdefault(case.kind.label, []).append(case.name)
            if case.kind not in one.kinds:
                one.kinds.append(case.kind)
    yield from sorted(found.values(), key=lambda each: ".template." in each.name)


def schema_fields(kind: Kind) -> Iterator[str]:
    """Yields the fields of a kind's spec above the pod templates, as our definition has them."""
    group, _, version = kind.version.partition("/")
    for definition in crds():
        spec = definition["spec"]
        if (spec["group"], spec["names"]["kind"]) == (group, kind.name):
            found = next(each for each in spec["versions"] if each["name"] == version)
            schema = found["schema"]["openAPIV3Schema"]["properties"]["spec"]
            yield from (each for each in _leaves(schema) if not each.endswith("ReplicaSpecs.*.template"))


def _leaves(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    properties = schema.get("properties") or {}
    each_type = schema.get("additionalProperties")
    if path.endswith(".template") or not (properties or (isinstance(each_type, dict) and "properties" in each_type)):
        yield _plain(path)
    elif properties:
        for name, below in properties.items():
            yield from _leaves(below, f"{path}.{name}" if path else name)
    else:
        yield from _leaves(each_type, f"{path}.*")


def used(case: Case) -> set[str]:
    """Returns the fields in which a case differs from the plain manifest of its kind, or that it changes later."""
    plain, changed = (dict(_values(_same_roles(case, each)["spec"])) for each in (base(case.kind), case.manifest))
    differing = {name for name in plain.keys() | changed.keys() if plain.get(name) != changed.get(name)}
    patched = {name for action in case.actions for name, _ in _values(action.patch.get("spec", {}))}
    return {_plain(name) for name in differing | patched}


def _same_roles(case: Case, manifest: Manifest) -> Manifest:
    """A manifest with the replica types alone that both the plain manifest and the case have."""
    name = case.kind.specs
    both = base(case.kind)["spec"][name].keys() & case.manifest["spec"][name].keys()
    specs = {role: each for role, each in manifest["spec"][name].items() if role in both}
    return {**manifest, "spec": {**manifest["spec"], name: specs}}


def _values(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and path.rpartition(".")[2] not in _MAPS:
        for name, below in value.items():
            yield from _values(below, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        yield from _containers(value, path)
    else:
        yield path, value


def _containers(value: list[Manifest], path: str) -> Iterator[tuple[str, Any]]:
    """The fields of the first container; other lists, and further containers, are values."""
    if not path.endswith(".containers"):
        yield path, value
        return
    yield f"{path}[]", value[1:]
    for name, below in value[0].items():
        yield f"{path}[].{name}", below


def _plain(path: str) -> str:
    """A field's name without the kind's own name for its replica specs, and without the replica type."""
    return _SPECS.sub("*ReplicaSpecs.*", path.replace("ReplicaSpecs.*", "ReplicaSpecs.any"))
