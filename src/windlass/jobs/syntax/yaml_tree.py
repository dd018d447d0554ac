"""Parses YAML text into trees with the position of every node, under limits on size and depth.

PyYAML parses (its C parser where there is one); composing is done here from its events, because its own composer limits
neither nesting nor the values that aliases repeat. Every file that a user submits is read here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import yaml

from windlass.jobs.errors import InputError, Place, Problem
from windlass.jobs.syntax.text import Text
from windlass.jobs.syntax.value_types import Plain

MAX_DEPTH = 24
MAX_NODES = 50_000
"""Number of values in one file, with every alias counted as the values that it names."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_SURROGATE = re.compile("[\0\ud800-\udfff]")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Plain] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INFINITIES = (math.inf, -math.inf)
_CORE_TAGS = frozenset({f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "seq", "map")})


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value. `text` as written (quotes and escapes resolved); `value`: see `plain_value`."""

    text: str
    value: Plain
    place: Place
    size: int = 1


@dataclass(frozen=True, slots=True)
class ListNode:
    """A sequence."""

    items: tuple[Node, ...]
    place: Place
    size: int


@dataclass(frozen=True, slots=True)
class MapNode:
    """A mapping, each key once: merged entries (`<<`) first, then its own."""

    entries: tuple[tuple[Scalar, Node], ...]
    place: Place
    size: int


Node: TypeAlias = Scalar | ListNode | MapNode


def plain(node: Node) -> Any:
    """The same as plain data: dicts, lists, text, numbers, booleans and None."""
    match node:
        case Scalar():
            return node.value
        case ListNode():
            return [plain(item) for item in node.items]
        case MapNode():
            return {key.text: plain(value) for key, value in node.entries}


def canonical(value: Mapping[str, Any]) -> str:
    """Plain data as canonical JSON; "" if it is empty. Raises ValueError for infinite numbers."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False) if value else ""


class _Refused(Exception):  # noqa: N818 - never leaves this module
    """A text that breaks a limit or a rule of YAML."""

    def __init__(self, message: str, place: Place) -> None:
        super().__init__(message)
        self.message, self.place = message, place


def compose(text: Text, most: int = MAX_NODES, depth: int = MAX_DEPTH) -> list[Node]:
    """The documents of a text that are not empty, with at most so many values and levels. Raises InputError."""
    odd = UNPRINTABLE.search(text.text)
    if odd:
        message = f"the character U+{ord(odd[0]):04X} may not stand in a text file"
        raise InputError([text.problem(message, text.place(odd.start()))])
    try:
        documents = list(_Composer(text.text, most, depth).documents())
    except _Refused as refused:
        raise InputError([text.problem(refused.message, refused.place)]) from None
    except yaml.YAMLError as error:
        raise InputError([_syntax_problem(text, error)]) from None
    return [node for node in documents if not (isinstance(node, Scalar) and node.value is None)]


