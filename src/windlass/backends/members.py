"""Tracks the members of one generation of a gang: present, started, ended, gone.

A backend reports its observations, in any order and as often as it likes; `MemberTracker.take_events` returns the
lifecycle events that follow, each once. The tracker does no I/O and reads no clock. A report costs the same in a gang
of eight as in one of five thousand.

Use by a backend:

1. On `Launch`, make a tracker. After a restart of the controller, make it from the stored state: `started` if the
   phase is beyond Admitted, `ended` = `Status.succeeded_members`, and, if `Status.target` is set, every member that has
   ended by now (the lifecycle has decided; it needs no further ends). Then report everything that is observed, as if it
   were new.
2. Translate each observation of a member into one call:
   - `appear`: something of the member exists that runs or may come to run (a pod, bound or not).
   - `start`: its program has begun.
   - `end`: it has ended, with its exit and its finish time; nothing of it is alive.
   - `fail`: it cannot run (binding refused, image missing), although something of it may still exist.
   - `lose`: it is gone and its end was not observed. A pod that disappears, a node that is lost.
   - `leave`: nothing of it is alive, and that by itself means nothing (a pod that is being replaced).
   Other processes of the gang that are no members (a pod whose slot is taken) have numbers from `count` on. They only
   delay `GangGone`.
3. A backend that decides success or failure by other rules than the members' ends reports `appear`, `start` and
   `leave`, and the outcome of the whole by `conclude`.
   On `RestartMember`, call `restart`: the next report of the member that it is there is `MemberStarted`.
4. On `Stop`, set `stopping`; a stop that is taken back clears it. A backend that hears of the end of the whole gang
   instead of each member calls `vanish`.
5. After each batch of reports, call `take_events(now)` and report the result to the controller. While `due` is a time,
   call it again then. `more_may_come` delays `GangGone`: requests are under way that could still create a member.

Blame by time: when a member fails, its peers soon fail as well, and a backend may see these ends in any order. The
first failure therefore waits `SETTLING_MS` for others; then the ends are reported by finish time. A backend that
observes ends in the order in which they happen passes `settling=0`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from windlass.core.lifecycle.events import Event, Exit, GangGone, MemberExited, MemberStarted, Started
from windlass.core.lifecycle.failure import has_exited_by_itself
from windlass.core.model.job import RestartPolicy

SETTLING_MS = 1_000
"""Time for which the first failure of a generation waits for ends that happened before it."""


class _End(NamedTuple):
    member: int
    exit: Exit
    at: int | None


class _UnreportedEnds:
    """The ends that are yet to be reported. Failures wait `settling` ms for others that happened before them."""

    def __init__(self, settling: int) -> None:
        self._settling = settling
        self._settles_at: int | None = None
        self._successes: dict[int, _End] = {}
        self._failures: dict[int, _End] = {}

    def __contains__(self, member: int) -> bool:
        return member in self._successes or member in self._failures

    def __len__(self) -> int:
        return len(self._successes) + len(self._failures)

    @property
    def due(self) -> int | None:
        """Time in ms at which the failures have settled."""
        return self._settles_at if self._failures else None

    def add(self, end: _End) -> None:
        """Takes note of an end."""
        (self._successes if end.exit.ok else self._failures)[end.member] = end

    def discard(self, member: int) -> None:
        """Forgets the end of a member that is started again."""
        self._successes.pop(member, None)
        self._failures.pop(member, None)

    def take_successes(self) -> list[_End]:
        """Removes and returns the successes."""
        ends = list(self._successes.values())
        self._successes.clear()
        return ends

    def take_failures(self, now: int, *, settled: bool) -> list[_End]:
        """Removes and returns the failures, if they have settled: nothing else can come, or the time is over."""
        if not self._failures:
            return []
        if not settled:
            if self._settles_at is None:
                self._settles_at = now + self._settling
            if now < self._settles_at:
                return []
        ends = list(self._failures.values())
        self._failures.clear()
        return ends


class MemberTracker:
    """Members 0 to `count` - 1 of one generation; the module's text tells how a backend uses it.

    `alone`: members restart one by one, so an end is reported at once, and a success also before all have started.
    """

    def __init__(
        self,
        generation: int,
        count: int,
        *,
        settling: int = SETTLING_MS,
        alone: bool = False,
        started: bool = False,
        ended: Iterable[int] = (),
    ) -> None:
        self.generation, self.count = generation, count
        self.stopping = False
        """A `Stop` was received."""
        self.started = started
        """`Started` was reported."""
        self.gone = False
        """`GangGone` was reported: no event follows."""
        self.alive: set[int] = set()
        """Members, and other processes of the gang, that run or may come to run."""
        self.failed: set[int] = set()
        """Members whose failure was reported, and that were not restarted since."""
        self._alone = alone
        self._restarted: set[int] = set()
        """Members that were restarted and are not there again."""
        self._back: list[int] = []
        """Members that are there again; yet to be reported."""
        self._reported = set(ended)
        """Members whose end was reported."""
        self._begun: set[int] = set()
        self._over: set[int] = set()
        """Members that have ended: a late report that one is there means nothing."""
        self._ends = _UnreportedEnds(0 if alone else settling)
        self._concluded = self._vanished = False

    # --- reports --------------------------------------------------------------------------------------

    def appear(self, member: int) -> None:
        """Something of the member exists that runs or may come to run."""
        if member not in self._over:
            self.alive.add(member)

    def start(self, member: int) -> None:
        """The member's program has begun."""
        self.appear(member)
        self._note_return(member)
        if not self.started and 0 <= member < self.count:
            self._begun.add(member)

    def end(self, member: int, exit: Exit, at: int | None = None) -> None:
        """The member has ended. `at`: finish time in ms, None if unknown. The first report of an end counts."""
        if exit.ok:
            self.start(member)
        self.alive.discard(member)
        self._over.add(member)
        self.fail(member, exit, at)

    def fail(self, member: int, exit: Exit, at: int | None = None) -> None:
        """The member cannot run. Whether something of it exists stays as it was reported."""
        if 0 <= member < self.count and member not in self._reported and member not in self._ends:
            self._note_return(member)
            self._ends.add(_End(member, exit, at))

    def _note_return(self, member: int) -> None:
        """Takes note that a member is there again after its restart."""
        if member in self._restarted:
            self._restarted.discard(member)
            self._back.append(member)

    def lose(self, member: int, detail: str) -> None:
        """The member is gone, and its end was not observed."""
        self.end(member, Exit(lost=True, detail=detail))

    def restart(self, member: int) -> None:
        """The member is started again: what was reported of it is over, and its next start and end are new."""
        for members in (self._reported, self._over, self.failed, self.alive):
            members.discard(member)
        self._ends.discard(member)
        self._restarted.add(member)

    def leave(self, member: int) -> None:
        """Nothing of the member is alive; this is no end of it."""
        self.alive.discard(member)

    def conclude(self, exit: Exit, at: int | None = None) -> None:
        """The gang as a whole has come to this: a success of every member, or a failure of the first."""
        self._concluded = True
        for member in range(self.count) if exit.ok else (0,):
            self.fail(member, exit, at)

    def vanish(self) -> None:
        """Nothing of the gang is alive, whether or not it was to be stopped."""
        self.alive.clear()
        self._vanished = True

    @property
    def succeeded(self) -> bool:
        """Whether the success of every member was reported."""
        return not self.failed and len(self._reported) >= self.count

    # --- events ---------------------------------------------------------------------------------------

    @property
    def due(self) -> int | None:
        """Time in ms at which `take_events` has something to report even if nothing else happens."""
        return self._ends.due

    def take_events(self, now: int, *, more_may_come: bool = False) -> list[Event]:
        """Events that follow from the reports since the last call: Started, ends by finish time, GangGone."""
        if self.gone:
            return []
        events: list[Event] = []
        # 1. every member runs, or did
        if not (self.started or self.stopping) and len(self._begun) == self.count > 0:
            self.started = True
            events.append(Started(self.generation))
        events += (MemberStarted(self.generation, member) for member in self._back)
        self._back.clear()
        # 2. ends, first the earliest
        for end in sorted(self._take_ends(now), key=_finish):
            self._reported.add(end.member)
            if not end.exit.ok:
                self.failed.add(end.member)
            events.append(MemberExited(self.generation, end.member, end.exit, end.at))
        # 3. nothing is left
        if self._vanished or (self.stopping and not (self.alive or more_may_come)):
            self.gone = True
            awaited = () if self.started or not self.stopping else range(self.count)
            events.append(GangGone(self.generation, tuple(member for member in awaited if member not in self._begun)))
        return events

    def _take_ends(self, now: int) -> list[_End]:
        over = self.stopping or self._concluded or self._vanished
        all_ended = len(self._reported) + len(self._ends) >= self.count
        failures = self._ends.take_failures(now, settled=over or bool(self.failed) or all_ended)
        # a member that succeeds before all have started is reported after Started
        may_succeed = over or self.started or self._alone
        return [*(self._ends.take_successes() if may_succeed else ()), *failures]


def _finish(end: _End) -> tuple[int, bool]:
    """Sorts ends by cause before effect.

    An end without a finish time was not observed, and its peers' ends follow from it. Where finish times are equal
    (pods have them in whole seconds), a member that was killed or lost precedes one that exited by itself.
    """
    return -1 if end.at is None else end.at, has_exited_by_itself(end.exit, RestartPolicy())
