"""The port of this machine that a `kubectl port-forward` has chosen."""

from __future__ import annotations

import re
from collections.abc import Iterable

from windlass.server.errors import ApiError, ErrorCode

_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")


def wait_for_port(lines: Iterable[str], message: str, fix: str) -> int:
    """Returns the port in the output of kubectl. Raises ApiError if it ends first; kubectl prints the reason."""
    found = next((match for line in lines if (match := _FORWARDING.search(line))), None)
    if found is None:
        raise ApiError(ErrorCode.NO_DAEMON, message, fix)
    return int(found[1])
