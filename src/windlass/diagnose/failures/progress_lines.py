"""Lines by which a program reports progress: steps, epochs, throughput, a saved state, a second try, a table's row."""

from __future__ import annotations

from typing import Any

import re2

_COUNTED = rb"\b(?:global[_ ]?)?(?:step|iter|iteration|epoch)s?\b['\"]?[ :=\[#(]{1,12}\d"
_STEP: Any = re2.compile(r"(?i)\b(?:global[_ ]?)?(?:step|iter|iteration)s?\b['\"]?[ :=\[#(]{1,12}(\d{1,12})\b")
_SPEED = rb"\d(?:it/s|s/it)\b"
_SAVED = rb"\bsaved (?:the )?(?:model|checkpoint)\b"
_RETRY = rb"\bretrying with\b"
_ROW = rb"^ *\d+(?: +\d+\.\d+){1,6}$"
_PROGRESS: Any = re2.compile(rb"(?im)^.*(?:" + b"|".join((_COUNTED, _SPEED, _SAVED, _RETRY, _ROW)) + rb").*$")
_PROBLEM: Any = re2.compile(rb"(?i)error|exception|fail|abort|traceback|terminat|timed? ?out|\bnan\b|rank\d* .*killed")
_SEARCHED_BYTES = 1 << 13
"""End of a block in which progress is looked for."""


def progress_lines(text: bytes, first: int) -> list[tuple[int, bytes]]:
    """Returns number and text of the lines at the end of a block that report progress.

    `first`: number of the first line of the block.
    """
    start = max(0, len(text) - _SEARCHED_BYTES)
    first += text.count(b"\n", 0, start)
    text, position, found = text[start:], 0, []
    for match in _PROGRESS.finditer(text):
        first += text.count(b"\n", position, match.start())
        position = match.start()
        if not _PROBLEM.search(match.group()):
            found.append((first, match.group()))
    return found


def step_of(line: str) -> int | None:
    """The number of the step or iteration that a line names."""
    found = _STEP.search(line)
    return int(found[1]) if found else None
