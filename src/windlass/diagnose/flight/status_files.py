"""Reads the rank status files of agents (`wire.STATUS_FILE`), which are as hostile as dumps."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from windlass import wire
from windlass.diagnose.failures.log_files import open_regular
from windlass.diagnose.flight.dump_format import MAX_RANK
from windlass.diagnose.flight.heartbeats import RankStatus

MAX_STATUS_BYTES = 16 << 20
_PHASE_CHARACTERS = 16
"""Longest name of a phase, as in the heartbeat ring."""


@dataclass(frozen=True, slots=True)
class StatusFiles:
    """Newest heartbeats of all ranks, from the status files of all nodes."""

    ranks: Sequence[RankStatus] = ()
    written_ms: int = 0
    """Time at which the newest of the files was written."""
    paths: frozenset[Path] = frozenset()
    nodes: Mapping[Path, Sequence[int]] = field(default_factory=dict)
    """Ranks of the node of each file, in the order of their local ranks."""
    problems: Sequence[str] = ()


def read_status_files(paths: Iterable[Path]) -> StatusFiles:
    """Returns the heartbeats of the newest generation among the rank status files; other files are left out."""
    files: list[tuple[int, int, list[RankStatus]]] = []
    nodes: dict[Path, Sequence[int]] = {}
    found, problems = set(), []
    for path in sorted(paths):
        if path.name != wire.STATUS_FILE:
            continue
        found.add(path)
        try:
            content = _load_file(path)
            files.append(_parse_file(content, str(path)))
            nodes[path] = sorted(each["rank"] for each in content["ranks"] if _is_rank(each))
        except (OSError, ValueError, RecursionError) as error:
            reason = str(error).partition("\n")[0][:200]
            problems.append(wire.escape_line(f"{path} is no rank status file: copy it again ({reason})"))
    newest = max((generation for generation, _, _ in files), default=0)
    current = [(written, ranks) for generation, written, ranks in files if generation == newest]
    by_rank = {each.rank: each for _, beats in sorted(current, key=lambda file: file[0]) for each in beats}
    written_ms = max((written for written, _ in current), default=0)
    return StatusFiles(
        sorted(by_rank.values(), key=lambda each: each.rank), written_ms, frozenset(found), nodes, problems
    )


def _load_file(path: Path) -> dict[str, Any]:
    """Returns the content, with a list of ranks. Raises OSError, ValueError, RecursionError."""
    with open_regular(path) as file:
        data = file.read(MAX_STATUS_BYTES + 1)
    if len(data) > MAX_STATUS_BYTES:
        raise ValueError(f"larger than {MAX_STATUS_BYTES >> 20} MiB")
    content = json.loads(data)
    if not isinstance(content, dict) or not isinstance(content.get("ranks"), list):
        raise ValueError("it has no list of ranks")  # noqa: TRY004 - one error for all wrong content
    return content


def _parse_file(content: dict[str, Any], source: str) -> tuple[int, int, list[RankStatus]]:
    """Returns generation, time, and the ranks with a heartbeat."""
    statuses = (_parse_rank(each, source) for each in content["ranks"])
    return _number(content, "generation"), _number(content, "at"), [each for each in statuses if each]


def _parse_rank(fields: Any, source: str) -> RankStatus | None:
    if not _is_rank(fields) or not isinstance(fields.get("phase"), str):
        return None
    rank, step, at = (_number(fields, name) for name in ("rank", "step", "at"))
    if at <= 0:
        return None
    code = fields.get("code")
    phase = wire.escape_line(fields["phase"][:_PHASE_CHARACTERS])
    return RankStatus(rank, step, phase, at, source, code if type(code) is int else None)


def _is_rank(fields: Any) -> bool:
    return isinstance(fields, dict) and type(fields.get("rank")) is int and 0 <= fields["rank"] < MAX_RANK


def _number(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    return value if type(value) is int else 0
