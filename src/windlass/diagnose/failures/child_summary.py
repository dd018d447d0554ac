"""Summary of a failed process that torchrun prints: several lines about one rank."""

from __future__ import annotations

import re
from collections.abc import Iterable

_FIELD = re.compile(r"^\s*(?P<name>time|host|rank|exitcode|error_file|traceback)\s*:\s*(?P<value>\S+)")


def failed_child(lines: Iterable[str]) -> tuple[int | None, str | None]:
    """Rank and host of the summary to which the first of the lines belongs; the lines are the newest first."""
    found: dict[str, str] = {}
    for line in lines:
        field = _FIELD.match(line)
        if field is None or field["name"] in found:
            break
        found[field["name"]] = field["value"]
    rank = found.get("rank", "")
    return (int(rank) if rank.isdecimal() and len(rank) < 8 else None, found.get("host"))
