"""What whoever started this agent gives it and wants to hear: where output goes, what is forgiven, reports."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any, NamedTuple

from windlass import wire


class RankStream(NamedTuple):
    """Where one rank of this node prints to, and what file that ends up in."""

    out: int
    err: int
    log: str


class Forgives(NamedTuple):
    """What a controller that counts failures itself leaves to the agent."""

    machine: int
    """So many failures of machines may be put right in place."""
    retryable: frozenset[int]
    final: frozenset[int]
    """Exit codes after which the controller decides."""
    crew: int
    """The last generation that agents of this job had."""
    backoff: tuple[float, float, float]
    """Seconds before the second restart in a row, at most, and after which a generation ends the row."""

    def whose(self, code: int) -> str:
        """Whose fault an end is: "final" (nobody here decides), "machine", or "" for the program's."""
        if code in self.final:
            return "final"
        end = (None, -code) if code < 0 else (code, None)
        return "machine" if wire.classify_end(*end, retryable=self.retryable).kind == wire.INFRASTRUCTURE else ""


class LauncherSettings(NamedTuple):
    """Nothing of it is there where people start the agent themselves."""

    streams: tuple[RankStream, ...] = ()
    reports: int = -1
    records: str = ""
    forgives: Forgives | None = None

    def say(self, message: wire.Message) -> None:
        """Report it; a supervisor that has gone hears nothing."""
        if self.reports >= 0:
            with contextlib.suppress(OSError):
                os.write(self.reports, wire.encode(message) + b"\n")


def take_settings(environment: MutableMapping[str, str]) -> LauncherSettings:
    """Read from the environment, and removed from it: ranks are not meant. Raises ValueError."""
    names = (wire.STREAMS, wire.REPORTS, wire.RECORDS, wire.FORGIVES)
    streams, reports, records, forgives = (environment.pop(name, "") for name in names)
    try:
        return LauncherSettings(
            tuple(RankStream(**each) for each in json.loads(streams or "[]")),
            _opened(reports),
            _made(records),
            _forgives(json.loads(forgives)) if forgives else None,
        )
    except (TypeError, KeyError, ValueError) as wrong:
        raise ValueError(f"what this agent was given makes no sense ({', '.join(names)}): {wrong}") from wrong


def _opened(where: str) -> int:
    if not where:
        return -1
    return int(where) if where.isdecimal() else os.open(where, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)


def _made(folder: str) -> str:
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
    return folder


def _forgives(said: dict[str, Any]) -> Forgives:
    first, most, healthy = said["backoff"]
    backoff = float(first), float(most), float(healthy)
    return Forgives(said["machine"], frozenset(said["retryable"]), frozenset(said["final"]), said["crew"], backoff)
