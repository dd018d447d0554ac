"""Ranks of processes: by lines about their ends, and by the process ids that several lines of one log name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from windlass.diagnose.failures.evidence import Fact

_END = re.compile(
    r"\brank (?P<rank>\d{1,7}) \((?:pid \d{1,9}|[\w.-]{1,100}/\d{1,7})\)(?: on (?P<node>[\w.-]{1,253}))? "
    r"(?:killed by|exited with)\b"
)
_PROCESS = re.compile(r"\bpid:? ?(?P<id>\d{1,9})\b", re.IGNORECASE)


def ended_rank(line: str) -> tuple[int | None, str | None]:
    """Rank and node of a line on which an agent or a supervisor of Windlass reports the end of a rank."""
    found = _END.search(line)
    return (int(found["rank"]), found["node"]) if found else (None, None)


def identify_processes(facts: Sequence[tuple[Fact, int]]) -> list[tuple[Fact, int]]:
    """The facts with the rank that another line of the log names for their process, and with the node of their rank.

    A process id or rank for which the lines name several ranks or nodes tells nothing.
    """
    ranks: dict[tuple[str, str], set[int]] = defaultdict(set)
    nodes: dict[int, set[str]] = defaultdict(set)
    for fact, _ in facts:
        if fact.rank is not None:
            nodes[fact.rank] |= {fact.node} if fact.node else set()
            if process := _process_of(fact):
                ranks[fact.evidence.source, process].add(fact.rank)
    return [(_with_node(_with_rank(fact, ranks), nodes), signature) for fact, signature in facts]


def _with_rank(fact: Fact, ranks: dict[tuple[str, str], set[int]]) -> Fact:
    process = _process_of(fact)
    if fact.rank is not None or not process:
        return fact
    known = ranks.get((fact.evidence.source, process), set())
    return replace(fact, rank=next(iter(known))) if len(known) == 1 else fact


def _with_node(fact: Fact, nodes: dict[int, set[str]]) -> Fact:
    known = nodes.get(fact.rank, set()) if fact.rank is not None and not fact.node else set()
    return replace(fact, node=next(iter(known))) if len(known) == 1 else fact


def _process_of(fact: Fact) -> str:
    found = _PROCESS.search(fact.evidence.text)
    return found["id"] if found else ""
