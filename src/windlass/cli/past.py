"""What is told while no controller runs is of the past: saying of when."""

from __future__ import annotations

import sys

from windlass.cli.words import moment
from windlass.server.attach import Source
from windlass.server.client import Client


def say_if_past(asked: Source) -> None:
    """On stderr, beside what programs read."""
    if not isinstance(asked, Client):
        when = moment(asked.as_of() or None)
        print(f"as of {when} (no daemon runs; start one with: windlass up -d)", file=sys.stderr)
