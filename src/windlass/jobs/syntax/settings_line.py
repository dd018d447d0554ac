"""Reads settings on one line, such as `jobs=1000 load=0.9`: fields of a table, each as name=value.

Names have dashes, as options have; the underscores of files are accepted as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from windlass.jobs.syntax import value_types
from windlass.jobs.syntax.field import Field, Shape, Table
from windlass.jobs.syntax.names import did_you_mean
from windlass.jobs.syntax.value_types import Plain

BETWEEN = "/"
"""Separates the values of a list: the comma separates settings."""


def read_spelled(words: Iterable[str], table: Table) -> dict[str, Any]:
    """The values by field. Raises ValueError with a text that names the setting and its values."""
    fields = {_dashed(field.name): field for field in table}
    values: dict[str, Any] = {}
    for word in words:
        name, equals, text = (part.strip() for part in word.partition("="))
        plain = _dashed(name)
        if not equals:
            hint = "" if plain in fields else did_you_mean(plain, fields)
            raise ValueError(f"{word.strip()!r} is no setting; write it as name=value{hint}")
        if plain not in fields:
            raise ValueError(f"there is no setting {name!r}{did_you_mean(plain, fields)}")
        if fields[plain].name in values:
            raise ValueError(f"{plain} is given twice")
        values[fields[plain].name] = _value(fields[plain], text)
    return values


def _dashed(name: str) -> str:
    return name.replace("_", "-")


def _value(field: Field, text: str) -> Any:
    parts = text.split(BETWEEN) if field.shape is Shape.LIST else [text]
    try:
        values = [field.value_type.read(part if field.value_type.as_written else plain_of(part)) for part in parts]
    except ValueError as error:
        raise ValueError(f"{_dashed(field.name)} {error}") from None
    return tuple(values) if field.shape is Shape.LIST else values[0]


def plain_of(text: str) -> Plain:
    """The value that YAML reads from a word."""
    if text in ("true", "false"):
        return text == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


_FLAGS = {"true": True, "false": False}


def read_line(table: Table, given: str) -> dict[str, Any]:
    """The fields of "rack,preferred,slice=4" as a table of a file would have them. Raises ValueError."""
    fields = {field.name: field for field in table if field.shape is Shape.ONE}
    first = table[0].name
    values: dict[str, Any] = {}
    for number, word in enumerate(given.split(",")):
        name, equals, value = word.partition("=")
        if not equals and name not in fields and number == 0:
            name, equals, value = first, "=", word
        if name not in fields or not (equals or fields[name].value_type is value_types.FLAG):
            raise ValueError(f"cannot be {given[:40]!r}; write {_form(table)}")
        values[name] = fields[name].value_type.read(_flag_number_or_text(value) if equals else True)
    if first not in values:
        raise ValueError(f"lacks the {first}; write {_form(table)}")
    return values


def _flag_number_or_text(value: str) -> str | int | bool:
    if value in _FLAGS:
        return _FLAGS[value]
    return int(value) if value.removeprefix("-").isdecimal() and len(value) < 18 else value


def _form(table: Table) -> str:
    first, *rest = (field for field in table if field.shape is Shape.ONE)
    parts = [field.name if field.value_type is value_types.FLAG else f"{field.name}={field.example}" for field in rest]
    return f"{first.name.upper()}[,{'][,'.join(parts)}]"
