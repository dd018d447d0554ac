"""Reservations made at run time, in addition to those of the cluster file, kept in the database."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from windlass.backends.local.state_reader import StateReader
from windlass.backends.local.state_store import Notes
from windlass.core.model.reservation import Reservation

_KEY = "reservations"


def read_reservations(records: StateReader) -> tuple[Reservation, ...]:
    """Returns every reservation that was made and not deleted, past ones included, in the order of creation."""
    return tuple(records.decoded(_KEY, list[Reservation]) or ())


def reservation_note(reservations: Iterable[Reservation]) -> Notes:
    """Returns the note that replaces all stored reservations by these."""
    return Notes(meta={_KEY: msgspec.json.encode(list(reservations)).decode()})
