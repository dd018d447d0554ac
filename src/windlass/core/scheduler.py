"""Who starts now, and where. The whole policy on one screen; each step has its file."""

from __future__ import annotations

from windlass.core.gang import Line
from windlass.core.gates import shut
from windlass.core.ordering import Contest
from windlass.core.plan import Admission, Plan
from windlass.core.snapshot import Snapshot
from windlass.core.trial import Obstacle, Trial
from windlass.core.verdicts import Verdicts

_MOST_TRIED = 1_000
"""Lines that are tried in vain for the gaps in one plan; so that a plan's cost is bounded (Slurm's bf_max_job_test)."""


def schedule(snapshot: Snapshot, now: int) -> Plan:
    """Decide which of the waiting gangs start now, each whole, and why the others wait.

    Pure: equal snapshots and times give equal plans. `now` in ms.
    """
    trial = decide(snapshot, now)
    # 6. one reason, with counts, for everything that stays; worked out when it is read
    verdicts = Verdicts(trial)
    admissions = tuple(Admission(start.gang.id, start.placement, start.grant) for start in trial.started)
    return Plan(snapshot.version, now, admissions, verdicts, order=verdicts.order())


def decide(snapshot: Snapshot, now: int) -> Trial:
    """Give away what is free; the trial it returns knows who got it and who waits for what."""
    trial = Trial(snapshot, now)
    # 1. gates: lines that wait out a backoff or another job are not in the contest
    lines = [line for line in snapshot.lines if not shut(line.gangs[0], snapshot.arrays, now)]
    # 2. by turn: they start, or wait, and those who wait first hold reservations that nobody may delay
    gaps = _by_turn(trial, lines)
    # 3. into the gaps between the reservations: whoever delays none of them
    _into_gaps(trial, gaps)
    return trial


def _by_turn(trial: Trial, lines: list[Line]) -> list[Line]:
    """Returns the lines of which somebody may still fill a gap."""
    gaps: list[Line] = []
    contest = Contest(lines, trial.shares_that_count, classes=trial.classes)
    for gang in contest:
        obstacle = trial.limit(gang)
        if obstacle is None and not trial.timetable.open_to(gang):
            # as many wait for the same nodes as may hold reservations: a gap, at best
            gaps.append(contest.line)
            contest.drop()
            continue
        obstacle = obstacle or trial.attempt(gang)
        if obstacle is not None:
            trial.wait(gang, obstacle)
            if trial.timetable.is_shut:
                return []  # nobody behind him can start
            if not trial.has_limits and not any(trial.timetable.open_to(line.gangs[0]) for line in lines):
                return lines  # whoever comes behind him can do no more than fill a gap
            if obstacle not in (Obstacle.CAPACITY, Obstacle.PROMISED) or not trial.timetable.has_gaps:
                contest.drop()
    return gaps


def _into_gaps(trial: Trial, lines: list[Line]) -> None:
    lines = [line for line in lines if not trial.is_too_large(line.gangs[0])]
    if not lines:
        return
    contest, failed = Contest(lines, trial.shares_that_count, classes=trial.classes, fill=True), 0
    for gang in contest:
        if gang.id in trial.settled:
            continue
        obstacle = trial.limit(gang) or trial.attempt(gang)
        if obstacle is None:
            continue
        longest = trial.timetable.shorter(gang) if obstacle is Obstacle.PROMISED else None
        if longest is None:
            contest.drop()
        else:
            contest.only_shorter(longest)
        failed += 1
        if failed == _MOST_TRIED:
            return
