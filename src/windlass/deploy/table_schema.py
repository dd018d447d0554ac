"""A table of fields, of which job files and cluster files are read, as a structural schema.

What JSON Schema says with types inside of `anyOf` a structural schema says flat: every keyword looks at values of its
own type only, and what is of no type that is meant is kept out by a most of nothing. CEL does not see values of more
than one type, nor mappings of such.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from windlass.deploy.structural_schema import Schema, any_value, open_object, rule, with_rules

_MOST_NAMES = 100
"""Entries of a mapping whose names a rule looks at."""
_LONGEST = 100
"""Characters of a text that a rule looks at."""
_AHEAD = re.compile(r"\(\?=[^()]*\)")
"""Looking ahead, which the API server's expressions do not know."""
_NOT_NOTHING = "(?=.*[1-9])"
_KEPT = ("enum", "minimum", "maximum", "minLength", "minItems", "minProperties", "required")
_KEEPS_OUT: dict[str, Schema] = {
    "string": {"maxLength": 0},
    "object": {"maxProperties": 0},
    "array": {"maxItems": 0},
    "boolean": {"not": {"enum": [True, False]}},
}
"""What keeps values of a type out, or all but the empty one."""


def structural_schema(described: Mapping[str, Any]) -> Schema:
    """The schema of one field, or of a whole table, from its JSON Schema."""
    every = described.get("anyOf", [described])
    accepted = [each for each in every if each.get("type") != "null"]
    schema = _of_one_type(accepted[0]) if len(accepted) == 1 else None
    schema = schema or _of_any(accepted)
    about = {"description": described["description"]} if "description" in described else {}
    return {**about, **schema, **({"nullable": True} if len(accepted) < len(every) else {})}


def _of_one_type(described: Mapping[str, Any]) -> Schema | None:
    """None: it has more than one."""
    said = described.get("type", "string")
    if not isinstance(said, str):
        return None
    if said == "object" and not {"properties", "additionalProperties"} & described.keys():
        return open_object()
    schema = {"type": said, **_keywords(described)}
    if _NOT_NOTHING in described.get("pattern", ""):
        some = rule("self.matches('[1-9]')", "expects more than no time at all; leave it out (or null) for no limit")
        return with_rules({**schema, "maxLength": _LONGEST}, some)
    if described.get("additionalProperties") and schema["additionalProperties"].get("type"):
        names = described["propertyNames"]["pattern"]
        known = rule(f"self.all(name, name.matches('{names}'))", f"expects names of the form {names}")
        return with_rules({**schema, "maxProperties": _MOST_NAMES}, known)
    return schema


def _of_any(accepted: list[Mapping[str, Any]]) -> Schema:
    merged: Schema = {}
    types: set[str] = set()
    for each in accepted:
        said = each["type"]
        types |= {said} if isinstance(said, str) else set(said)
        merged |= _keywords(each)
    for name, nothing in _KEEPS_OUT.items():
        if name not in types:
            merged |= nothing
    return any_value(**merged)


def _keywords(described: Mapping[str, Any]) -> Schema:
    schema = {name: described[name] for name in _KEPT if name in described}
    if "pattern" in described:
        schema["pattern"] = _AHEAD.sub("", described["pattern"])
    if "items" in described:
        schema["items"] = structural_schema(described["items"])
    if "properties" in described:
        schema["properties"] = {name: structural_schema(field) for name, field in described["properties"].items()}
    if described.get("additionalProperties"):
        schema["additionalProperties"] = structural_schema(described["additionalProperties"])
    return schema
