"""A field of a file: its name, the values it takes, its documentation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from windlass.jobs.syntax import value_types
from windlass.jobs.syntax.names import LABEL
from windlass.jobs.syntax.value_types import ValueType


class Shape(Enum):
    """Shape of a field's value."""

    ONE = auto()
    LIST = auto()
    """A list of single values; one alone may stand without its list."""
    MAP = auto()
    """Free names with single values."""
    COMMAND = auto()
    """A list of words, or a line for a shell."""
    TABLE = auto()
    """Fields of its own."""
    TABLES = auto()
    """A list of tables."""
    NAMED = auto()
    """Free names with a table each."""
    FREE = auto()
    """A mapping that another program reads: kept as JSON with sorted names; an empty one is empty text."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field. `default` and `help` are for users; the default itself is applied in `resolve`."""

    name: str
    help: str
    kind: ValueType = value_types.TEXT
    shape: Shape = Shape.ONE
    default: str = ""
    """In words; "" means that it must be written."""
    example: str = ""
    """A value as it would stand in a file."""
    flags: tuple[str, ...] = ()
    """Its options on the command line."""
    nullable: bool = False
    """`null` may be written; it means that there is no limit, or that none is requested."""
    also: tuple[str, ...] = ()
    """Names of the field in other systems: mentioned in errors, never accepted."""
    table: tuple[Field, ...] = ()
    commas: bool = True
    """On the command line a comma separates two values of a list."""
    key: str = LABEL
    """Regular expression of a free name."""
    key_words: str = "name"


Table: TypeAlias = tuple[Field, ...]
