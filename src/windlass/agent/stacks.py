"""What ranks wrote down about where they are, read back for people."""

from __future__ import annotations

import contextlib
from pathlib import Path

_MOST = 40
"""Lines of it on the console; the file has all."""


def of(attempt: Path, local: int | None) -> str:
    """The newest stacks of one rank of this node; "" if there are none."""
    if local is None:
        return ""
    with contextlib.suppress(OSError):
        lines = (attempt / str(local) / "stacks.txt").read_text(errors="replace").splitlines()
        return "\n".join(lines[:_MOST])
    return ""
