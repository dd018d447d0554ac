"""Drops fields that a later version of Windlass has defined, and records their paths.

The API server drops fields that the definition of a kind lacks. So a field unknown here is no mistake: a later version
wrote it, and an earlier one must not refuse its objects.
"""

from __future__ import annotations

from typing import Any

from windlass.jobs.syntax.field import Shape, Table


def drop_unknown_fields(value: Any, table: Table, path: str, unknown: list[str]) -> Any:
    """The value without fields that are not in its table; their paths are added to `unknown`.

    A value that is no mapping is left to its reader.
    """
    if not isinstance(value, dict):
        return value
    fields = {field.name: field for field in table}
    unknown += [f"{path}.{name}" for name in value if name not in fields]
    return {
        name: _known_below(each, fields[name].shape, fields[name].table, f"{path}.{name}", unknown)
        for name, each in value.items()
        if name in fields
    }


def _known_below(value: Any, shape: Shape, table: Table, path: str, unknown: list[str]) -> Any:
    if shape is Shape.TABLE:
        return drop_unknown_fields(value, table, path, unknown)
    if shape is Shape.TABLES and isinstance(value, list):
        return [drop_unknown_fields(each, table, f"{path}[{number}]", unknown) for number, each in enumerate(value)]
    if shape is Shape.NAMED and isinstance(value, dict):
        return {name: drop_unknown_fields(each, table, f"{path}.{name}", unknown) for name, each in value.items()}
    return value
