"""Variables of a process as rules see them, wherever they are written: in a container, a batch script or a job file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from windlass.diagnose.lint.values import Value
from windlass.jobs.errors import Place
from windlass.jobs.syntax.yaml_tree import MapNode, Node, Scalar

_EXPORT = re.compile(r"\s*export\s")
_ASSIGNMENT = re.compile(r"(?<=\s)([A-Za-z_][A-Za-z0-9_]*)=(?:\"([^\"]*)\"|'([^']*)'|([^\s;&|\"']*))")


class Environment(Protocol):
    """Variables by name, each with the fields `name` and `value`; limits by resource where there are some."""

    @property
    def env(self) -> Mapping[str, Value]:
        """The variables."""

    @property
    def limits(self) -> Mapping[str, Value]:
        """The limits."""


@dataclass(frozen=True, slots=True)
class WrittenEnvironment:
    """The variables of a job file or of one of its roles."""

    env: Mapping[str, Value]
    limits: Mapping[str, Value] = field(default_factory=dict)


def written_environment(variables: Value) -> WrittenEnvironment:
    """The environment of a mapping from names to values."""
    if not isinstance(variables.node, MapNode):
        return WrittenEnvironment({})
    return WrittenEnvironment({key.text: _entry(key, value) for key, value in variables.node.entries})


def exported_variables(lines: Sequence[str]) -> dict[str, Value]:
    """The variables that lines of a shell script export; of several assignments of one name the last."""
    return {name.text: _entry(name, value) for name, value in _exports(lines)}


def _exports(lines: Sequence[str]) -> Iterator[tuple[Scalar, Scalar]]:
    for number, line in enumerate(lines, 1):
        if _EXPORT.match(line):
            for found in _ASSIGNMENT.finditer(line.partition(" #")[0]):
                group = found.lastindex or 4
                yield _scalar(found, 1, number), _scalar(found, group, number)


def _scalar(found: re.Match[str], group: int, line: int) -> Scalar:
    text = found[group]
    return Scalar(text, text, Place(line, found.start(group) + 1, max(1, len(text))))


def _entry(name: Scalar, value: Node) -> Value:
    """One variable in the form of the list `env` of a container."""
    fields = ((Scalar("name", "name", name.place), name), (Scalar("value", "value", value.place), value))
    return Value(MapNode(fields, name.place, 3), name.place)