def _syntax_problem(text: Text, error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = str(getattr(error, "problem", None) or "not valid YAML")
    if mark is None:
        return Problem(text.source, problem)
    place = Place(mark.line + 1, mark.column + 1)
    if mark.line >= len(text.lines):  # the mark of the end of a text without a last line end
        place = Place(len(text.lines), len(text.lines[-1]) + 1)
    line = text.problem("", place).excerpt
    if "cannot start any token" in problem and line[mark.column : mark.column + 1] == "\t":
        return text.problem("a tab; YAML is indented with spaces", place)
    return text.problem(_PLAINLY.get(problem, problem), place)


_PLAINLY = {
    "mapping values are not allowed in this context": "a ':' that makes no sense here; indent the line as the one "
    "before, or put the value in quotes",
    "could not find expected ':'": "a name without ':' after it",
    "did not find expected key": "a name was expected here; is the indentation right?",
    "did not find expected '-' indicator": "a list's '-' was expected here; is the indentation right?",
    "did not find expected alphabetic or numeric character": "a value that begins with '*' or '&' needs "
    "quotes around it",
    "found unexpected end of stream": "the quotes opened before are never closed",
}


class _Composer:
    """Turns the events of one file into trees.

    Holds the anchors of one document and the number of values of the file.
    """

    def __init__(self, text: str, most: int, most_levels: int) -> None:
        self.most, self.most_levels = most, most_levels
        self.events: Iterator[yaml.Event] = yaml.parse(text, Loader=_LOADER)
        self.anchors: dict[str, Node | None] = {}
        self.nodes = 0

    def documents(self) -> Iterator[Node]:
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                self.anchors = {}
                yield self.node(next(self.events), 0)

    def node(self, event: yaml.Event, depth: int) -> Node:
        place = _place(event)
        if depth > self.most_levels:
            raise _Refused(f"nested more than {self.most_levels} levels deep", place)
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, place)
        self.count(1, place)
        if isinstance(event, yaml.NodeEvent) and event.anchor:
            self.anchors[event.anchor] = None
        node = self.fresh(event, place, depth)
        if isinstance(event, yaml.NodeEvent) and event.anchor:
            self.anchors[event.anchor] = node
        return node

    def fresh(self, event: yaml.Event, place: Place, depth: int) -> Node:
        tag: str = getattr(event, "tag", None) or "!"
        if tag != "!" and tag not in _CORE_TAGS:
            raise _Refused(f"the tag {tag[:40]} has no meaning here; leave it out", place)
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event, place)
        if isinstance(event, yaml.SequenceStartEvent):
            items = tuple(self.until(yaml.SequenceEndEvent, depth))
            return ListNode(items, place, 1 + sum(item.size for item in items))
        children = list(self.until(yaml.MappingEndEvent, depth))
        return _mapping(children, place)

    def until(self, end: type[yaml.Event], depth: int) -> Iterator[Node]:
        for event in self.events:
            if isinstance(event, end):
                return
            yield self.node(event, depth + 1)

    def alias(self, event: yaml.AliasEvent, place: Place) -> Node:
        anchor = event.anchor or ""
        if anchor not in self.anchors:
            raise _Refused(f"the alias *{anchor[:40]} has no anchor &{anchor[:40]} before it", place)
        node = self.anchors[anchor]
        if node is None:
            raise _Refused(f"the alias *{anchor[:40]} stands inside of what it names", place)
        self.count(node.size, place)
        return node

    def count(self, nodes: int, place: Place) -> None:
        self.nodes += nodes
        if self.nodes > self.most:
            raise _Refused(f"more than {self.most} values, aliases expanded", place)


def _place(event: yaml.Event) -> Place:
    start, end = event.start_mark, event.end_mark
    assert start is not None  # noqa: S101 - both parsers set both marks of every event; the types do not say so
    assert end is not None  # noqa: S101 - same
    same_line = end.line == start.line and not isinstance(event, yaml.CollectionStartEvent)
    return Place(start.line + 1, start.column + 1, max(1, end.column - start.column) if same_line else 1)


def _scalar(event: yaml.ScalarEvent, place: Place) -> Scalar:
    text = event.value
    if _SURROGATE.search(text):
        raise _Refused("a NUL or half a surrogate pair may not stand in a text", place)
    quoted = not event.implicit[0] and event.tag in (None, "!", "tag:yaml.org,2002:str")
    value = text if quoted else plain_value(text)
    # a number too large for a float stays text: fields of text keep it (a commit's "12e4567"), number fields refuse it
    return Scalar(text, text if value in _INFINITIES else value, place)


def plain_value(text: str) -> Plain:
    """Like YAML 1.2's core schema, but `.inf` and `.nan` stay strings: `yes` is a string, 010 is ten."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) <= 30:
        if _INT.fullmatch(text):
            return int(text, {"o": 8, "x": 16}.get(text[1:2], 10))
        if _FLOAT.fullmatch(text):
            return float(text)
    return text


def _mapping(children: list[Node], place: Place) -> MapNode:
    entries: dict[str, tuple[Scalar, Node]] = {}
    merged: dict[str, tuple[Scalar, Node]] = {}
    for key, value in zip(children[::2], children[1::2], strict=True):
        if not isinstance(key, Scalar):
            raise _Refused("a name was expected before the ':', not a list or a mapping", key.place)
        if key.text == "<<" and key.value == "<<":
            merged.update({name: entry for name, entry in _merge(value).items() if name not in merged})
        elif key.text in entries:
            first = entries[key.text][0].place.line
            raise _Refused(f"{key.text[:40]!r} is written twice; the first is in line {first}", key.place)
        else:
            entries[key.text] = (key, value)
    everything = {**merged, **entries}
    size = 1 + sum(value.size + 1 for _, value in everything.values())
    return MapNode(tuple(everything.values()), place, size)


def _merge(value: Node) -> dict[str, tuple[Scalar, Node]]:
    """The entries that `<<: *defaults` or `<<: [*a, *b]` merges in; earlier ones win."""
    sources = value.items if isinstance(value, ListNode) else (value,)
    entries: dict[str, tuple[Scalar, Node]] = {}
    for source in reversed(sources):
        if not isinstance(source, MapNode):
            raise _Refused("<< merges a mapping, or a list of mappings", source.place)
        entries.update({key.text: (key, entry) for key, entry in source.entries})
    return entries
