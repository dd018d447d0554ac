"""Reads and writes the error file of a rank: the error that ended it, in torch.distributed.elastic's `record` format.

`record`, `windlass.train` and `fork_server.script` write it; the last write replaces earlier ones.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from windlass import wire

_MAX_CHARACTERS = 300
"""Maximum length of a reason, which is printed within a line."""


def write_error(error: BaseException) -> None:
    """Writes an error that ends a script; a SystemExit only if it has a text."""
    with contextlib.suppress(Exception):  # Python itself reports an error that cannot be printed
        if not isinstance(error, SystemExit):
            wire.write_error_file(wire.describe_error(error), error)
        elif isinstance(error.code, str):
            wire.write_error_file(error.code, error)


def read_reason(path: str) -> str:
    """The first line of the error's message, made printable; "" if there is none."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        message = json.loads(Path(path).read_text(encoding="utf-8"))["message"]
        lines = str(message["message"] if isinstance(message, dict) else message).strip().splitlines()
        line = lines[0][:_MAX_CHARACTERS] if lines else ""
        return "".join(each if each.isprintable() else " " for each in line)
    return ""
