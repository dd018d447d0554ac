"""The table of fields as a JSON Schema, for editors.

It accepts what the parser accepts, but for what a schema cannot say: the number of an array's indexes, balanced
quotes in a command line, and that a torchrun of several nodes must not be --standalone.
"""

from __future__ import annotations

from typing import Any

import yaml

from windlass.jobs.fields import JOB, Field, Shape, Table

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of one document of a job file."""
    return {
        "$schema": DIALECT,
        "title": "Windlass job",
        "description": "One gang: what to run, how many, with what, and what may go wrong.",
        **_table(JOB),
        "oneOf": [
            {"required": ["command"], "not": {"required": ["roles"]}},
            {"required": ["roles", "command"], "not": {"required": ["nodes"]}},
            {
                "required": ["roles"],
                "not": {"anyOf": [{"required": ["nodes"]}, {"required": ["command"]}]},
                "properties": {"roles": {"additionalProperties": {"required": ["command"]}}},
            },
        ],
        "not": {
            "required": ["restarts", "restart"],
            "properties": {"restart": {"required": ["user"]}},
        },
    }


def _table(table: Table) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {field.name: _described(field) for field in table},
        "additionalProperties": False,
    }


def _described(field: Field) -> dict[str, Any]:
    accepted = _shape(field)
    if field.nullable:
        accepted = {"anyOf": [*accepted.pop("anyOf", [accepted]), {"type": "null"}]}
    described = {"description": f"{field.help} Default: {field.default}." if field.default else field.help, **accepted}
    return {**described, "examples": [yaml.safe_load(field.example)]} if field.example else described


def _shape(field: Field) -> dict[str, Any]:  # noqa: PLR0911 - one for each shape
    one = dict(field.kind.json)
    match field.shape:
        case Shape.ONE:
            return one
        case Shape.LIST:
            return {"anyOf": [one, {"type": "array", "items": one}]}
        case Shape.COMMAND:
            return _command()
        case Shape.MAP:
            return {"type": "object", "propertyNames": _names(field), "additionalProperties": one}
        case Shape.TABLE:
            return _table(field.table)
        case Shape.TABLES:
            return {"type": "array", "items": _table(field.table)}
        case Shape.NAMED:
            named = {"type": "object", "propertyNames": _names(field), "additionalProperties": _table(field.table)}
            return {**named, "minProperties": 1}


def _names(field: Field) -> dict[str, Any]:
    return {"pattern": f"^{field.key}$"}


def _command() -> dict[str, Any]:
    word = {"type": ["string", "number", "boolean"]}
    first = {"anyOf": [{"type": "string", "minLength": 1}, {"type": ["number", "boolean"]}]}
    words = {"type": "array", "minItems": 1, "prefixItems": [first], "items": word}
    return {"anyOf": [{"type": "string", "pattern": r"\S"}, words]}
