"""History of a node: attempts of jobs that ran there, with their times and the ranks that failed."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from windlass.backends.local.node_records import node_stays
from windlass.backends.local.paths import StatePaths
from windlass.backends.local.state_reader import StateReader
from windlass.backends.port import Transition
from windlass.core.model.status import state_name

Json = dict[str, Any]
_MAX_STAYS = 100
_HOLDING = {"Admitted", "Running"}


def read_node_history(paths: StatePaths, node: str) -> list[Json]:
    """Attempts on the node, newest first, with `started_at` and `ended_at` (ms; None: not yet). Raises BackendError."""
    records = StateReader.open(paths)
    if records is None:
        return []
    with contextlib.closing(records):
        rows = []
        for stay in node_stays(records, node, _MAX_STAYS):
            state = records.job(stay.job_id)
            span = attempt_span(records.transitions(stay.job_id), stay.generation)
            phase = state_name(state.status) if state else ""
            rows.append({**stay._asdict(), "phase": phase, "started_at": span[0], "ended_at": span[1]})
        return rows


def attempt_span(transitions: Sequence[Transition], generation: int) -> tuple[int | None, int | None]:
    """Start and end of an attempt by the history of its job: from one start to the next end of the whole gang."""
    starts = [each.at for each in transitions if each.event == "Started"]
    if not starts:
        return None, None
    begin = starts[min(generation, len(starts)) - 1]
    return begin, next((each.at for each in transitions if each.at >= begin and each.after not in _HOLDING), None)
