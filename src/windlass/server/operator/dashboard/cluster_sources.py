"""Records of a cluster that pages show: verdicts on failures, and recorded logs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.server.dashboard.node_history import attempt_span
from windlass.server.operator.cluster_job_records import ClusterJobRecords
from windlass.server.operator.history.entries import StoredLog

Json = dict[str, Any]
_MAX_STAYS = 50
_MAX_LINES = 5_000
_MAX_TEXT = 4_000
"""Characters of a line that are sent."""


@dataclass(frozen=True, slots=True)
class ClusterSources:
    """The interface `page_sources.PageSources` for a cluster."""

    records: ClusterJobRecords

    async def findings(self, details: Json) -> Json:
        """The verdict of the operator's own diagnosis, which has no lines of evidence."""
        cause = None if "members" in details else details["diagnosis"]
        if not cause:
            return {"attempt": 0, "verdict": None, "unseen": []}
        unseen = [cause["unseen"]] if cause["unseen"] else []
        if not cause["rule"]:
            return {"attempt": cause["generation"], "verdict": None, "unseen": [cause["text"], *unseen]}
        shown = {name: cause[name] for name in ("text", "certainty", "rank", "node", "fix")}
        verdict = {**shown, "why": "", "command": "", "evidence": [], "alternatives": []}
        return {"attempt": cause["generation"], "verdict": verdict, "unseen": unseen}

    async def checkpoints(self, _details: Json) -> Json:
        """None: they lie in volumes and buckets of the job, which the operator does not read."""
        return {"place": "", "is_remote": True, "trouble": "", "checkpoints": []}

    async def log(
        self, job_id: str, attempt: int | None, ranks: Sequence[int] | None, after: Mapping[str, int]
    ) -> Json:
        """Recorded lines of pods that have ended. An offset counts the lines that a page has."""
        logs = await self.records.logs(job_id)
        attempts = sorted({log.generation for log in logs})
        chosen = attempt if attempt is not None else (attempts[-1] if attempts else 0)
        own = [log for log in logs if log.generation == chosen]
        shown = [log for log in own if ranks is None or log.rank in ranks]
        lines, offsets = [], {}
        for log in shown:
            new, offsets[str(log.rank)] = _new_lines(log, after.get(str(log.rank), 0), _MAX_LINES // len(shown))
            lines += new
        return {
            "attempts": attempts,
            "attempt": chosen,
            "ranks": sorted({log.rank for log in own}),
            "offsets": offsets,
            "lines": lines,
        }

    async def node_history(self, node: str, visible: Collection[str] | None) -> list[Json]:
        """Attempts of jobs on the node, by the pods that history has."""
        found = []
        for stay in await self.records.node_stays(node, visible, _MAX_STAYS):
            transitions = await self.records.stay_transitions(stay)
            started, ended = attempt_span(transitions, stay.generation)
            about = {"job_id": stay.job_id, "generation": stay.generation, "ranks": stay.pods, "failed": stay.failed}
            phase = transitions[-1].after if transitions else ""
            found.append({**about, "phase": phase, "started_at": started, "ended_at": ended})
        return found


def _new_lines(log: StoredLog, start: int, most: int) -> tuple[list[list[Any]], int]:
    """Lines of a log after the first `start` ones, at most the last `most`; and the number of all lines."""
    lines = (log.text or f"no log: {log.missing}").splitlines()
    first = max(start, len(lines) - max(1, most))
    return [[0, log.rank, "out", line[:_MAX_TEXT]] for line in lines[first:]], len(lines)
