"""The table of fields as a JSON Schema, for editors.

It accepts what the parser accepts, except for rules that a schema cannot express: the number of an array's indexes,
balanced quotes in a command line, that a torchrun of several nodes must not be --standalone, that an elastic role's min
is not above its max, that only one role is elastic, and that cron and time_zone can be read and stand together.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import yaml

from windlass.jobs.description.fields import JOB
from windlass.jobs.syntax.field import Field, Shape, Table

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of one document of a job file."""
    return {
        "$schema": DIALECT,
        "title": "Windlass job",
        "description": "One gang: what to run, how many, with what, and what may go wrong.",
        **table_schema(JOB),
        "oneOf": [
            {"required": ["command"], "not": {"required": ["roles"]}},
            {"required": ["roles", "command"], "not": {"anyOf": [_given("nodes"), _given("elastic")]}},
            {
                "required": ["roles"],
                "not": {"anyOf": [_given("nodes"), _given("elastic"), {"required": ["command"]}]},
                "properties": {"roles": {"additionalProperties": {"required": ["command"]}}},
            },
        ],
        "not": {
            "anyOf": [
                {"required": ["restarts", "restart"], "properties": {"restart": {"required": ["user"]}}},
                *_exclusive("nodes"),
            ]
        },
    }


def _exclusive(size: str) -> list[dict[str, Any]]:
    """Pairs of fields of a job or a role with the same meaning."""
    kinds = ("gpus", "gpu_share", "mig")
    pairs = [(size, "elastic"), *((a, b) for number, a in enumerate(kinds) for b in kinds[number + 1 :])]
    return [{"allOf": [_given(a), _given(b)]} for a, b in pairs]


def _given(name: str) -> dict[str, Any]:
    """The field is present and not empty."""
    nothing = {"enum": [None, 0, 0.0]} if name == "gpus" else {"type": "null"}
    return {"required": [name], "properties": {name: {"not": nothing}}}


def table_schema(table: Table) -> dict[str, Any]:
    """JSON Schema of a mapping of these fields."""
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
    return {**described, "examples": [_read_example(field.example)]} if field.example else described


@cache
def _read_example(text: str) -> Any:
    """The value of an example; the field is part of many schemas."""
    return yaml.safe_load(text)


def _shape(field: Field) -> dict[str, Any]:  # noqa: PLR0911 - one for each shape
    one = dict(field.value_type.json)
    match field.shape:
        case Shape.ONE:
            return one
        case Shape.LIST:
            return {"anyOf": [one, {"type": "array", "items": one}]}
        case Shape.COMMAND:
            return _command()
        case Shape.MAP:
            return {"type": "object", "propertyNames": _names(field), "additionalProperties": one}
        case Shape.FREE:
            return {"type": "object"}
        case Shape.TABLE:
            required = [each.name for each in field.table if not each.default]
            return {**table_schema(field.table), **({"required": required} if required else {})}
        case Shape.TABLES:
            return {"type": "array", "items": table_schema(field.table)}
        case Shape.NAMED:
            role = {**table_schema(field.table), "not": {"anyOf": _exclusive("replicas")}}
            named = {"type": "object", "propertyNames": _names(field), "additionalProperties": role}
            return {**named, "minProperties": 1}


def _names(field: Field) -> dict[str, Any]:
    return {"pattern": f"^{field.key_pattern}$"}


def _command() -> dict[str, Any]:
    word = {"type": ["string", "number", "boolean"]}
    first = {"anyOf": [{"type": "string", "minLength": 1}, {"type": ["number", "boolean"]}]}
    words = {"type": "array", "minItems": 1, "prefixItems": [first], "items": word}
    return {"anyOf": [{"type": "string", "pattern": r"\S"}, words]}
