"""CustomResourceDefinition of a kind: names, versions, columns, subresources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass.deploy.structural_schema import Rule, Schema, closed_object, text, with_rules
from windlass.jobs.kubernetes.manifest_reader import Manifest

TYPE_FIELDS = {
    "apiVersion": text("API version of the object."),
    "kind": text("Kind of the object."),
}
MAX_NAME = 253
"""Characters of an object's name. Fields that a CEL rule reads need a declared maximum."""


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False
    """Shown only with `-o wide`."""


@dataclass(frozen=True, slots=True)
class ScaleSubresource:
    """Paths of the number of replicas, for `kubectl scale` and autoscalers."""

    spec_replicas: str
    status_replicas: str
    selector: str


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a kind."""

    name: str
    about: str
    spec: Schema
    status: Schema | None
    columns: tuple[PrinterColumn, ...]
    rules: tuple[Rule, ...] = ()
    """Rules of the whole object, which may read its name."""
    scale: ScaleSubresource | None = None
    stored: bool = True
    needs_spec: bool = True


@dataclass(frozen=True, slots=True)
class Definition:
    """One kind."""

    group: str
    kind: str
    plural: str
    short: tuple[str, ...]
    versions: tuple[Version, ...]
    namespaced: bool = True
    category: str = "windlass"
    """`kubectl get windlass` lists every kind of a category."""

    @property
    def name(self) -> str:
        """Name of the definition."""
        return f"{self.plural}.{self.group}"


def custom_resource(definition: Definition, labels: Mapping[str, str]) -> Manifest:
    """The CustomResourceDefinition of a kind."""
    names = {
        "kind": definition.kind,
        "listKind": f"{definition.kind}List",
        "plural": definition.plural,
        "singular": definition.kind.lower(),
        "shortNames": list(definition.short),
        "categories": [definition.category],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": definition.name, "labels": dict(labels)},
        "spec": {
            "group": definition.group,
            "names": names,
            "scope": "Namespaced" if definition.namespaced else "Cluster",
            "versions": [_version(version) for version in definition.versions],
        },
    }


def _version(version: Version) -> Manifest:
    return {
        "name": version.name,
        "served": True,
        "storage": version.stored,
        "additionalPrinterColumns": [_column(column) for column in version.columns],
        "schema": {"openAPIV3Schema": _object_schema(version)},
        "subresources": _subresources(version),
    }


def _object_schema(version: Version) -> Schema:
    """Schema of the object; it includes the name if a rule reads that."""
    named = (
        {"metadata": closed_object({"name": text(maxLength=MAX_NAME)})}
        if version.rules
        else {"metadata": {"type": "object"}}
    )
    status = {"status": version.status} if version.status else {}
    required: Sequence[str] = ("spec",) if version.needs_spec else ()
    schema = closed_object({**TYPE_FIELDS, **named, "spec": version.spec, **status}, version.about, required)
    return with_rules(schema, *version.rules) if version.rules else schema


def _column(column: PrinterColumn) -> Manifest:
    priority = {"priority": 1} if column.wide else {}
    return {"name": column.name, "type": column.type, "jsonPath": column.path, **priority}


def _subresources(version: Version) -> Manifest:
    found: Manifest = {"status": {}} if version.status else {}
    if version.scale:
        found["scale"] = {
            "specReplicasPath": version.scale.spec_replicas,
            "statusReplicasPath": version.scale.status_replicas,
            "labelSelectorPath": version.scale.selector,
        }
    return found
