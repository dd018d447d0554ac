"""Schedules in the database: the job, when it is submitted again, and which times have been decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from windlass.backends.local.sealed_text import seal, unseal
from windlass.backends.local.state_reader import CorruptError, StateReader
from windlass.backends.local.state_store import SCHEDULE_KEY
from windlass.jobs.description.submission import Submission
from windlass.jobs.schedules.schedule import Schedule, ScheduleStatus


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """One schedule. `environment`: inherited by the ranks of each run; None: they inherit the controller's."""

    submission: Submission
    created_at: int
    status: ScheduleStatus
    environment: Mapping[str, str] | None = None
    key: str = ""
    """Identifies the request that created it."""

    @property
    def name(self) -> str:
        """Name of the schedule, which is that of its job."""
        return self.submission.job.name

    @property
    def schedule(self) -> Schedule:
        """Times and policies."""
        assert self.submission.schedule is not None  # noqa: S101 - a record is made of a submission with one
        return self.submission.schedule


_decode = msgspec.json.Decoder(ScheduleRecord).decode


def record_text(record: ScheduleRecord) -> str:
    """The record as it is stored, with a checksum."""
    return seal(msgspec.json.encode(record).decode(), record.name)


def read_schedules(records: StateReader, database: Path) -> list[ScheduleRecord]:
    """Returns every schedule, by name. Raises CorruptError."""
    query = "SELECT substr(key, ?), value FROM meta WHERE substr(key, 1, ?) = ? ORDER BY key"
    rows = records.rows(query, (len(SCHEDULE_KEY) + 1, len(SCHEDULE_KEY), SCHEDULE_KEY))
    try:
        return [_decode(unseal(text, name)) for name, text in rows]
    except (msgspec.MsgspecError, ValueError) as error:
        raise CorruptError(database, str(error)) from error
