"""Set of gangs to be processed: because something has changed, or at a given time."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from windlass.backends.kubernetes.gangs.gang import Gang


class ChangedGangs:
    """Set of gangs to be processed, now or at a given time.

    `take` returns those that are due. `wake` is called for each gang that is marked.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._changed: dict[str, Gang] = {}
        self._alarms: dict[str, tuple[int, Gang]] = {}

    def mark(self, gang: Gang) -> None:
        """Marks a gang to be processed."""
        self._changed[gang.id] = gang
        self._wake()

    def mark_at(self, gang: Gang, at: int) -> None:
        """Marks a gang to be processed at a time in ms; this replaces an earlier request."""
        self._alarms[gang.id] = at, gang

    @property
    def due(self) -> int | None:
        """Returns the next time at which a gang is due without a change."""
        return min((at for at, _ in self._alarms.values()), default=None)

    def take(self, now: int) -> Iterable[Gang]:
        """Returns the gangs that are due, each once."""
        due = [gang for at, gang in self._alarms.values() if at <= now]
        for gang in due:
            del self._alarms[gang.id]
            self._changed[gang.id] = gang
        changed, self._changed = self._changed, {}
        return changed.values()
