"""A table of fields on one line, for the command line: the first field's value, then flags and name=value."""

from __future__ import annotations

from typing import Any

from windlass.jobs import kinds
from windlass.jobs.field import Shape, Table

_FLAGS = {"true": True, "false": False}


def read_line(table: Table, given: str) -> dict[str, Any]:
    """The fields of "rack,preferred,slice=4", as a file's table would be read. Raises ValueError."""
    fields = {field.name: field for field in table if field.shape is Shape.ONE}
    first = table[0].name
    values: dict[str, Any] = {}
    for number, word in enumerate(given.split(",")):
        name, equals, value = word.partition("=")
        if not equals and name not in fields and number == 0:
            name, equals, value = first, "=", word
        if name not in fields or not (equals or fields[name].kind is kinds.FLAG):
            raise ValueError(f"cannot be {given[:40]!r}; write {_form(table)}")
        values[name] = fields[name].kind.read(_plain(value) if equals else True)
    if first not in values:
        raise ValueError(f"lacks the {first}; write {_form(table)}")
    return values


def _plain(value: str) -> str | int | bool:
    if value in _FLAGS:
        return _FLAGS[value]
    return int(value) if value.removeprefix("-").isdecimal() and len(value) < 18 else value


def _form(table: Table) -> str:
    first, *rest = (field for field in table if field.shape is Shape.ONE)
    parts = [field.name if field.kind is kinds.FLAG else f"{field.name}={field.example}" for field in rest]
    return f"{first.name.upper()}[,{'][,'.join(parts)}]"
