"""Settings that an agent's parent process passes in variables: streams, report channel, records, restart budget."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import MutableMapping
from pathlib import Path
from typing import NamedTuple

from windlass import wire


class RankStream(NamedTuple):
    """Output of one rank of this node: descriptors to print to, and the path of the files behind them."""

    out: int
    err: int
    log: str


class ParentSettings(NamedTuple):
    """Settings from the process that started this agent; all empty where a person started it.

    `reports`: descriptor of the report channel, -1 without one. `records`: folder for the rank status file and stacks.
    """

    streams: tuple[RankStream, ...] = ()
    reports: int = -1
    records: str = ""
    budget: wire.RestartBudget | None = None

    def report(self, message: wire.Message) -> None:
        """Writes a message to the report channel; an error of the channel is ignored."""
        if self.reports >= 0:
            with contextlib.suppress(OSError):
                os.write(self.reports, wire.encode(message) + b"\n")


def take_settings(environment: MutableMapping[str, str]) -> ParentSettings:
    """Reads the settings and removes their variables: ranks must not inherit them. Raises ValueError."""
    names = (wire.STREAMS, wire.REPORTS, wire.RECORDS, wire.RESTART_BUDGET)
    streams, reports, records, budget = (environment.pop(name, "") for name in names)
    try:
        return ParentSettings(
            tuple(RankStream(**each) for each in json.loads(streams or "[]")),
            _open_reports(reports),
            _create_folder(records),
            wire.RestartBudget.from_json(budget) if budget else None,
        )
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(
            f"cannot read the settings from this agent's parent process ({', '.join(names)}): {error}"
        ) from error


def _open_reports(where: str) -> int:
    if not where:
        return -1
    return int(where) if where.isdecimal() else os.open(where, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC)


def _create_folder(folder: str) -> str:
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
    return folder
