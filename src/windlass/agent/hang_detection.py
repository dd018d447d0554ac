"""Hang detection from heartbeats: decides whether a gang hangs, and which rank causes it. Pure; `now` is an argument.

Ranks of one gang wait for each other, so a rank that stays in its phase for long usually waits for another rank. The
suspect is the rank that is furthest behind; it hangs only when it exceeds the time limit of its own phase.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable
from typing import NamedTuple

from windlass.wire import OPEN_PHASES, Heartbeat

_WINDOW_PASSES = 512
"""Number of the last passes through a phase whose durations are kept."""
_MIN_PASSES = 8
"""Passes of a rank through a phase before its usual duration limits it: the first ones of a process compile, open files
and allocate memory, also after a restart."""
_STEP_PHASES = ("data", "forward", "backward", "optimizer")
_REFORM_LIMITS = (5.0, 60.0)
"""Shortest and longest wait for survivors, in seconds."""


class HangLimits(NamedTuple):
    """Limits of hang detection, from `--hang`; times in seconds.

    A phase may last `factor` times the 99th percentile of its past durations, and at least `floor`. `initial`: minimum
    instead of `floor` for a rank's first passes through a phase, and for open phases (`wire.OPEN_PHASES`), whose past
    durations do not predict the next (an evaluation every 1000 steps). `silence`: limit without any output, for ranks
    that send no heartbeats; 0 for none.
    """

    factor: float = 8.0
    floor: float = 10.0
    initial: float = 600.0
    silence: float = 0.0


class LastHeartbeat(NamedTuple):
    """The newest heartbeat of a rank, and the time of its arrival."""

    step: int
    phase: str
    beat: int
    since: float


class SlowestRank(NamedTuple):
    """The rank of one node that is furthest behind, as agents report it. Rank -1: there are no heartbeats."""

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
        self.passes: dict[int, Counter[str]] = {}
        """Passes of each rank through each phase since it started."""

    def record(self, heartbeat: Heartbeat, now: float) -> None:
        """Takes a heartbeat: a rank has entered a phase, and so left the one before."""
        before = self.newest.get(heartbeat.rank)
        if before is not None:
            self.durations.setdefault(before.phase, deque(maxlen=_WINDOW_PASSES)).append(now - before.since)
            self.passes.setdefault(heartbeat.rank, Counter())[before.phase] += 1
        self.newest[heartbeat.rank] = LastHeartbeat(heartbeat.step, heartbeat.phase, heartbeat.beat, now)

    def forget(self, rank: int | None = None) -> None:
        """Forgets a rank that has ended or sent `Goodbye`, or all ranks; durations of phases stay known."""
        if rank is None:
            self.newest.clear()
            self.passes.clear()
        else:
            self.newest.pop(rank, None)
            self.passes.pop(rank, None)


def phase_limit(heartbeats: HeartbeatTracker, rank: int, phase: str, limits: HangLimits) -> float:
    """Seconds that a rank may be in this phase."""
    durations = sorted(heartbeats.durations.get(phase, ()))
    usual = limits.factor * durations[math.ceil(0.99 * len(durations)) - 1] if durations else 0.0
    is_known = phase not in OPEN_PHASES and heartbeats.passes.get(rank, Counter())[phase] >= _MIN_PASSES
    return max(limits.floor if is_known else limits.initial, usual)


def reform_timeout(heartbeats: HeartbeatTracker) -> float:
    """Seconds for running ranks to take a new membership: they may be at the beginning of the longest step."""
    longest = sum(max(heartbeats.durations.get(phase, ()), default=0.0) for phase in _STEP_PHASES)
    least, most = _REFORM_LIMITS
    return min(most, max(least, 1.5 * longest))


def find_slowest_rank(
    heartbeats: HeartbeatTracker, limits: HangLimits, now: float, silent_s: float = 0.0
) -> SlowestRank:
    """The rank of one node that is furthest behind; among equals the last that entered its phase."""
    if not heartbeats.newest:
        return SlowestRank(silent_s=silent_s)
    rank, last = min(heartbeats.newest.items(), key=lambda item: (item[1].step, item[1].beat, -item[1].since))
    limit_s = phase_limit(heartbeats, rank, last.phase, limits)
    ahead = max((each.step, each.beat, number, each.phase) for number, each in heartbeats.newest.items())
    return SlowestRank(rank, last.step, last.phase, last.beat, now - last.since, limit_s, silent_s, ahead)


def detect_hang(nodes: Iterable[SlowestRank], limits: HangLimits) -> tuple[int, str] | None:
    """(rank, reason) if the gang hangs, else None. The rank is -1 where only missing output indicates the hang."""
    reports = list(nodes)
    beating = [each for each in reports if each.rank >= 0]
    if beating:
        last = min(beating, key=lambda each: (each.step, each.beat, each.in_phase_s))
        if last.in_phase_s > last.limit_s:
            return last.rank, _reason(last, beating)
    elif reports and limits.silence and min(each.silent_s for each in reports) > limits.silence:
        return -1, f"no rank has printed anything for {min(each.silent_s for each in reports):.0f} s"
    return None


def _reason(last: SlowestRank, nodes: Iterable[SlowestRank]) -> str:
    step, beat, rank, phase = max(tuple(each.ahead) for each in nodes)
    text = f"rank {last.rank} is in {last.phase} of step {last.step}"
    text += f" for {last.in_phase_s:.1f} s (at most {last.limit_s:.1f})"
    if (step, beat) > (last.step, last.beat):
        text += f"; rank {rank} is in {phase} of step {step}"
    return text
