"""The staged hints of a lab, from a nudge to nearly the answer."""

from __future__ import annotations

import re

from windlass.labs.errors import LabError
from windlass.labs.lab_description import LabDescription

_HEAD = re.compile(r"^## ([0-9]+) *$", re.MULTILINE)


def read_hints(lab: LabDescription) -> list[str]:
    """Returns the hints of a lab in their order. Raises LabError if they are not numbered from 1."""
    path = lab.folder / "hints.md"
    parts = _HEAD.split(path.read_text(encoding="utf-8"))
    numbers, texts = parts[1::2], parts[2::2]
    if not numbers or [int(number) for number in numbers] != list(range(1, len(numbers) + 1)):
        raise LabError(f"{path} has no hints numbered from 1\nwrite each below a heading such as ## 1")
    return [text.strip() for text in texts]
