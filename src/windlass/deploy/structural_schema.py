"""The words of structural schemas: how a definition of a kind says what a field takes.

Source: apiextensions.k8s.io/v1. What a schema does not name is pruned by the API server, unless it is opaque. Rules are
in CEL; the API server refuses a definition whose rules it reckons too dear, so that whatever a rule walks over has a
most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]
Rule: TypeAlias = dict[str, str]

INT32 = 2**31 - 1
_KEEP = {"x-kubernetes-preserve-unknown-fields": True}


def text(about: str = "", **more: Any) -> Schema:
    """A text."""
    return _described(about, {"type": "string", **more})


def one_of(values: Sequence[str], about: str = "") -> Schema:
    """One of some words."""
    return text(about, enum=list(values))


def integer(least: int, most: int = INT32, about: str = "") -> Schema:
    """A whole number between two, both included."""
    return _described(about, {"type": "integer", "minimum": least, "maximum": most})


def integer64(least: int, about: str = "") -> Schema:
    """A whole number of at most 64 bits. The API server reads a most of a schema as a float, which has fewer."""
    return _described(about, {"type": "integer", "format": "int64", "minimum": least})


def number(about: str = "") -> Schema:
    """Any number."""
    return _described(about, {"type": "number"})


def boolean(about: str = "") -> Schema:
    """True or false."""
    return _described(about, {"type": "boolean"})


def timestamp(about: str = "") -> Schema:
    """A point in time."""
    return text(about, format="date-time")


def open_object(about: str = "", **properties: Schema) -> Schema:
    """An object that is kept as it is, whatever it holds; of `properties` it is known what they take."""
    known = {"properties": properties} if properties else {}
    return _described(about, {"type": "object", **known, **_KEEP})


def any_value(about: str = "", **more: Any) -> Schema:
    """A value of more than one type. Keywords look at values of their own type only."""
    return _described(about, {**_KEEP, **more})


def closed_object(
    properties: Mapping[str, Schema], about: str = "", required: Sequence[str] = (), **more: Any
) -> Schema:
    """An object of fields that are all known."""
    needed = {"required": list(required)} if required else {}
    return _described(about, {"type": "object", "properties": dict(properties), **needed, **more})


def mapping(of: Schema, about: str = "", **more: Any) -> Schema:
    """An object whose fields have free names."""
    return _described(about, {"type": "object", "additionalProperties": of, **more})


def array(of: Schema, about: str = "", **more: Any) -> Schema:
    """A list."""
    return _described(about, {"type": "array", "items": of, **more})


def rule(holds: str, message: str, *, told: str = "") -> Rule:
    """What must hold, and what the person is told if it does not; `told` computes the message where it can."""
    return {"rule": holds, "message": message, **({"messageExpression": told} if told else {})}


def with_rules(schema: Schema, *rules: Rule) -> Schema:
    """The schema with rules."""
    return {**schema, "x-kubernetes-validations": [*schema.get("x-kubernetes-validations", []), *rules]}


def _described(about: str, schema: Schema) -> Schema:
    return {"description": about, **schema} if about else schema
