"""The victims chosen so far for one gang, with their effect on nodes and usage, and the sparing of those not needed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from windlass.core.placement.elastic_resizing import surplus_replicas
from windlass.core.preemption.preemption_rights import PreemptionRights
from windlass.core.preemption.preemption_simulation import PreemptionSimulation
from windlass.core.preemption.victim_releases import PossibleReleases, Victim


class ChosenVictims:
    """Victims in the order of choice. They are released in the simulation of nodes and in the rights by usage."""

    def __init__(self, simulation: PreemptionSimulation, rights: PreemptionRights) -> None:
        self.simulation, self.rights = simulation, rights
        self.victims: list[Victim] = []

    def fits(self) -> bool:
        """Tells whether the gang would start if all chosen victims were gone."""
        return self.simulation.fits() and self.rights.has_quota()

    def choose(self, victim: Victim) -> None:
        """Adds a victim."""
        self.victims.append(victim)
        self.simulation.release(victim.release)
        self.rights.release(victim.release)

    def choose_released(self, victims: Sequence[Victim]) -> None:
        """Adds victims whose usage is already released."""
        self.simulation.release(*(victim.release for victim in victims))
        self.victims += victims

    def drop(self, count: int) -> list[Victim]:
        """Restores the last chosen victims, and returns them in the order of choice."""
        first = len(self.victims) - count
        last = self.victims[first:]
        del self.victims[first:]
        self.simulation.restore(*(victim.release for victim in last))
        self.rights.restore(*(victim.release for victim in last))
        return last

    def replace(self, number: int, victim: Victim) -> None:
        """Replaces a victim by another."""
        before = self.victims[number]
        self.simulation.restore(before.release)
        self.rights.restore(before.release)
        self.simulation.release(victim.release)
        self.rights.release(victim.release)
        self.victims[number] = victim

    def are_allowed(self, victims: Sequence[Victim]) -> bool:
        """Tells whether all these victims may be stopped or shrunk together."""
        return self.rights.allows_all((victim.release, victim.reason) for victim in victims)


def reprieve(chosen: ChosenVictims) -> None:
    """Spares every victim without which the gang still fits, the most costly first."""
    simulation, victims = chosen.simulation, chosen.victims
    stopped: set[str] = set()
    kept: list[Victim] = []
    losses = simulation.losses([victim.release for victim in victims])
    neighbours = _Neighbours(victims)
    for number in reversed(range(len(victims))):
        victim = victims[number]
        # a gang that is stopped need not also be shrunk
        needed = victim.release.run.id in stopped or losses[number] > simulation.slack()
        if needed or not _can_do_without(chosen, victim, kept):
            kept.append(victim)
            stopped |= {victim.release.run.id} if victim.release.whole else set()
        else:
            near = neighbours.before(number)
            loss_near = simulation.losses([victims[n].release for n in near])
            for other, loss in zip(near, loss_near, strict=True):
                losses[other] = loss
        victims.pop()
    chosen.victims = kept[::-1]


def _can_do_without(chosen: ChosenVictims, victim: Victim, kept: Sequence[Victim]) -> bool:
    """Tells whether the gang fits without the last chosen; then restores that one."""
    simulation, rights = chosen.simulation, chosen.rights
    simulation.restore(victim.release)
    if not simulation.fits():
        simulation.release(victim.release)
        return False
    rights.restore(victim.release)
    others = [*chosen.victims[:-1], *reversed(kept)]
    if rights.has_quota() and (not rights.depends_on(victim.release) or chosen.are_allowed(others)):
        return True
    rights.release(victim.release)
    simulation.release(victim.release)
    return False


def trim(chosen: ChosenVictims, releases: PossibleReleases) -> None:
    """Lets shrinking gangs keep as many replicas as possible."""
    stopped = {victim.release.run.id for victim in chosen.victims if victim.release.whole}
    for number, victim in enumerate(chosen.victims):
        run = victim.release.run
        if run.id in stopped:
            continue
        low, high = 1, surplus_replicas(run)
        while low < high:
            middle = (low + high) // 2
            chosen.replace(number, releases.shrink(run, victim.order, middle, victim.reason))
            low, high = (low, middle) if chosen.fits() else (middle + 1, high)
        chosen.replace(number, releases.shrink(run, victim.order, low, victim.reason))


class _Neighbours:
    """Gangs that share nodes."""

    def __init__(self, victims: Sequence[Victim]) -> None:
        self._rows = [victim.release.grant.rows.tolist() for victim in victims]

    @cached_property
    def _on(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for number, rows in enumerate(self._rows):
            for row in rows:
                found.setdefault(row, []).append(number)
        return found

    def before(self, number: int) -> list[int]:
        """Returns those with a smaller number that share a node with this one."""
        return sorted({other for row in self._rows[number] for other in self._on[row] if other < number})
