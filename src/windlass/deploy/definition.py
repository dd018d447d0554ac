"""The definition of a kind as an API object: names, versions, columns, subresources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from windlass.deploy.structural_schema import Rule, Schema, closed_object, text, with_rules
from windlass.jobs.kubernetes.manifest_reader import Manifest

KEPT_FIELDS = {
    "apiVersion": text("Which version of the kind this is."),
    "kind": text("Which kind this is."),
}
_NAME_MOST = 253
"""Of any object in the API; written out, since what a rule looks at must have a most."""


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """What `kubectl get` shows of an object."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False
    """Only with `-o wide`."""


@dataclass(frozen=True, slots=True)
class ScaleSubresource:
    """Where the number of replicas stands, for `kubectl scale` and autoscalers."""

    wanted: str
    there: str
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
    """Of the whole object: they may look at its name."""
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
        """Of the definition itself."""
        return f"{self.plural}.{self.group}"


def custom_resource(definition: Definition, labels: Mapping[str, str]) -> Manifest:
    """The definition as an API object."""
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
        "schema": {"openAPIV3Schema": _whole(version)},
        "subresources": _subresources(version),
    }


def _whole(version: Version) -> Schema:
    """The schema of the object, its name included where a rule looks at that."""
    named = (
        {"metadata": closed_object({"name": text(maxLength=_NAME_MOST)})}
        if version.rules
        else {"metadata": {"type": "object"}}
    )
    status = {"status": version.status} if version.status else {}
    required: Sequence[str] = ("spec",) if version.needs_spec else ()
    schema = closed_object({**KEPT_FIELDS, **named, "spec": version.spec, **status}, version.about, required)
    return with_rules(schema, *version.rules) if version.rules else schema


def _column(column: PrinterColumn) -> Manifest:
    priority = {"priority": 1} if column.wide else {}
    return {"name": column.name, "type": column.type, "jsonPath": column.path, **priority}


def _subresources(version: Version) -> Manifest:
    found: Manifest = {"status": {}} if version.status else {}
    if version.scale:
        found["scale"] = {
            "specReplicasPath": version.scale.wanted,
            "statusReplicasPath": version.scale.there,
            "labelSelectorPath": version.scale.selector,
        }
    return found
