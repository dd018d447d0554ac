"""Merges and limits Events, by the rules of client-go's event recorder (tools/record/events_cache.go).

- The same Event again is counted in the one that exists.
- From the 11th Event about one object with the same reason on, within ten minutes, they are one object, whose message
  is that of the last, after `COMBINED`.
- Of the Events about a job's pods and services, 25 are written at once, then one in five minutes; others are dropped.

Unlike there, this limit leaves out the Events of the job itself: they are as rare as changes of its conditions, and a
job with many pods must not lose the Event of its end.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from windlass.backends.kubernetes.client.object_reference import ObjectReference

COMBINED = "(combined from similar events): "
NORMAL, WARNING = "Normal", "Warning"
_MAX_SIMILAR, _SIMILAR_WITHIN_MS = 10, 600_000
_BURST, _REFILL_MS = 25, 300_000
_MAX_KEYS = 4_096
"""Number of keys that are remembered, of each sort; the one that was used least recently is forgotten first."""
_MAX_NAME_CHARS = 236
"""Characters of an object's name in the name of its Event, which has at most 253."""
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One Event to record. `at` in ms; `action`: what was done, in one word.

    `is_limited`: whether it is about one of many pods or services, so that it may be dropped.
    """

    about: ObjectReference
    reason: str
    action: str
    note: str
    at: int
    type: str = WARNING
    is_limited: bool = False


@dataclass(frozen=True, slots=True)
class CountedEvent:
    """An Event as it is to be in the API: created with `count` 1, else changed. `first_at` in ms."""

    record: EventRecord
    key: Hashable
    name: str
    first_at: int
    count: int = 1


class _Recent(Generic[_V]):
    """The values of the keys that were used most recently."""

    def __init__(self) -> None:
        self._values: OrderedDict[Hashable, _V] = OrderedDict()

    def get(self, key: Hashable) -> _V | None:
        return self._values.get(key)

    def put(self, key: Hashable, value: _V) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > _MAX_KEYS:
            self._values.popitem(last=False)


class RateLimit:
    """Token buckets by key: `burst` at once, then one in `interval` ms."""

    def __init__(self, burst: int, interval: int) -> None:
        self._burst, self._interval = burst, interval
        self._left: _Recent[tuple[float, int]] = _Recent()
        """By key: tokens that were left, and the time in ms when that was so."""

    def has_room(self, key: Hashable, now: int) -> bool:
        """Takes a token. Returns whether there was one."""
        left, since = self._left.get(key) or (float(self._burst), now)
        left = min(float(self._burst), left + max(0, now - since) / self._interval)
        has_room = left >= 1
        self._left.put(key, (left - 1 if has_room else left, now))
        return has_room


class EventCorrelation:
    """The Events of the last minutes, by which the next ones are merged and limited."""

    def __init__(self) -> None:
        self._counted: _Recent[CountedEvent] = _Recent()
        self._notes: _Recent[tuple[frozenset[str], int]] = _Recent()
        """By what is similar: the different notes, and the time of the last Event in ms."""
        self._limit = RateLimit(_BURST, _REFILL_MS)
        """By uid: Events about pods and services."""

    def take(self, record: EventRecord) -> CountedEvent | None:
        """Returns what is to be written for an Event; None if it is dropped."""
        key: Hashable
        similar = record.about.uid or record.about.job_id, record.reason, record.type
        if self._are_many(similar, record):
            record, key = replace(record, note=f"{COMBINED}{record.note}"), similar
        else:
            key = (*similar, record.note)
        if record.is_limited and not self._limit.has_room(record.about.uid, record.at):
            return None
        known = self._counted.get(key)
        if known is None:
            counted = CountedEvent(record, key, _event_name(record), record.at)
        else:
            counted = replace(known, record=record, count=known.count + 1)
        self._counted.put(key, counted)
        return counted

    def renewed(self, counted: CountedEvent) -> CountedEvent:
        """Returns an Event under a new name: the API server has deleted the one that was to be changed."""
        new = replace(counted, name=_event_name(counted.record))
        self._counted.put(counted.key, new)
        return new

    def _are_many(self, similar: Hashable, record: EventRecord) -> bool:
        known = self._notes.get(similar)
        notes = known[0] if known is not None and record.at - known[1] <= _SIMILAR_WITHIN_MS else frozenset()
        if record.note not in notes and len(notes) < _MAX_SIMILAR:
            notes, is_combined = notes | {record.note}, False
        else:
            is_combined = record.note not in notes
        self._notes.put(similar, (notes, record.at))
        return is_combined


def _event_name(record: EventRecord) -> str:
    return f"{record.about.name[:_MAX_NAME_CHARS]}.{uuid.uuid4().hex[:16]}"
