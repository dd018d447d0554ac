"""Entries of an imported YAML or JSON file: a field with its path, its place and its value, and typed reading of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from windlass.jobs.errors import InputError, Place
from windlass.jobs.imports.outcomes import Loss
from windlass.jobs.syntax.names import did_you_mean
from windlass.jobs.syntax.text import Text
from windlass.jobs.syntax.yaml_tree import ListNode, MapNode, Node, Scalar

_SHOWN = 40
"""Characters of a foreign name or value in a message."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A field of a file. `name` is its path: "resources.cpus"."""

    source: Text
    name: str
    place: Place
    node: Node

    def error(self, message: str) -> InputError:
        """The error of this field alone."""
        return InputError([self.source.problem(f"{self.name} {message}", self.place)])

    def lost(self, reason: str) -> Loss:
        """The loss of this field."""
        return Loss(self.place, self.name, reason)

    @property
    def is_empty(self) -> bool:
        """Tells whether nothing, or null, is written."""
        return isinstance(self.node, Scalar) and self.node.value is None

    @property
    def is_mapping(self) -> bool:
        """Tells whether the value is a mapping."""
        return isinstance(self.node, MapNode)

    def text(self) -> str:
        """A single value as it is written; "" for null. Raises InputError."""
        if not isinstance(self.node, Scalar):
            raise self.error("expects a single value, not a list or a mapping")
        return "" if self.node.value is None else self.node.text

    def whole(self, least: int, most: int) -> int:
        """A whole number. Raises InputError."""
        value = self.node.value if isinstance(self.node, Scalar) else None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.error(f"expects a whole number from {least} to {most}")
        return value

    def is_true(self) -> bool:
        """A boolean. Raises InputError."""
        value = self.node.value if isinstance(self.node, Scalar) else None
        if not isinstance(value, bool):
            raise self.error("expects true or false")
        return value

    def items(self) -> list[FileEntry]:
        """The items of a list; null has none. Raises InputError."""
        if self.is_empty:
            return []
        if not isinstance(self.node, ListNode):
            raise self.error("expects a list")
        return [FileEntry(self.source, f"{self.name}[{n}]", each.place, each) for n, each in enumerate(self.node.items)]

    def mapping(self, known: Collection[str] = ()) -> Mapping[str, FileEntry]:
        """The entries of a mapping; null has none. With `known` other names are an error. Raises InputError."""
        if self.is_empty:
            return {}
        if not isinstance(self.node, MapNode):
            raise self.error("expects a mapping of fields")
        prefix = f"{self.name}." if self.name else ""
        problems = [
            self.source.problem(f"unknown field {prefix}{key.text[:_SHOWN]}{did_you_mean(key.text, known)}", key.place)
            for key, _ in self.node.entries
            if known and key.text not in known
        ]
        if problems:
            raise InputError(problems)
        return {
            key.text: FileEntry(self.source, f"{prefix}{key.text[:_SHOWN]}", key.place, value)
            for key, value in self.node.entries
        }


def whole_document(source: Text, node: Node) -> FileEntry:
    """A document of a file as an entry without a name."""
    return FileEntry(source, "", node.place, node)
