"""Structural schema of a table of fields, the tables from which job files and cluster files are read.

JSON Schema writes several types with `anyOf`; a structural schema must be flat. A keyword constrains only values of its
own type, so that other types are excluded by a maximum size of zero. CEL cannot read values of more than one type, nor
mappings of such values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from windlass.deploy.structural_schema import Schema, any_value, open_object, rule, with_rules

_MAX_NAMES = 100
"""Entries of a mapping whose names a rule checks."""
_MAX_TEXT = 100
"""Characters of a text that a rule checks."""
_LOOKAHEAD = re.compile(r"\(\?=[^()]*\)")
"""The API server's regular expressions have no lookahead."""
_NOT_ZERO = "(?=.*[1-9])"
_COPIED_KEYWORDS = ("enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "minProperties", "required")
_EXCLUDING_KEYWORDS: dict[str, Schema] = {
    "string": {"maxLength": 0},
    "object": {"maxProperties": 0},
    "array": {"maxItems": 0},
    "boolean": {"not": {"enum": [True, False]}},
}
"""Keywords that exclude values of a type, or all but the empty one."""


def structural_schema(described: Mapping[str, Any]) -> Schema:
    """Structural schema of one field or of a whole table, from its JSON Schema."""
    every = described.get("anyOf", [described])
    accepted = [each for each in every if each.get("type") != "null"]
    schema = _of_one_type(accepted[0]) if len(accepted) == 1 else None
    schema = schema or _of_any(accepted)
    about = {"description": described["description"]} if "description" in described else {}
    return {**about, **schema, **({"nullable": True} if len(accepted) < len(every) else {})}


def _of_one_type(described: Mapping[str, Any]) -> Schema | None:
    """Schema of a field with one type; None if it has several."""
    name = described.get("type", "string")
    if not isinstance(name, str):
        return None
    if name == "object" and not {"properties", "additionalProperties"} & described.keys():
        return open_object()
    schema = {"type": name, **_keywords(described)}
    if _NOT_ZERO in described.get("pattern", ""):
        some = rule("self.matches('[1-9]')", "expects more than no time at all; leave it out (or null) for no limit")
        return with_rules({**schema, "maxLength": _MAX_TEXT}, some)
    if described.get("additionalProperties") and schema["additionalProperties"].get("type"):
        names = described["propertyNames"]["pattern"]
        known = rule(f"self.all(name, name.matches('{names}'))", f"expects names of the form {names}")
        return with_rules({**schema, "maxProperties": _MAX_NAMES}, known)
    return schema


def _of_any(accepted: list[Mapping[str, Any]]) -> Schema:
    merged: Schema = {}
    types: set[str] = set()
    for each in accepted:
        type_name = each["type"]
        types |= {type_name} if isinstance(type_name, str) else set(type_name)
        merged |= _keywords(each)
    for name, nothing in _EXCLUDING_KEYWORDS.items():
        if name not in types:
            merged |= nothing
    return any_value(**merged)


def _keywords(described: Mapping[str, Any]) -> Schema:
    schema = {name: described[name] for name in _COPIED_KEYWORDS if name in described}
    if "pattern" in described:
        schema["pattern"] = _LOOKAHEAD.sub("", described["pattern"])
    if "items" in described:
        schema["items"] = structural_schema(described["items"])
    if "properties" in described:
        schema["properties"] = {name: structural_schema(field) for name, field in described["properties"].items()}
    if described.get("additionalProperties"):
        schema["additionalProperties"] = structural_schema(described["additionalProperties"])
    return schema
