"""Misspelt names of fields, read as what they mean: a rule then also finds the faults of the values below them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from windlass.jobs.errors import FieldPath
from windlass.jobs.syntax.yaml_tree import ListNode, MapNode, Node

if TYPE_CHECKING:
    from windlass.jobs.kubernetes.manifests.known_fields.unknown_fields import UnknownField


def meant_names(unknown: Sequence[UnknownField]) -> Mapping[FieldPath, str]:
    """Path of an unknown field as written → the name that it means, where that is certain."""
    return {each.path: each.near for each in unknown if each.near}


def with_meant_names(node: Node, names: Mapping[FieldPath, str]) -> Node:
    """A document with the names of `meant_names`. Places stay as they are."""
    return _renamed(node, names, ()) if names else node


def meant_path(path: FieldPath, names: Mapping[FieldPath, str]) -> FieldPath:
    """A path as written, with the names of `meant_names`."""
    return tuple(names.get(path[: number + 1], part) for number, part in enumerate(path))


def _renamed(node: Node, names: Mapping[FieldPath, str], path: FieldPath) -> Node:
    match node:
        case MapNode():
            entries = [(key, (*path, key.text), value) for key, value in node.entries]
            made = [
                (replace(key, text=names.get(inner, key.text)), _renamed(value, names, inner))
                for key, inner, value in entries
            ]
            return replace(node, entries=tuple(made))
        case ListNode():
            return replace(
                node, items=tuple(_renamed(item, names, (*path, number)) for number, item in enumerate(node.items))
            )
    return node
