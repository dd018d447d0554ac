"""What a field of a file is: its name, what it takes, and all that is told of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from windlass.jobs.syntax import value_types
from windlass.jobs.syntax.names import LABEL
from windlass.jobs.syntax.value_types import ValueType


class Shape(Enum):
    """How many values a field holds."""

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
    """A list of such."""
    NAMED = auto()
    """Free names with such."""
    FREE = auto()
    """A mapping that somebody else reads: kept as JSON, its names sorted; an empty one is empty text."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field. `default` and `help` are for people; the default itself is applied in `resolve`."""

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
    """`null` may be written, and means that there is no limit or none is asked for."""
    also: tuple[str, ...] = ()
    """What other systems call it: named in the error, never accepted."""
    table: tuple[Field, ...] = ()
    commas: bool = True
    """On the command line a comma separates two values of a list."""
    key: str = LABEL
    """What a free name must look like, whole."""
    key_words: str = "name"


Table: TypeAlias = tuple[Field, ...]
