"""Rules of the log engine, loaded from the tables of `windlass.diagnose.rules`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import yaml

from windlass.diagnose.diagnosis import Advice, CauseScope, Certainty, OtherCause

TIMEOUTS = frozenset(
    {
        "nccl-watchdog-timeout",
        "nccl-timeout-of-first-collective",
        "nccl-timeout-within-one-node",
        "gloo-timeout",
    }
)
"""Rules whose messages come from the ranks that waited."""
LOST_PEERS = frozenset({"gloo-peer-closed", "nccl-remote-error", "tcpstore-peer-lost"})
"""Rules whose messages come from ranks that lost the connection to another one."""


class RuleRole(StrEnum):
    """Meaning of a message for the failure."""

    ROOT = "root"
    CONSEQUENCE = "consequence"
    """Another process or rank failed before."""
    HINT = "hint"
    """Healthy runs print it too. It only decides between other rules."""


@dataclass(frozen=True, slots=True)
class FailureRule:
    """One rule of a table; docs/guides/diagnosis-rules.md describes the fields."""

    id: str
    cause: str
    verdict: str
    signatures: Sequence[str]
    """Regular expressions in RE2 syntax."""
    role: RuleRole
    scope: CauseScope
    certainty: Certainty
    advice: Advice
    why: str
    fix: str
    command: str
    decide: str
    needs_all: bool
    """Whether every signature must fire in one log."""
    at_end: bool
    """Whether it must fire on the last line of a log, after which nothing follows, of a job that failed or hangs."""
    requires: frozenset[str]
    absent: frozenset[str]
    beats: frozenset[str]
    ends: frozenset[str]
    """Rules whose messages this line ends: what they report is over where it follows them in a log."""
    others: Sequence[OtherCause]
    """Other causes that print the same message, each with the observation that decides."""


@cache
def load_rules() -> Mapping[str, FailureRule]:
    """All rules by id, in the order of the tables."""
    return {entry["id"]: _rule(entry) for table in rule_tables() for entry in read_table(table)}


def rule_tables() -> list[Traversable]:
    """The files of the tables, in alphabetical order."""
    folder = files("windlass.diagnose") / "rules"
    return sorted((each for each in folder.iterdir() if each.name.endswith(".yaml")), key=lambda each: each.name)


def read_table(table: Traversable) -> list[dict[str, Any]]:
    """The rules of a table as it has them."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    entries: list[dict[str, Any]] = yaml.load(table.read_bytes(), loader)  # noqa: S506 - a safe loader
    return entries


@cache
def xid_actions() -> Mapping[str, tuple[str, str]]:
    """Meaning and action of each Xid number, from the table."""
    text = (files("windlass.diagnose") / "tables" / "xid.yaml").read_text(encoding="utf-8")
    return {str(code): (row["meaning"], row["action"]) for code, row in yaml.safe_load(text)["codes"].items()}


def _rule(entry: Mapping[str, Any]) -> FailureRule:
    return FailureRule(
        id=entry["id"],
        cause=entry["cause"],
        verdict=entry["verdict"],
        signatures=tuple(entry["signatures"]),
        role=RuleRole(entry["role"]),
        scope=CauseScope(entry["scope"]),
        certainty=Certainty(entry["certainty"]),
        advice=Advice(entry["retry"]),
        why=entry["why"],
        fix=entry["fix"],
        command=entry.get("command", ""),
        decide=entry.get("decide", ""),
        needs_all=entry.get("all", False),
        at_end=entry.get("at_end", False),
        requires=frozenset(entry.get("requires", ())),
        absent=frozenset(entry.get("absent", ())),
        beats=frozenset(entry.get("beats", ())),
        ends=frozenset(entry.get("ends", ())),
        others=tuple(OtherCause(entry["id"], **other) for other in entry.get("others", ())),
    )
