"""Who starts now, and where. The whole policy on one screen; each step has its file."""

from __future__ import annotations

from windlass.core.gates import shut
from windlass.core.ordering import Contest
from windlass.core.plan import Admission, Plan
from windlass.core.snapshot import Snapshot
from windlass.core.trial import Trial
from windlass.core.verdicts import Verdicts


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
    contest = Contest(line for line in snapshot.lines if not shut(line.gangs[0], snapshot.arrays, now))
    # 2. order: priority, age, number; a line of equals is asked through its first
    for gang in contest:
        # 3. hard limits: its array's, its queue's quota, nodes that could ever take it
        # 4. nodes: those that pass its masks and that no gang ahead of it holds
        # 5. all of its replicas or none
        if trial.attempt(gang) is None:
            contest.drop()
        if trial.contended:
            break
    return trial
