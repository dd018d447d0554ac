"""Schema of one key of a YAML file (job, cluster or manifest): name, shape, value type, help."""

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
    """A scalar."""
    LIST = auto()
    """A list of scalars; a single scalar is accepted."""
    MAP = auto()
    """Arbitrary keys with scalars as values."""
    COMMAND = auto()
    """A list of words, or one line that is split into words as a shell does."""
    TABLE = auto()
    """A mapping with fields of its own."""
    TABLES = auto()
    """A list of mappings with the same fields."""
    NAMED = auto()
    """Arbitrary keys, each with a mapping of the same fields."""
    FREE = auto()
    """A mapping that another program reads: kept as JSON with sorted keys; an empty one is empty text."""


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a file. `help` and `default` are display texts; the reader of each file applies the default value."""

    name: str
    help: str
    value_type: ValueType = value_types.TEXT
    shape: Shape = Shape.ONE
    default: str = ""
    """In words; "" means that the key is required."""
    example: str = ""
    """A value as it would stand in a file."""
    flags: tuple[str, ...] = ()
    """Its options on the command line."""
    nullable: bool = False
    """`null` may be written; it means that there is no limit, or that none is requested."""
    foreign_names: tuple[str, ...] = ()
    """Names of the key in other systems: mentioned in errors, never accepted."""
    table: tuple[Field, ...] = ()
    """Fields of the mapping or mappings, for the shapes TABLE, TABLES and NAMED."""
    split_on_commas: bool = True
    """On the command line a comma separates two values of a list."""
    key_pattern: str = LABEL
    """Regular expression of an arbitrary key."""
    key_label: str = "name"
    """Word for an arbitrary key in errors and help: "variable", "label"."""


Table: TypeAlias = tuple[Field, ...]
