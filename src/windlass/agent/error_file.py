"""The error file of a rank: the reason of its end, in the format of torch's `record`.

torch's `record`, `windlass.train` and the process that runs a script write it; the last of them counts.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from windlass import wire

_MOST_CHARACTERS = 300
"""The reason is printed in the middle of a line."""


def write_error(error: BaseException) -> None:
    """Writes an error that ends a script; of SystemExit the text that it prints, if it has one."""
    with contextlib.suppress(Exception):  # Python itself reports an error that cannot be printed
        if not isinstance(error, SystemExit):
            wire.write_error_file(wire.describe_error(error), error)
        elif isinstance(error.code, str):
            wire.write_error_file(error.code, error)


def read_reason(path: str) -> str:
    """The first line of the reason, made printable; "" if there is none."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        message = json.loads(Path(path).read_text(encoding="utf-8"))["message"]
        lines = str(message["message"] if isinstance(message, dict) else message).strip().splitlines()
        line = lines[0][:_MOST_CHARACTERS] if lines else ""
        return "".join(each if each.isprintable() else " " for each in line)
    return ""
