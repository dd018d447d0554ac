"""Rank and node of a log, told by the names of its file and folders."""

from __future__ import annotations

import re
from dataclasses import replace

from windlass.diagnose.failures.evidence import LogSource

_RANK = re.compile(r"(?:^|[^a-z])(?:global[_-]?)?(?:rank|r)[-_.]?(\d{1,6})(?![\dA-Za-z])", re.IGNORECASE)
_MEMBER = re.compile(
    r"(?:^|[^a-z])(worker|master|trainer|replica|task|proc(?:ess)?)[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE
)
_NUMBER_FOLDER = re.compile(r"(?:^|/)(\d{1,6})/(?:std(?:out|err)|out|err|error|output)[.\w-]*$")
_NODE = re.compile(r"(?:^|[^a-z])(?:node|host)[-_.]?(\w[\w-]*?)(?=[./]|$)", re.IGNORECASE)
_SLURM = re.compile(r"slurm-\d+(?:_\d+)?[-_.](?!out|err|log)(?P<node>[A-Za-z][\w-]*?\d+)(?=[.]|$)")
_ATTEMPT = re.compile(r"(?:^|[/_.-])(?:attempt|restart|generation|gen)[-_]?(\d{1,4})(?=[/_.-]|$)", re.IGNORECASE)
_KERNEL = re.compile(r"dmesg|kern(?:el)?\.log|syslog|journal|events?", re.IGNORECASE)


def label_source(source: LogSource) -> LogSource:
    """The source with rank, node and attempt from its name, where its maker gave none."""
    return replace(
        source,
        rank=source.rank if source.rank is not None else _rank(source.name),
        node=source.node or _node(source.name),
        attempt=source.attempt if source.attempt is not None else _number(_ATTEMPT.search(source.name)),
    )


def _rank(name: str) -> int | None:
    base = name.rpartition("/")[2]
    if _KERNEL.search(base):
        return None
    match = _last(_RANK, name) or _NUMBER_FOLDER.search(name)
    if match:
        return int(match[1])
    member = _last(_MEMBER, base)
    return int(member[2]) if member and member[1].lower() != "master" else None


def _node(name: str) -> str | None:
    slurm = _SLURM.search(name)
    if slurm:
        return slurm["node"]
    node = _last(_NODE, name)
    if node is None:
        return None
    return node[0].lstrip("/_.- ") if node[1].isdigit() else node[1]


def _number(match: re.Match[str] | None) -> int | None:
    return int(match[1]) if match else None


def _last(pattern: re.Pattern[str], name: str) -> re.Match[str] | None:
    return next(reversed(list(pattern.finditer(name))), None)
