"""What people have reserved with this world, beside what its cluster file says: kept in the database."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from windlass.backends.local.state_reader import StateReader
from windlass.backends.local.state_store import Notes
from windlass.core.model.reservation import Reservation

_KEY = "reservations"


def read(records: StateReader) -> tuple[Reservation, ...]:
    """Every reservation that was made and not deleted, over or not, in the order in which they were made."""
    written = records.meta(_KEY)
    return msgspec.json.decode(written, type=tuple[Reservation, ...]) if written else ()


def notes(reservations: Iterable[Reservation]) -> Notes:
    """For the store: these and no others."""
    return Notes(meta={_KEY: msgspec.json.encode(list(reservations)).decode()})
