"""What is told while no controller runs is of the past: saying of when."""

from __future__ import annotations

import sys

from windlass.cli.place import Told
from windlass.cli.words import moment


def say_if_past(asked: Told) -> None:
    """On stderr, beside what programs read."""
    if asked.kind:
        return
    from windlass.server.offline import Offline  # noqa: PLC0415 - where it is one, it is loaded

    if isinstance(asked, Offline):
        when = moment(asked.as_of() or None)
        print(f"as of {when} (no daemon runs; start one with: windlass up -d)", file=sys.stderr)
