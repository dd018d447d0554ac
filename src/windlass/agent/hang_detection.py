"""Hang detection from heartbeats: decides whether a gang hangs, and which rank causes it. Pure; `now` is an argument.

Ranks of one gang wait for each other, so a rank that stays in its phase for long usually waits for another rank. The
suspect is the rank that is furthest behind; it hangs only when it exceeds the time limit of its own phase.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from windlass.wire import COMMUNICATION_PHASES, OPEN_PHASES, Heartbeat

_WINDOW_PASSES = 512
"""Number of the last passes through a phase whose durations are kept."""
_FIRST_STEPS = 8
"""Steps of a rank in which a phase has the limit `initial`: the first ones of a process compile, open files and
allocate memory, also after a restart."""
_WARM_UP_STEPS = 2
"""Steps of a rank whose durations are not recorded: they say little about the steps that follow."""
_LONGEST_FACTOR = 2.0
"""A phase may last this multiple of its longest pass in this run: what was slow and no hang may be slow again."""
_PAUSE_S = 5.0
"""Seconds between two observations from which on the agent was paused; it observes once a second."""
_STEP_PHASES = ("data", "forward", "backward", "optimizer")
_REFORM_LIMITS = (5.0, 60.0)
"""Shortest and longest wait for survivors, in seconds."""
START_PHASE = "start"
"""Phase of a rank that has sent no heartbeat. No rank sends it."""
_JOIN_PHASE = "join"
"""Phase of a rank that waits in `train.init` for all ranks."""
_START_BEAT = -1
"""Heartbeat count of a rank that has sent none: it is behind all others."""


class HangLimits(NamedTuple):
    """Limits of hang detection, from `--hang`; times in seconds.

    A phase may last `factor` times the 99th percentile of its past durations, twice the longest of them, and at least
    `floor`, which includes storage that stalls for a while. `initial`: minimum instead of `floor`, where greater, for
    a rank's first steps, and for open phases (`wire.OPEN_PHASES`), whose past durations do not predict the next (an
    evaluation every 1000 steps, a compilation). `communication`: minimum instead of `floor`, where smaller, for phases
    without computation and storage (`wire.COMMUNICATION_PHASES`). `start`: limit from the start of a rank to its first
    heartbeat, where another rank sends heartbeats, and of the wait for all ranks; 0 for none. `silence`: limit without
    any output, for ranks that send no heartbeats; 0 for none.
    """

    factor: float = 8.0
    floor: float = 120.0
    initial: float = 1800.0
    communication: float = 60.0
    start: float = 600.0
    silence: float = 0.0


class LastHeartbeat(NamedTuple):
    """The newest heartbeat of a rank, and the time of its arrival."""

    step: int
    phase: str
    beat: int
    since: float


class SlowestRank(NamedTuple):
    """The rank of one node that is furthest behind, as agents report it. Rank -1: none runs, or all are past training.

    A rank without heartbeats is in the phase `START_PHASE`; a gang in which all are there does not use them.
    """

    rank: int = -1
    step: int = 0
    phase: str = ""
    beat: int = 0
    in_phase_s: float = 0.0
    """Seconds that the rank has been in this phase."""
    limit_s: float = math.inf
    """Seconds that it may be."""
    silent_s: float = 0.0
    """Seconds since any rank of the node printed anything."""
    ahead: tuple[int, int, int, str] = (-1, 0, -1, "")
    """The rank that is furthest ahead: step, beat, rank, phase."""


class HeartbeatTracker:
    """Heartbeats of the ranks of one node, and the durations of phases so far."""

    def __init__(self) -> None:
        self.newest: dict[int, LastHeartbeat] = {}
        self.durations: dict[str, deque[float]] = {}
        self.longest: dict[str, float] = {}
        """Longest pass through each phase."""
        self.hangs: dict[tuple[str, int], float] = {}
        """Duration of passes that were taken for hangs, by phase and step."""
        self._steps: dict[int, dict[str, tuple[int, int]]] = {}
        """Last step of each rank with each phase, and the number of such steps since the rank started."""
        self._observed = math.inf

    def observe(self, now: float) -> None:
        """Notes that the agent runs. Leaves a pause of the agent out of all phases: its ranks did not run either.

        As in a container that was frozen, or on a machine that was suspended.
        """
        if now - self._observed > _PAUSE_S:
            for rank, last in self.newest.items():
                paused = max(0.0, now - max(self._observed, last.since))
                self.newest[rank] = last._replace(since=last.since + paused)
        self._observed = now

    def begin(self, rank: int, now: float) -> None:
        """Notes the start of a rank, which has sent no heartbeat so far."""
        self.newest.setdefault(rank, LastHeartbeat(0, START_PHASE, _START_BEAT, now))

    def record(self, heartbeat: Heartbeat, now: float) -> None:
        """Takes a heartbeat: a rank has entered a phase, and so left the one before."""
        before = self.newest.get(heartbeat.rank)
        if before is not None:
            self._count_step(heartbeat.rank, before)
            if self.steps(heartbeat.rank, before.phase) > _WARM_UP_STEPS:
                self._record_pass(before.phase, now - before.since)
        self.newest[heartbeat.rank] = LastHeartbeat(heartbeat.step, heartbeat.phase, heartbeat.beat, now)

    def record_hang(self, now: float, limits: HangLimits) -> None:
        """Records the ranks that exceed their limits, at the verdict that the gang hangs.

        Where a rank comes to the same step again and stays there again, it may be slow instead.
        """
        for rank, last in self.newest.items():
            duration = now - last.since
            if duration > phase_limit(self, rank, last.phase, limits):
                self.hangs[last.phase, last.step] = duration

    def steps(self, rank: int, phase: str) -> int:
        """Number of steps in which this rank has passed through this phase since it started."""
        return self._steps.get(rank, {}).get(phase, (-1, 0))[1]

    def forget(self, rank: int | None = None) -> None:
        """Forgets a rank that has ended or sent `Goodbye`, or all ranks; durations of phases stay known."""
        if rank is None:
            self.newest.clear()
            self._steps.clear()
        else:
            self.newest.pop(rank, None)
            self._steps.pop(rank, None)

    def _count_step(self, rank: int, last: LastHeartbeat) -> None:
        phases = self._steps.setdefault(rank, {})
        step, count = phases.get(last.phase, (-1, 0))
        if step != last.step:
            phases[last.phase] = last.step, count + 1

    def _record_pass(self, phase: str, duration: float) -> None:
        self.durations.setdefault(phase, deque(maxlen=_WINDOW_PASSES)).append(duration)
        self.longest[phase] = max(duration, self.longest.get(phase, 0.0))


def phase_limit(heartbeats: HeartbeatTracker, rank: int, phase: str, limits: HangLimits) -> float:
    """Seconds that a rank may be in this phase."""
    durations = sorted(heartbeats.durations.get(phase, ()))
    usual = limits.factor * durations[math.ceil(0.99 * len(durations)) - 1] if durations else 0.0
    longest = _LONGEST_FACTOR * heartbeats.longest.get(phase, 0.0)
    last = heartbeats.newest.get(rank)
    again = _LONGEST_FACTOR * heartbeats.hangs.get((phase, last.step), 0.0) if last is not None else 0.0
    is_known = phase not in OPEN_PHASES and heartbeats.steps(rank, phase) >= _FIRST_STEPS
    _, shortest = shortest_limit(phase, limits, is_known=is_known)
    return max(shortest, usual, longest, min(again, limits.initial))


def shortest_limit(phase: str, limits: HangLimits, *, is_known: bool) -> tuple[str, float]:
    """Limit of a phase that has always been short: the field of `HangLimits` that changes it, and its seconds.

    `is_known`: whether the past durations of the phase predict the next.
    """
    if phase in (START_PHASE, _JOIN_PHASE):
        return "start", limits.start or math.inf
    if not is_known:
        return "initial", max(limits.floor, limits.initial)
    if phase in COMMUNICATION_PHASES:
        return "communication", min(limits.floor, limits.communication)
    return "floor", limits.floor


def reform_timeout(heartbeats: HeartbeatTracker) -> float:
    """Seconds for running ranks to take a new membership: they may be at the beginning of the longest step."""
    longest = sum(max(heartbeats.durations.get(phase, ()), default=0.0) for phase in _STEP_PHASES)
    least, most = _REFORM_LIMITS
    return min(most, max(least, 1.5 * longest))


def find_slowest_rank(
    heartbeats: HeartbeatTracker, limits: HangLimits, now: float, silent_s: float = 0.0
) -> SlowestRank:
    """The rank of one node that is furthest behind; among equals the one with the most time left."""
    if not heartbeats.newest:
        return SlowestRank(silent_s=silent_s)
    ahead = max((each.step, each.beat, number, each.phase) for number, each in heartbeats.newest.items())
    behind = min((each.step, each.beat) for each in heartbeats.newest.values())
    return min(
        (
            SlowestRank(
                rank,
                last.step,
                last.phase,
                last.beat,
                now - last.since,
                phase_limit(heartbeats, rank, last.phase, limits),
                silent_s,
                ahead,
            )
            for rank, last in heartbeats.newest.items()
            if (last.step, last.beat) == behind
        ),
        key=_progress,
    )


def _progress(rank: SlowestRank) -> tuple[int, int, float]:
    """Sorts by progress: the minimum is furthest behind, and of several the last to exceed its limit.

    Ranks in one place may wait for each other, so the gang hangs only if each of them exceeds its limit.
    """
    return rank.step, rank.beat, rank.in_phase_s - rank.limit_s


def detect_hang(nodes: Iterable[SlowestRank], limits: HangLimits) -> tuple[int, str] | None:
    """(rank, reason) if the gang hangs, else None. The rank is -1 where only missing output indicates the hang."""
    reports = list(nodes)
    started = [each for each in reports if each.rank >= 0]
    if any(_has_heartbeats(each) for each in started):
        last = min(started, key=_progress)
        if last.in_phase_s > last.limit_s:
            return last.rank, _reason(last, started)
    elif reports and limits.silence and min(each.silent_s for each in reports) > limits.silence:
        return -1, f"no rank has printed anything for {min(each.silent_s for each in reports):.0f} s"
    return None


def _has_heartbeats(node: SlowestRank) -> bool:
    """Whether a rank of this node has sent heartbeats: the one that is furthest ahead has."""
    _, _, _, phase = node.ahead
    return phase != START_PHASE


def _reason(last: SlowestRank, nodes: Iterable[SlowestRank]) -> str:
    step, beat, rank, phase = max(tuple(each.ahead) for each in nodes)
    text = f"rank {last.rank} is in {last.phase} of step {last.step}"
    if last.phase == START_PHASE:
        text = f"rank {last.rank} has started and sends no heartbeats"
    text += f" for {last.in_phase_s:.1f} s (at most {last.limit_s:.1f})"
    if (step, beat) > (last.step, last.beat):
        text += f"; rank {rank} is in {phase} of step {step}"
    return text
