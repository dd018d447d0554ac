"""Gangs to be looked at: because something has changed, or because a time has come."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from windlass.backends.kubernetes.gangs.gang import Gang


class ChangedGangs:
    """`wake` is called for each gang that is marked."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._changed: dict[str, Gang] = {}
        self._alarms: dict[str, tuple[int, Gang]] = {}

    def mark(self, gang: Gang) -> None:
        """Have a gang looked at."""
        self._changed[gang.id] = gang
        self._wake()

    def mark_at(self, gang: Gang, at: int) -> None:
        """Have a gang looked at at a time, in ms; this replaces an earlier request."""
        self._alarms[gang.id] = at, gang

    @property
    def due(self) -> int | None:
        """Time of the next look that no change triggers."""
        return min((at for at, _ in self._alarms.values()), default=None)

    def take(self, now: int) -> Iterable[Gang]:
        """The gangs to be looked at; each is returned once."""
        due = [gang for at, gang in self._alarms.values() if at <= now]
        for gang in due:
            del self._alarms[gang.id]
            self._changed[gang.id] = gang
        changed, self._changed = self._changed, {}
        return changed.values()
