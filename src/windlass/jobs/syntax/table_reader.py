"""Reads a YAML tree (`yaml_tree`) by a table of fields (`field`): the values, and every problem."""

from __future__ import annotations

from typing import Any, Protocol

from windlass.jobs.errors import FieldPath, Place, Problem
from windlass.jobs.syntax.command_line import split_line
from windlass.jobs.syntax.field import Field, Shape, Table
from windlass.jobs.syntax.names import did_you_mean, is_name
from windlass.jobs.syntax.value_types import ValueType, show
from windlass.jobs.syntax.yaml_tree import ListNode, MapNode, Node, Scalar, canonical, plain


class DocumentSource(Protocol):
    """The text of a document, or plain data whose places are paths; makes the problems at its places."""

    def problem(self, message: str, place: Place, /) -> Problem:
        """A problem at a place."""


class Reader:
    """Reader of one document, which keeps the problems found and the place of each field."""

    def __init__(self, source: DocumentSource) -> None:
        self.source = source
        self.problems: list[Problem] = []
        self.places: dict[FieldPath, Place] = {}

    def problem(self, message: str, place: Place) -> None:
        """Adds a problem."""
        self.problems.append(self.source.problem(message, place))

    def problem_at(self, path: FieldPath, message: str) -> Problem:
        """A problem at a field that was read, or at the nearest field around it."""
        while path not in self.places:
            path = path[:-1]
        return self.source.problem(message, self.places[path])

    def table(self, node: Node, table: Table, path: FieldPath, what: str) -> dict[str, Any]:
        """The fields of a mapping that could be read. `what` names the mapping in errors: "a job"."""
        self.places.setdefault(path, node.place)
        if not isinstance(node, MapNode):
            self.problem(f"{what} is a mapping of fields, not {_describe_node(node)}", node.place)
            return {}
        fields = {field.name: field for field in table}
        values: dict[str, Any] = {}
        for key, value in node.entries:
            self.places[*path, key.text] = key.place
            if key.text in fields:
                self.field(value, fields[key.text], (*path, key.text), values)
            else:
                self.problem(f"unknown field {key.text[:40]!r}{_suggest_field(key.text, table)}", key.place)
        return values

    def field(self, node: Node, field: Field, path: FieldPath, values: dict[str, Any]) -> None:
        """One field's value into `values`, unless it cannot be read."""
        if isinstance(node, Scalar) and node.value is None:
            if field.nullable:
                values[field.name] = None
            else:
                self.problem(f"{field.name} has no value; write one, or remove the line", self.places[path])
            return
        before = len(self.problems)
        value = self.value(node, field, path)
        if len(self.problems) == before:
            values[field.name] = value

    def value(self, node: Node, field: Field, path: FieldPath) -> Any:  # noqa: PLR0911 - one for each shape
        """A field's value by its shape; invalid if a problem was added."""
        match field.shape:
            case Shape.ONE:
                return self.single(node, field.value_type, field.name)
            case Shape.LIST:
                items = node.items if isinstance(node, ListNode) else (node,)
                return [self.single(item, field.value_type, field.name) for item in items]
            case Shape.COMMAND:
                return self.command(node)
            case Shape.MAP:
                entries = self.arbitrary_keys(node, field)
                return {
                    key.text: self.single(value, field.value_type, f"{field.name}.{key.text}") for key, value in entries
                }
            case Shape.TABLE:
                return self.whole_table(node, field, path)
            case Shape.TABLES:
                return self.tables(node, field, path)
            case Shape.NAMED:
                return self.named(node, field, path)
            case Shape.FREE:
                return self.free(node, field)

    def free(self, node: Node, field: Field) -> str:
        """A mapping of anything, as JSON."""
        if not isinstance(node, MapNode):
            self.problem(f"{field.name} is a mapping such as {field.example}, not {_describe_node(node)}", node.place)
            return ""
        try:
            return canonical(plain(node))
        except ValueError:
            self.problem(f"{field.name} holds a number that is too large", node.place)
            return ""

    def whole_table(self, node: Node, field: Field, path: FieldPath) -> dict[str, Any]:
        """A mapping of fields, of which those without a default must be written."""
        before = len(self.problems)
        values = self.table(node, field.table, path, field.name)
        missing = [each.name for each in field.table if not each.default and each.name not in values]
        if missing and len(self.problems) == before:
            self.problem(f"{field.name} lacks {missing[0]}; write for example {field.example}", node.place)
        return values

    def single(self, node: Node, value_type: ValueType, name: str) -> Any:
        """One scalar by its type; None, and a problem, if it cannot be read."""
        if not isinstance(node, Scalar):
            self.problem(f"{name} expects one {value_type.words}, not {_describe_node(node)}", node.place)
            return None
        try:
            as_text = value_type.as_written and node.value is not None
            return value_type.read(node.text if as_text else node.value)
        except ValueError as error:
            self.problem(f"{name} {error}", node.place)
            return None

    def command(self, node: Node) -> tuple[str, ...]:
        """A list of words, or a line."""
        if isinstance(node, Scalar) and isinstance(node.value, str):
            try:
                return split_line(node.text)
            except ValueError as error:
                self.problem(f"command {error}", node.place)
        elif isinstance(node, ListNode) and node.items:
            words = tuple(self.word(item) for item in node.items)
            if not words[0]:
                self.problem("command expects a program as its first word", node.items[0].place)
            return words
        else:
            self.problem(f"command is a line or a list of words, not {_describe_node(node)}", node.place)
        return ()

    def word(self, node: Node) -> str:
        """One word of a command; numbers and booleans are taken as written."""
        if isinstance(node, Scalar) and node.value is not None:
            return node.text
        self.problem(f"command expects words, not {_describe_node(node)}", node.place)
        return "?"

    def arbitrary_keys(self, node: Node, field: Field) -> tuple[tuple[Scalar, Node], ...]:
        """The entries of a mapping whose names the user chooses."""
        if not isinstance(node, MapNode):
            self.problem(f"{field.name} is a mapping such as {field.example}, not {_describe_node(node)}", node.place)
            return ()
        for key, _ in node.entries:
            if not is_name(field.key_pattern, key.text):
                self.problem(f"{key.text[:40]!r} cannot be the name of a {field.key_label}", key.place)
        return node.entries

    def tables(self, node: Node, field: Field, path: FieldPath) -> list[dict[str, Any]]:
        """A list of mappings of fields."""
        if not isinstance(node, ListNode):
            self.problem(f"{field.name} is a list such as {field.example}, not {_describe_node(node)}", node.place)
            return []
        what = f"an item of {field.name}"
        return [self.table(item, field.table, (*path, number), what) for number, item in enumerate(node.items)]

    def named(self, node: Node, field: Field, path: FieldPath) -> dict[str, dict[str, Any]]:
        """Named mappings of fields, at least one."""
        entries = self.arbitrary_keys(node, field)
        if isinstance(node, MapNode) and not entries:
            self.problem(f"{field.name} needs at least one {field.key_label}", node.place)
        self.places.update({(*path, key.text): key.place for key, _ in entries})
        return {
            key.text: self.table(value, field.table, (*path, key.text), f"the {field.key_label} {key.text[:40]!r}")
            for key, value in entries
        }


def _suggest_field(word: str, table: Table) -> str:
    """The nearest known field, also by its name in other systems."""
    for field in table:
        if word.lower().replace("-", "_") in {other.lower() for other in field.foreign_names}:
            return f"; it is called {field.name!r} here"
    return did_you_mean(word, [field.name for field in table])


def _describe_node(node: Node) -> str:
    match node:
        case Scalar():
            return show(node.value) if node.value is not None else "empty"
        case ListNode():
            return "a list" if node.items else "an empty list"
        case MapNode():
            return "a mapping" if node.entries else "an empty mapping"
