"""`Value`: a node of a YAML document, or its absence, with the place at which a fault of it is reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from windlass.diagnose.lint.findings import Hit
from windlass.diagnose.lint.message_fixes import listed
from windlass.jobs.errors import FieldPath, Place
from windlass.jobs.syntax.names import close_name
from windlass.jobs.syntax.yaml_tree import ListNode, MapNode, Node, Scalar, plain


@dataclass(slots=True, eq=False)
class Value:
    """A value. False if it is absent or null; its place is then that of the part around it.

    `place` is that of its key in a mapping, else its own. Immutable by convention: thousands are made for a file.
    """

    node: Node | None
    place: Place
    name: str = ""

    def __bool__(self) -> bool:
        return self.node is not None and not (isinstance(self.node, Scalar) and self.node.value is None)

    def __getitem__(self, name: str) -> Value:
        if isinstance(self.node, MapNode):
            for key, value in self.node.entries:
                if key.text == name:
                    return Value(value, key.place, name)
        return Value(None, self.place, name)

    def at(self, *names: str) -> Value:
        """The value at a path of names."""
        found = self
        for name in names:
            found = found[name]
        return found

    def below(self, path: FieldPath) -> Value:
        """The value at a path of names and indexes, or the nearest value around it."""
        found = self
        for part in path:
            items = found.items
            inner = found[part] if isinstance(part, str) else items[part] if part < len(items) else None
            if inner is None or inner.node is None:
                return found
            found = inner
        return found

    @property
    def items(self) -> list[Value]:
        """The items of a list; [] of anything else."""
        return [Value(item, item.place) for item in self.node.items] if isinstance(self.node, ListNode) else []

    @property
    def fields(self) -> dict[str, Value]:
        """The entries of a mapping; {} of anything else."""
        if not isinstance(self.node, MapNode):
            return {}
        return {key.text: Value(value, key.place, key.text) for key, value in self.node.entries}

    @property
    def is_map(self) -> bool:
        """Tells whether it is a mapping."""
        return isinstance(self.node, MapNode)

    @property
    def is_list(self) -> bool:
        """Tells whether it is a list."""
        return isinstance(self.node, ListNode)

    @property
    def is_scalar(self) -> bool:
        """Tells whether it is a single value other than null."""
        return bool(self) and isinstance(self.node, Scalar)

    @property
    def text(self) -> str:
        """A single value as written, without quotes; "" of anything else."""
        return self.node.text if self and isinstance(self.node, Scalar) else ""

    @property
    def plain(self) -> Any:
        """The value as plain data."""
        return None if self.node is None else plain(self.node)

    @property
    def number(self) -> int | None:
        """An integer, None of anything else."""
        value = self.node.value if isinstance(self.node, Scalar) else None
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def texts(self) -> list[str]:
        """The single values of a list as written."""
        return [item.text for item in self.items]

    def hit(self, message: str, *, fix: str = "") -> Hit:
        """A fault of this value. `fix`: that of this fault, if its rule has another one."""
        return Hit(self.place, message, fix=fix)

    def hit_value(self, message: str, replacement: str | None = None, *, fix: str = "") -> Hit:
        """A fault at the value itself, not at its key, and the text to write instead. `fix`: see `hit`."""
        if not isinstance(self.node, Scalar):
            return Hit(self.node.place if self.node is not None else self.place, message, fix=fix)
        is_one_line = self.node.place.width >= len(self.node.text)
        return Hit(in_quotes(self.node.place, self.node.text), message, replacement if is_one_line else None, fix)

    def hit_word(self, message: str, words: Sequence[str]) -> Hit:
        """A fault of a word that is none of some; the one that it misspells replaces it."""
        near = close_name(self.text, words)
        hint = f"; write {near}" if near else ""
        return self.hit_value(f"{message}{hint}", near or None, fix=f"Write {near or listed(words)}.")

    def hit_key(self, message: str, replacement: str | None, *, fix: str = "") -> Hit:
        """A fault of the key, and the key to write instead. `fix`: see `hit`."""
        return Hit(in_quotes(self.place, self.name), message, replacement, fix)


def in_quotes(place: Place, text: str) -> Place:
    """The place of a text without the quotes around it, which a replacement keeps."""
    return Place(place.line, place.column + 1, len(text)) if text and place.width == len(text) + 2 else place
