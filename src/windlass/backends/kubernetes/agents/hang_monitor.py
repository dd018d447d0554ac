"""Detects hangs of a gang's ranks from the last heartbeats of all its agents, and fails the rank that causes one.

The decision is that of `windlass.agent.hang_detection`; here are the gang's reports and the time between the request
for stacks and the failure. Part of `rendezvous`.
"""

from __future__ import annotations

from collections.abc import Collection

from windlass.agent.hang_detection import HangLimits, detect_hang
from windlass.agent.rank_events import RankFailed
from windlass.backends.kubernetes.agents.connected_agents import PodAgent

STACKS_DELAY_S = 0.5
"""Seconds that hanging ranks get to write their stacks."""


class HangMonitor:
    """At most one hang for each generation."""

    def __init__(self) -> None:
        self._reported_generation = 0
        self._pending: tuple[float, RankFailed] | None = None
        """The failure of the hanging rank, and the time from which it counts."""

    def detect(self, agents: Collection[PodAgent], members: int, generation: int) -> tuple[int, str] | None:
        """Returns the hanging rank (-1: unknown) of a running generation, and why it hangs; None if none does."""
        reports = [agent.slowest for agent in agents if agent.slowest is not None]
        if generation == self._reported_generation or len(reports) < members:  # a silent agent's rank may hang
            return None
        found = detect_hang(reports, HangLimits(silence=max(agent.silence for agent in agents)))
        if found is not None:
            self._reported_generation = generation
        return found

    def schedule_failure(self, pod: str, generation: int, why: str, now: float) -> None:
        """Fails the rank once the stacks are written."""
        failure = RankFailed(pod, generation, 1, f"hang: {why}", hangs=True)
        self._pending = now + STACKS_DELAY_S, failure

    def take_due_failure(self, now: float) -> RankFailed | None:
        """Returns the failure that is due, once."""
        if self._pending is None or now < self._pending[0]:
            return None
        (_, failure), self._pending = self._pending, None
        return failure
