"""The solution of a lab as text: its commands, and each of its files as the difference from the start."""

from __future__ import annotations

import difflib
from pathlib import Path

from windlass.labs.lab_description import LabDescription

SOLVE = "solve.sh"


def solution_text(lab: LabDescription) -> str:
    """Returns the solution in Markdown: `solve.sh`, and a difference for each further file."""
    folder = lab.folder / "solution"
    parts = [f"# Solution of {lab.facts.id}: {lab.facts.title}", _block("sh", (folder / SOLVE).read_text())]
    parts += [
        f"## {path.relative_to(folder)}\n\n{_block('diff', _difference(lab, path))}"
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != SOLVE and "__pycache__" not in path.parts
    ]
    return "\n\n".join(parts) + "\n"


def _difference(lab: LabDescription, path: Path) -> str:
    name = path.relative_to(lab.folder / "solution")
    before = lab.folder / "start" / name
    return "".join(difflib.unified_diff(_lines(before), _lines(path), f"start/{name}", f"solution/{name}"))


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else []


def _block(language: str, text: str) -> str:
    return f"```{language}\n{text.strip()}\n```"
