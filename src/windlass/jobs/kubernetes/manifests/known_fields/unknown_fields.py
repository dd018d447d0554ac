"""Finds fields that their kind lacks, each with its place and a suggestion.

Only names are checked. A list in the place of a mapping, or the reverse, is left to the readers.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from typing import NamedTuple, TypeAlias

from windlass.jobs.errors import FieldPath, Place
from windlass.jobs.kubernetes.manifest_reader import format_path
from windlass.jobs.kubernetes.manifests.known_fields.types import KINDS, FieldType, known_types
from windlass.jobs.syntax.names import close_name, did_you_mean, nearest
from windlass.jobs.syntax.yaml_tree import ListNode, MapNode, Node, Scalar

_LONG = 10
"""Characters of a name that may stand for a longer one, of which it is a part."""
_SHOWN = 40
"""Characters of an odd name that an error shows."""
_PARTS = ("spec", "template", "metadata", "runPolicy", "schedulingPolicy", "trainer", "resources", "securityContext")
"""Fields beside which users write fields that belong into them."""
_Around: TypeAlias = tuple[tuple[FieldPath, FieldType], ...]


class UnknownField(NamedTuple):
    """One unknown field."""

    path: FieldPath
    place: Place
    meant: FieldPath
    """Path of the suggested field; empty without a suggestion."""
    message: str
    near: str = ""
    """The only name of the same mapping that this one misspells, unless the mapping has it already."""

    def explains(self, fault: FieldPath) -> bool:
        """Tells whether this field explains that another one is invalid or missing."""
        return any(place and fault[: len(place)] == place for place in (self.path, self.meant))

    def __str__(self) -> str:
        """In one line: "spec.runPolcy: unknown field; did you mean 'runPolicy'?"."""
        *around, name = self.path
        return f"{format_path((*around, str(name)[:_SHOWN]))}: {self.message}"


def unknown_fields(manifest: Node) -> list[UnknownField]:
    """The unknown fields of a manifest, in their order; none if its kind is not known here."""
    fields = {key.text: value for key, value in manifest.entries} if isinstance(manifest, MapNode) else {}
    version, kind = (_text(fields.get(name)) for name in ("apiVersion", "kind"))
    return unknown_below(manifest, KINDS.get((version, kind), ""))


def unknown_below(node: Node, shape: str, path: FieldPath = ()) -> list[UnknownField]:
    """The unknown fields of a part of a known shape. `path`: its place."""
    return list(_below(node, shape, path, ()))


def _text(node: Node | None) -> str:
    return node.text if isinstance(node, Scalar) else ""


def _below(node: Node, shape: str, path: FieldPath, around: _Around) -> Iterator[UnknownField]:
    inner = shape[1:-1]
    if shape.startswith("["):
        for number, item in enumerate(node.items if isinstance(node, ListNode) else ()):
            yield from _below(item, inner, (*path, number), around)
    elif shape and isinstance(node, MapNode):
        if shape.startswith("{"):
            for key, value in node.entries:
                yield from _below(value, inner, (*path, key.text), around)
        else:
            yield from _of_type(node, known_types()[shape], path, around)


def _of_type(node: MapNode, of: FieldType, path: FieldPath, around: _Around) -> Iterator[UnknownField]:
    for key, value in node.entries:
        if key.text in of.fields:
            yield from _below(value, of.fields[key.text], (*path, key.text), (*around, (path, of)))
        else:
            meant, hint = _meant(key.text, path, of, around)
            near = _near(key.text, of.fields.keys() - {each.text for each, _ in node.entries})
            yield UnknownField((*path, key.text), key.place, meant, f"unknown field{hint}", near)
            if meant[:-1] == path and meant:  # its content is checked as if the name were right
                yield from _below(value, of.fields[str(meant[-1])], (*path, key.text), (*around, (path, of)))


def _near(name: str, known: Collection[str]) -> str:
    """The only name that one misspells: `replicaSpec` is the end of `pytorchReplicaSpecs` alone."""
    longer = [each for each in known if name.lower() in each.lower()] if len(name) >= _LONG else []
    return close_name(name, known) or (longer[0] if len(longer) == 1 else "")


def _meant(name: str, path: FieldPath, of: FieldType, around: _Around) -> tuple[FieldPath, str]:
    """The suggested path and its message: a field of this name elsewhere comes first."""
    if other := of.foreign_names.get(name.lower().replace("-", "_")):
        return (*path, other), f"; it is called {other!r} here"
    below = ((*path, *inside) for inside in _inside(name, of))
    above = (place for place, outer in reversed(around) if name in outer.fields)
    if (place := next(itertools.chain(below, above), None)) is not None:
        return (*place, name), f"; it belongs {f'in {format_path(place)}' if place else 'at the top of the manifest'}"
    if near := _near(name, of.fields) or nearest(name, of.fields):
        return (*path, near), f"; did you mean {near!r}?"
    for part, inner in _parts(of):
        if near := nearest(name, inner.fields):
            return (*path, part, near), f"; did you mean {near!r} in {format_path((*path, part))}?"
    return (), did_you_mean(name, of.fields)


def _inside(name: str, of: FieldType, depth: int = 2) -> Iterator[FieldPath]:
    """The parts of a type, and the parts of these, that have a field of this name."""
    yield from ((part,) for part, each in _parts(of) if name in each.fields)
    if depth > 1:
        yield from ((part, *inside) for part, each in _parts(of) for inside in _inside(name, each, depth - 1))


def _parts(of: FieldType) -> list[tuple[str, FieldType]]:
    types = known_types()
    return [(part, types[shape]) for part in _PARTS if (shape := of.fields.get(part, "")) in types]
