"""`InputError`: the faults of a text or option that a user wrote, each with its place and the fix."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

FieldPath: TypeAlias = tuple[str | int, ...]
"""Path to a field: names of fields and indexes of lists, from the outermost in."""
MAX_SHOWN = 20
"""Problems that one error shows; the others are only counted."""
_WIDTH = 100
"""Characters of an offending line that are shown."""


@dataclass(frozen=True, slots=True)
class Place:
    """Position in a text. Lines and columns count from 1, in characters; `width` is the caret's."""

    line: int
    column: int
    width: int = 1


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault. `source` is a file ("job.yaml", "<stdin>") or an option ("--time")."""

    source: str
    message: str
    place: Place | None = None
    excerpt: str = ""
    """The faulty line of the file, if there is one."""

    def __str__(self) -> str:
        if self.place is None:
            return _printable(f"{self.source}: {self.message}")
        head = f"{self.source}:{self.place.line}:{self.place.column}: {self.message}"
        return f"{_printable(head)}\n{_excerpt(self.excerpt, self.place)}"


class InputError(Exception):
    """A file or option that cannot be used as written: job, cluster, configuration or snapshot file.

    Its text is for users: a paragraph for each problem, `file:line:column: message`, the line and a caret; last the fix
    of all of them, if there is one.
    """

    def __init__(self, problems: Sequence[Problem], hint: str = "") -> None:
        self.problems = tuple(sorted(problems, key=_order))
        shown = [str(problem) for problem in self.problems[:MAX_SHOWN]]
        if len(self.problems) > MAX_SHOWN:
            shown.append(f"and {len(self.problems) - MAX_SHOWN} more problems")
        shown += [hint] if hint else []
        super().__init__("\n".join(shown))


def input_error(source: str, message: str) -> InputError:
    """The error of a single problem that has no line."""
    return InputError([Problem(source, message)])


def _order(problem: Problem) -> tuple[int, int]:
    return (problem.place.line, problem.place.column) if problem.place else (0, 0)


def _printable(text: str) -> str:
    """The text with control characters as escapes: a terminal would act upon them."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _excerpt(line: str, place: Place) -> str:
    """The line, or the part of a long one around the place, with carets beneath."""
    start = max(0, place.column - 1 - _WIDTH // 2) if len(line) > _WIDTH else 0
    shown = "".join(c if c.isprintable() else " " for c in line[start : start + _WIDTH])
    before = shown[: place.column - 1 - start]
    marked = shown[len(before) : len(before) + place.width]
    carets = "^" * max(1, _cells(marked))
    gutter = f"{place.line:>5} | "
    return f"{gutter}{shown.rstrip()}\n{' ' * 5} | {' ' * _cells(before)}{carets}"


def _cells(text: str) -> int:
    """Columns that a terminal uses for a text: two for a wide character, none for a combining one."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)
