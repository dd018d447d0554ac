"""Reads a part of a manifest by a table of fields of job files, with the same values and errors.

Used by `trainingjob`, whose spec has the fields of a job file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from windlass.jobs.errors import FieldPath, Place, Problem
from windlass.jobs.kubernetes.manifest_reader import Fault, ManifestError, ManifestField
from windlass.jobs.syntax.field import Table
from windlass.jobs.syntax.table_reader import Reader
from windlass.jobs.syntax.yaml_tree import MAX_DEPTH, ListNode, MapNode, Node, Scalar

Check = Callable[[dict[str, Any]], Iterable[tuple[FieldPath, str]]]
"""Faults between fields that are valid one by one."""


class _Paths:
    """Substitute for a text: the line of a place is the number of a path."""

    def __init__(self) -> None:
        self.paths: list[FieldPath] = []

    def place(self, path: FieldPath) -> Place:
        """The place of a field."""
        self.paths.append(path)
        return Place(len(self.paths) - 1, 1)

    def problem(self, message: str, place: Place) -> Problem:
        """A problem there."""
        return Problem("", message, place)

    def of(self, problem: Problem) -> FieldPath:
        """The path of a problem."""
        return self.paths[problem.place.line] if problem.place else ()

    def node(self, value: Any, path: FieldPath, depth: int) -> Node:
        """A value as a node of a file."""
        place = self.place(path)
        if depth > MAX_DEPTH:
            raise ManifestError(Fault(path, f"is nested more than {MAX_DEPTH} levels deep"))
        match value:
            case dict():
                entries = [self.entry(str(name), item, (*path, str(name)), depth) for name, item in value.items()]
                return MapNode(tuple(entries), place, 1)
            case list():
                items = [self.node(item, (*path, number), depth + 1) for number, item in enumerate(value)]
                return ListNode(tuple(items), place, 1)
            case bool():
                return Scalar(str(value).lower(), value, place)
        return Scalar("" if value is None else str(value), value, place)

    def entry(self, name: str, value: Any, path: FieldPath, depth: int) -> tuple[Scalar, Node]:
        """A name and its value."""
        return Scalar(name, name, self.place(path)), self.node(value, path, depth + 1)


def plain_fields(entry: ManifestField, table: Table, what: str, check: Check) -> dict[str, Any]:
    """The fields that are written there. `what` names the mapping in errors: "a job".

    Raises ManifestError with all faults.
    """
    paths = _Paths()
    reader = Reader(paths)
    values = reader.table(paths.node(entry.value, entry.path, 0), table, (), what)
    faults = [_fault(paths.of(problem), problem.message) for problem in reader.problems]
    if not faults:
        faults = [Fault(paths.of(reader.problem_at(field, message)), message) for field, message in check(values)]
    if faults:
        raise ManifestError(*faults)
    return values


def _fault(path: FieldPath, message: str) -> Fault:
    """A fault whose message does not repeat the name of its field."""
    return Fault(path, message.removeprefix(f"{path[-1]} "))
