"""What a rank says went wrong, as it was left in the file for that.

torch's `record` writes it, `windlass.train` too, and whoever runs a script: the last of them counts.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from windlass import wire

_MOST = 300
"""Characters of it that are passed on: it is said in the middle of a line."""


def write_error(error: BaseException) -> None:
    """Write down an error that ends a script; of SystemExit what it prints, if it does."""
    with contextlib.suppress(Exception):  # an error that cannot even be printed is Python's to tell
        if not isinstance(error, SystemExit):
            wire.leave_words(wire.in_words(error), error)
        elif isinstance(error.code, str):
            wire.leave_words(error.code, error)


def read_reason(path: str) -> str:
    """The first line of what was written down, fit to be printed and sent; "" if nothing was."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        said = json.loads(Path(path).read_text(encoding="utf-8"))["message"]
        lines = str(said["message"] if isinstance(said, dict) else said).strip().splitlines()
        return "".join(each if each.isprintable() else " " for each in lines[0][:_MOST]) if lines else ""
    return ""
