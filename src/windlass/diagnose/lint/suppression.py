"""Comments that ignore rules: `# windlass: ignore[rule]` on a line or above it, `ignore-file[rule]` for a file."""

from __future__ import annotations

import re
from dataclasses import dataclass

from windlass.diagnose.lint.findings import LintFinding
from windlass.jobs.errors import Place

_COMMENT = re.compile(r"#\s*windlass:\s*ignore(-file)?\[([^\]\n]{0,400})\]")


@dataclass(frozen=True, slots=True)
class Suppressions:
    """The ignored rules of a file, and of each line of it."""

    file: frozenset[str]
    lines: dict[int, set[str]]
    names: tuple[tuple[str, Place], ...]
    """Every rule that is named, and its place."""

    def ignores(self, finding: LintFinding) -> bool:
        """Tells whether a comment ignores the finding."""
        return finding.rule in self.file or finding.rule in self.lines.get(finding.place.line, ())


def read_suppressions(lines: list[str]) -> Suppressions:
    """Reads the comments of a file. A comment alone on its line counts for the next line that is no comment."""
    file, by_line, names = set[str](), dict[int, set[str]](), list[tuple[str, Place]]()
    for number, line in enumerate(lines, 1):
        if "windlass:" not in line or not (found := _COMMENT.search(line)):
            continue
        rules = {name.strip() for name in found[2].split(",")} - {""}
        place = Place(number, found.start() + 1, len(found[0]))
        names += [(name, place) for name in sorted(rules)]
        if found[1]:
            file |= rules
        else:
            by_line.setdefault(_next_line(lines, number), set()).update(rules)
    return Suppressions(frozenset(file), by_line, tuple(names))


def _next_line(lines: list[str], number: int) -> int:
    """The line that a comment counts for: its own, or the first one after a block of comments."""
    while number < len(lines) and _is_comment(lines[number - 1]):
        number += 1
    return number


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#") and not line.startswith("#SBATCH")
