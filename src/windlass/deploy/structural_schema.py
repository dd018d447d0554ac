"""Constructors of structural schemas, the types of fields in the definition of a kind.

Source: apiextensions.k8s.io/v1. The API server prunes fields that a schema does not name, except in open objects. Rules
are in CEL. The API server refuses a definition whose estimated rule cost is too high, so that lists and texts that a
rule reads need a declared maximum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]
Rule: TypeAlias = dict[str, str]

INT32 = 2**31 - 1
_KEEP = {"x-kubernetes-preserve-unknown-fields": True}


def text(about: str = "", **more: Any) -> Schema:
    """A string."""
    return _described(about, {"type": "string", **more})


def one_of(values: Sequence[str], about: str = "") -> Schema:
    """One of some strings."""
    return text(about, enum=list(values))


def integer(minimum: int, maximum: int = INT32, about: str = "") -> Schema:
    """An integer between two bounds, both included."""
    return _described(about, {"type": "integer", "minimum": minimum, "maximum": maximum})


def integer64(minimum: int, about: str = "") -> Schema:
    """An integer of 64 bits. It has no maximum, because the API server reads a maximum as a float with fewer bits."""
    return _described(about, {"type": "integer", "format": "int64", "minimum": minimum})


def number(about: str = "") -> Schema:
    """Any number."""
    return _described(about, {"type": "number"})


def boolean(about: str = "") -> Schema:
    """A boolean."""
    return _described(about, {"type": "boolean"})


def timestamp(about: str = "") -> Schema:
    """A date and time."""
    return text(about, format="date-time")


def open_object(about: str = "", **properties: Schema) -> Schema:
    """An object with any fields, of which `properties` have a schema. Unknown fields are kept."""
    known = {"properties": properties} if properties else {}
    return _described(about, {"type": "object", **known, **_KEEP})


def any_value(about: str = "", **more: Any) -> Schema:
    """A value of any type. A keyword constrains only values of its own type."""
    return _described(about, {**_KEEP, **more})


def closed_object(
    properties: Mapping[str, Schema], about: str = "", required: Sequence[str] = (), **more: Any
) -> Schema:
    """An object whose fields are all known."""
    needed = {"required": list(required)} if required else {}
    return _described(about, {"type": "object", "properties": dict(properties), **needed, **more})


def mapping(of: Schema, about: str = "", **more: Any) -> Schema:
    """An object with free field names."""
    return _described(about, {"type": "object", "additionalProperties": of, **more})


def array(of: Schema, about: str = "", **more: Any) -> Schema:
    """A list."""
    return _described(about, {"type": "array", "items": of, **more})


def rule(condition: str, message: str, *, message_expression: str = "") -> Rule:
    """A CEL condition and its error message. `message_expression`: CEL that computes the message."""
    more = {"messageExpression": message_expression} if message_expression else {}
    return {"rule": condition, "message": message, **more}


def with_rules(schema: Schema, *rules: Rule) -> Schema:
    """The schema with more rules."""
    return {**schema, "x-kubernetes-validations": [*schema.get("x-kubernetes-validations", []), *rules]}


def _described(about: str, schema: Schema) -> Schema:
    return {"description": about, **schema} if about else schema
