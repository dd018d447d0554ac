"""Events about jobs, as `kubectl describe` shows them: written in the background, dropped under load.

They are Events of the core API, since events.k8s.io refuses `firstTimestamp`, `lastTimestamp`, `count` and `source`,
which clients of Kubeflow's operators read. They are merged and limited (`event_correlation`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.pod_events import REPORTER
from windlass.backends.kubernetes.client.priority_limiter import PriorityLimiter
from windlass.backends.kubernetes.client.resources import EVENTS
from windlass.backends.kubernetes.status.event_correlation import CountedEvent, EventCorrelation, EventRecord
from windlass.backends.kubernetes.status.redaction import MessageRedaction
from windlass.backends.port import BackendError
from windlass.jobs.kubernetes.status.status_times import rfc3339

_AT_ONCE = 4
_MAX_QUEUED_EVENTS = 1_000 // _AT_ONCE
"""Maximum of events that wait for one of the writers; more are dropped, since they only inform users. Events about
pods and services have half of it, so that they keep none of a job itself out."""
_MAX_DELAY_S = 0.5
"""Seconds that an Event may wait while gangs are being started."""
_MAX_NOTE_BYTES = 1_024
"""Maximum length of a message in bytes, set by the API."""
RECOVERED, NOT_WRITTEN, OBJECT_FAULT, AGENT_REFUSED = "Recovered", "StateNotWritten", "ObjectFault", "AgentRefused"
FIELDS_IGNORED = "FieldsIgnored"
NETWORK_CHOSEN = "NetworkChosen"
STATE_REPLACED = "had a state in status.windlass that another writer has put there; it is replaced by the job's own"
"""Note of a fault of a job."""


class EventRecorder:
    """Background writer of events; `record` returns at once. The Events of one object are written in their order."""

    def __init__(
        self,
        connection: Connection,
        urgent: PriorityLimiter,
        redaction: MessageRedaction,
        on_trouble: Callable[[str], None],
    ) -> None:
        self._connection, self._urgent, self._on_trouble = connection, urgent, on_trouble
        self._redaction, self._correlation = redaction, EventCorrelation()
        self._news: list[asyncio.Queue[CountedEvent]] = [asyncio.Queue(_MAX_QUEUED_EVENTS) for _ in range(_AT_ONCE)]
        self._workers: list[asyncio.Task[None]] = []

    def record(self, news: EventRecord) -> None:
        """Queues an event, unless too many wait already."""
        if not self._workers:
            loop = asyncio.get_running_loop()
            self._workers = [loop.create_task(self._work(each)) for each in self._news]
        queue = self._news[hash(news.about.job_id) % _AT_ONCE]
        if queue.full() or (news.is_limited and queue.qsize() >= _MAX_QUEUED_EVENTS // 2):
            return
        note = self._redaction.message(news.note, news.about.namespace)
        if (counted := self._correlation.take(replace(news, note=note))) is not None:
            queue.put_nowait(counted)

    async def close(self) -> None:
        """Stops; pending writes are dropped."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    async def _work(self, queue: asyncio.Queue[CountedEvent]) -> None:
        while True:
            news = await queue.get()
            await self._urgent.wait_until_idle(_MAX_DELAY_S)
            try:
                await self._write(news)
            except ApiError as error:
                # The name is unique: an existing event was written by an attempt whose answer was lost.
                if not (error.is_missing or error.is_terminating or error.is_exists):
                    self._on_trouble(f"an event of {news.record.about.job_id} could not be recorded: {error}")
            except BackendError:
                continue  # the API server is not reachable now
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this event's
                name = news.record.about.job_id
                self._on_trouble(f"an event of {name} could not be made: {type(error).__name__}: {error}")

    async def _write(self, news: CountedEvent) -> None:
        """Creates an Event, or counts it in the one that exists, unless that has reached the end of its lifetime."""
        if news.count > 1:
            made = event(news)
            changes = {name: made[name] for name in ("message", "lastTimestamp", "count")}
            try:
                await self._connection.patch(EVENTS, namespace_of(news.record), news.name, changes)
            except ApiError as error:
                if not error.is_missing:
                    raise
                news = self._correlation.renewed(news)
            else:
                return
        await self._connection.create(EVENTS, event(news))


def namespace_of(record: EventRecord) -> str:
    """Returns the namespace of an Event; as the API requires, "default" for objects of no namespace."""
    return record.about.namespace or "default"


def event(news: CountedEvent) -> dict[str, object]:
    """Returns the API object of an Event."""
    record, reference = news.record, news.record.about
    first = datetime.fromtimestamp(news.first_at / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    involved = {
        "apiVersion": reference.resource.api_version,
        "kind": reference.resource.kind,
        "namespace": reference.namespace,
        "name": reference.name,
        "uid": reference.uid,
    }
    return {
        "apiVersion": EVENTS.api_version,
        "kind": "Event",
        "metadata": {"name": news.name, "namespace": namespace_of(record)},
        "involvedObject": involved,
        "type": record.type,
        "reason": record.reason,
        "action": record.action,
        "message": record.note.encode()[:_MAX_NOTE_BYTES].decode(errors="ignore"),
        "count": news.count,
        "eventTime": first,
        "firstTimestamp": rfc3339(news.first_at),
        "lastTimestamp": rfc3339(record.at),
        "source": {"component": REPORTER},
        "reportingComponent": REPORTER,
        "reportingInstance": "windlass",
    }
