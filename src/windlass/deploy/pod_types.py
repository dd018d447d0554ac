"""Schemas of Kubernetes' own pod types, from a file that `tools/write_pod_schema.py` writes.

The definitions contain whole types, so that the API server refuses an unknown field and `kubectl explain` lists the
known ones. Fields of a later Kubernetes are unknown until the file is written anew. Source: k8s.io/api/core/v1 and
k8s.io/api/batch/v1.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from windlass.deploy.structural_schema import Schema, any_value

_FILE = Path(__file__).with_name("pod_types.json")
_QUANTITY = r"^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,2})?$"
_OF_WHOLE_OBJECTS = ("description", "required", "default", "x-kubernetes-list-type", "x-kubernetes-list-map-keys")
"""Keywords that do not hold for a part of an object, and descriptions, which the whole object has."""


def whole_type(name: str) -> Schema:
    """Schema of a type. The fields of each type in it are described once, where it occurs first."""
    return _expanded({"$ref": name}, set())


def partial_type(name: str) -> Schema:
    """Schema of a part of a type, to be merged over a whole one: no field is required or has a default."""
    return _map_schemas(whole_type(name), lambda each: _without(each, *_OF_WHOLE_OBJECTS))


def nullable_fields(schema: Schema) -> Schema:
    """The schema with null accepted for each field, recursively."""

    def accept_null(each: Schema) -> Schema:
        fields = {name: {**field, "nullable": True} for name, field in each.get("properties", {}).items()}
        return {**each, "properties": fields} if fields else each

    return _map_schemas(schema, accept_null)


def _expanded(schema: Schema, described: set[str]) -> Schema:
    """The schema with the types to which it refers. `described`: types whose fields have their descriptions already."""

    def resolve(each: Schema) -> Schema:
        name = each.get("$ref")
        if name is None:
            return each
        resolved = _quantity() if name == "Quantity" else _types()[name]
        if name in described:
            fields = {field: _without(value, "description") for field, value in resolved["properties"].items()}
            resolved = {**resolved, "properties": fields}
        elif name != "Quantity":
            described.add(name)
        return {**_without(each, "$ref"), **resolved}

    return _map_schemas(schema, resolve)


def _quantity() -> Schema:
    """A quantity: a string or a number, fractions included, as in pods."""
    no_flag = {"not": {"enum": [True, False]}}
    return {**any_value(pattern=_QUANTITY, minimum=0, maxProperties=0, maxItems=0), **no_flag}


def _map_schemas(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """A schema and all schemas in it, each changed by a function; the outer one first."""
    changed = dict(change(schema))
    for keyword in ("items", "additionalProperties"):
        if keyword in changed:
            changed[keyword] = _map_schemas(changed[keyword], change)
    if "properties" in changed:
        changed["properties"] = {name: _map_schemas(each, change) for name, each in changed["properties"].items()}
    return changed


def _without(schema: Mapping[str, Any], *keywords: str) -> Schema:
    return {keyword: value for keyword, value in schema.items() if keyword not in keywords}


@functools.cache
def _types() -> Mapping[str, Any]:
    return dict(json.loads(_FILE.read_text(encoding="utf-8"))["types"])
