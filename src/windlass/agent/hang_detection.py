"""Whether ranks hang, and who is missing: judged from heartbeats alone, with `now` as an argument.

Ranks of one gang wait for each other, so whoever is in his phase for too long is mostly a victim. The one to ask is the
one that is furthest behind; only when it has itself been in its phase for longer than that ever takes is it a hang.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable
from typing import NamedTuple

from windlass.wire import OPEN_PHASES, Heartbeat

_KEPT = 512
_ENOUGH = 8
"""Times that a rank must have been through a phase before that is judged by its length: the first ones of a process
compile, open files and allocate, also after a restart."""
_STEP = ("data", "forward", "backward", "optimizer")
_TO_ANSWER = (5.0, 60.0)
"""Seconds: at least and at most."""


class HangLimits(NamedTuple):
    """A phase may last `factor` times the 99th percentile of what it took, at least `floor` seconds.

    `first`: seconds for a phase that is not known yet, and at least for an open one (`wire.OPEN_PHASES`): a script's
    evaluation every thousand steps is no hang because the gaps before it were empty. `silence`: seconds without any
    output, 0 for ever.
    """

    factor: float = 8.0
    floor: float = 10.0
    first: float = 600.0
    silence: float = 0.0


class LastHeartbeat(NamedTuple):
    """The newest heartbeat of a rank, and when it came."""

    step: int
    phase: str
    beat: int
    since: float


class SlowestRank(NamedTuple):
    """The rank of one node that is furthest behind: what agents tell each other. Rank -1: there are no heartbeats."""

    rank: int = -1
    step: int = 0
    phase: str = ""
    beat: int = 0
    waited: float = 0.0
    patience: float = math.inf
    silent: float = 0.0
    """Seconds since any rank of the node printed something."""
    ahead: tuple[int, int, int, str] = (-1, 0, -1, "")
    """The one that is furthest ahead: step, beat, rank, phase."""


class HeartbeatTracker:
    """Heartbeats of the ranks of one node, and how long each phase took so far."""

    def __init__(self) -> None:
        self.newest: dict[int, LastHeartbeat] = {}
        self.spans: dict[str, deque[float]] = {}
        self.passed: dict[int, Counter[str]] = {}
        """How often each rank has been through each phase since it began."""

    def hear(self, beat: Heartbeat, now: float) -> None:
        """A rank has entered a phase, and so left the one before."""
        before = self.newest.get(beat.rank)
        if before is not None:
            self.spans.setdefault(before.phase, deque(maxlen=_KEPT)).append(now - before.since)
            self.passed.setdefault(beat.rank, Counter())[before.phase] += 1
        self.newest[beat.rank] = LastHeartbeat(beat.step, beat.phase, beat.beat, now)

    def forget(self, rank: int | None = None) -> None:
        """A rank has ended or said goodbye, or all have; what phases take stays known."""
        if rank is None:
            self.newest.clear()
            self.passed.clear()
        else:
            self.newest.pop(rank, None)
            self.passed.pop(rank, None)


def phase_timeout(pulses: HeartbeatTracker, rank: int, phase: str, limits: HangLimits) -> float:
    """Seconds that a rank may be in this phase."""
    seen = sorted(pulses.spans.get(phase, ()))
    usual = limits.factor * seen[math.ceil(0.99 * len(seen)) - 1] if seen else 0.0
    is_known = phase not in OPEN_PHASES and pulses.passed.get(rank, Counter())[phase] >= _ENOUGH
    return max(limits.floor if is_known else limits.first, usual)


def reform_timeout(pulses: HeartbeatTracker) -> float:
    """Seconds for ranks that run to take a new membership: they may be at the beginning of the longest of steps."""
    longest = sum(max(pulses.spans.get(phase, ()), default=0.0) for phase in _STEP)
    least, most = _TO_ANSWER
    return min(most, max(least, 1.5 * longest))


def find_slowest_rank(pulses: HeartbeatTracker, limits: HangLimits, now: float, silent: float = 0.0) -> SlowestRank:
    """Of one node. Among equals the one that came last to where they all are: it has waited least."""
    if not pulses.newest:
        return SlowestRank(silent=silent)
    rank, pulse = min(pulses.newest.items(), key=lambda item: (item[1].step, item[1].beat, -item[1].since))
    allowed = phase_timeout(pulses, rank, pulse.phase, limits)
    ahead = max((each.step, each.beat, number, each.phase) for number, each in pulses.newest.items())
    return SlowestRank(rank, pulse.step, pulse.phase, pulse.beat, now - pulse.since, allowed, silent, ahead)


def detect_hang(nodes: Iterable[SlowestRank], limits: HangLimits) -> tuple[int, str] | None:
    """(rank, why) if the gang hangs. The rank is -1 where only silence speaks."""
    heard = list(nodes)
    beating = [each for each in heard if each.rank >= 0]
    if beating:
        last = min(beating, key=lambda each: (each.step, each.beat, each.waited))
        if last.waited > last.patience:
            return last.rank, _why(last, beating)
    elif heard and limits.silence and min(each.silent for each in heard) > limits.silence:
        return -1, f"no rank has printed anything for {min(each.silent for each in heard):.0f} s"
    return None


def _why(last: SlowestRank, all_of_them: Iterable[SlowestRank]) -> str:
    step, beat, rank, phase = max(tuple(each.ahead) for each in all_of_them)
    text = (
        f"rank {last.rank} is in {last.phase} of step {last.step} for {last.waited:.1f} s (at most {last.patience:.1f})"
    )
    if (step, beat) > (last.step, last.beat):
        text += f"; rank {rank} is in {phase} of step {step}"
    return text
