"""What a rank says went wrong, as it was left in the file for that.

torch's `record` writes it, `windlass.train` too, and whoever runs a script does where neither has.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from windlass import wire

_MOST = 300
"""Characters of it that are passed on: it is said in the middle of a line."""


def leave(error: BaseException) -> None:
    """Write down an error that ends a script, if nobody inside of it has; of SystemExit what it prints."""
    said = f"{type(error).__name__}: {error}"
    if isinstance(error, SystemExit):
        said = error.code if isinstance(error.code, str) else ""
    if said:
        wire.leave_words(said, error)


def of(path: str) -> str:
    """The first line of what was written down; "" if nothing was."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        said = json.loads(Path(path).read_text(encoding="utf-8"))["message"]
        lines = str(said["message"] if isinstance(said, dict) else said).strip().splitlines()
        return lines[0][:_MOST] if lines else ""
    return ""
