"""Records of a cluster that pages show: verdicts on failures, and logs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.backends.kubernetes.client.objects import Pod
from windlass.core.model.status import Phase
from windlass.server.dashboard.node_history import attempt_span
from windlass.server.operator.cluster_job_records import ClusterJobRecords
from windlass.server.operator.dashboard.cluster_checkpoints import describe_checkpoints
from windlass.server.operator.dashboard.live_logs import LiveLogs, new_lines
from windlass.server.operator.history.entries import StoredLog

Json = dict[str, Any]
_MAX_STAYS = 50
_MAX_SHOWN = 16
"""Ranks whose lines are shown at once; a page can choose any other one."""
_MAX_LINES = 5_000
_MAX_TEXT = 4_000
"""Characters of a line that are sent."""


@dataclass(frozen=True, slots=True)
class ClusterSources:
    """The interface `page_sources.PageSources` for a cluster."""

    records: ClusterJobRecords
    live: LiveLogs
    reader: str
    """Key of the user's limits."""
    may_read_pods: Callable[[str], Awaitable[bool]]
    """Returns whether the user may read the logs of pods in a namespace."""

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

    async def checkpoints(self, details: Json) -> Json:
        """Their place, and the newest one by the reports of ranks: the operator reads no volumes and buckets."""
        state = await self.records.job(details["id"])
        if state is None:
            return {"place": "", "is_remote": True, "trouble": "", "checkpoints": []}
        is_running = details["phase"] == Phase.RUNNING.value
        gang = self.live.backend.jobs.get(state.id)
        return describe_checkpoints(state.job, gang, details["progress"] if is_running else None)

    async def log(
        self, job_id: str, attempt: int | None, ranks: Sequence[int] | None, after: Mapping[str, int]
    ) -> Json:
        """Lines of pods that exist, and recorded lines of those that are gone.

        An offset counts the recorded lines that a page has, or is the time (µs) of its last line.
        """
        living = await self._find_living(job_id)
        recorded = {(log.generation, log.rank): log for log in await self.records.logs(job_id)}
        attempts = sorted({generation for generation, _ in (*recorded, *living)})
        chosen = attempt if attempt is not None else (attempts[-1] if attempts else 0)
        known = sorted({rank for generation, rank in (*recorded, *living) if generation == chosen})
        shown = [rank for rank in known if ranks is None or rank in ranks][:_MAX_SHOWN]
        running = await self.live.lines(
            [living[chosen, rank] for rank in shown if (chosen, rank) in living], self.reader
        )
        lines: list[list[Any]] = []
        offsets: dict[str, int] = {}
        for rank in shown:
            place, live, stored = (chosen, rank), f"{rank}.live", str(rank)
            if place in living:
                read = running.get(living[place].metadata.uid, ())
                new, offsets[live] = new_lines(read, rank, after.get(live, 0))
            elif live in after:
                new, offsets[live] = [], after[live]  # the pod is gone, and the page has followed it
            else:
                new, offsets[stored] = _new_lines(recorded[place], after.get(stored, 0), _MAX_LINES // len(shown))
            lines += new
        lines.sort(key=lambda line: int(line[0]))
        return {"attempts": attempts, "attempt": chosen, "ranks": known, "offsets": offsets, "lines": lines}

    async def _find_living(self, job_id: str) -> dict[tuple[int, int], Pod]:
        """Existing pods by generation and rank, if the user may read the logs of pods."""
        state = await self.records.job(job_id)
        if state is None or not await self.may_read_pods(job_id.partition("/")[0]):
            return {}
        return {(task.generation, task.rank): pod for task, pod in self.live.members(state)}

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
