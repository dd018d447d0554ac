"""Events about jobs, as `kubectl describe` shows them: written in the background, dropped under load."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.object_reference import ObjectReference
from windlass.backends.kubernetes.client.priority_limiter import PriorityLimiter
from windlass.backends.kubernetes.client.resources import EVENTS
from windlass.backends.kubernetes.status.redaction import MessageRedaction
from windlass.backends.port import BackendError

_MAX_QUEUED_EVENTS = 1_000
"""Maximum of events that wait to be written; more are dropped, since they only inform users."""
_AT_ONCE = 4
_MAX_DELAY_S = 0.5
"""Seconds that an Event may wait while gangs are being started."""
_MAX_NOTE_BYTES = 1_024
"""Maximum length of a note in bytes, set by the API."""
_MAX_NAME_CHARS = 236
"""Characters of an object's name in the name of its Event, which has at most 253."""
RECOVERED, NOT_WRITTEN, OBJECT_FAULT, AGENT_REFUSED = "Recovered", "StateNotWritten", "ObjectFault", "AgentRefused"
FIELDS_IGNORED = "FieldsIgnored"
_BAD = (
    *("Failed", "Restarting", "Refused", "Hang", "RanksRestarted", "AgentsGivenUp"),
    *(RECOVERED, NOT_WRITTEN, OBJECT_FAULT, AGENT_REFUSED, FIELDS_IGNORED),
)
STATE_REPLACED = "had a state in status.windlass that another writer has put there; it is replaced by the job's own"
"""Note of a fault of a job."""
REPORTER = "windlass.dev/operator"


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One Kubernetes Event to record. `at` in ms."""

    about: ObjectReference
    reason: str
    action: str
    note: str
    at: int


class EventRecorder:
    """Background writer of events; `record` returns at once."""

    def __init__(
        self,
        connection: Connection,
        urgent: PriorityLimiter,
        redaction: MessageRedaction,
        on_trouble: Callable[[str], None],
    ) -> None:
        self._connection, self._urgent, self._on_trouble = connection, urgent, on_trouble
        self._redaction = redaction
        self._news: asyncio.Queue[EventRecord] = asyncio.Queue(_MAX_QUEUED_EVENTS)
        self._workers: list[asyncio.Task[None]] = []

    def record(self, news: EventRecord) -> None:
        """Queues an event, unless too many wait already."""
        if not self._workers:
            loop = asyncio.get_running_loop()
            self._workers = [loop.create_task(self._work()) for _ in range(_AT_ONCE)]
        if not self._news.full():
            note = self._redaction.message(news.note, news.about.namespace)
            self._news.put_nowait(replace(news, note=note))

    async def close(self) -> None:
        """Stops; pending writes are dropped."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            news = await self._news.get()
            await self._urgent.wait_until_idle(_MAX_DELAY_S)
            try:
                await self._connection.create(EVENTS, event(news))
            except ApiError as error:
                # The name is unique: an existing event was written by an attempt whose answer was lost.
                if not (error.is_missing or error.is_terminating or error.is_exists):
                    self._on_trouble(f"an event of {news.about.job_id} could not be recorded: {error}")
            except BackendError:
                continue  # the API server is not reachable now
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this event's
                self._on_trouble(f"an event of {news.about.job_id} could not be made: {type(error).__name__}: {error}")


def event(news: EventRecord) -> dict[str, object]:
    """Returns the API object of an Event (events.k8s.io/v1)."""
    reference = news.about
    at = datetime.fromtimestamp(news.at / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    regarding = {
        "apiVersion": reference.resource.api_version,
        "kind": reference.resource.kind,
        "namespace": reference.namespace,
        "name": reference.name,
        "uid": reference.uid,
    }
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"{reference.name[:_MAX_NAME_CHARS]}.{uuid.uuid4().hex[:16]}",
            "namespace": reference.namespace or "default",  # as the API requires for objects of no namespace
        },
        "eventTime": at,
        "reportingController": REPORTER,
        "reportingInstance": "windlass",
        "type": "Warning" if news.reason in _BAD else "Normal",
        "reason": news.reason,
        "action": news.action,
        "note": news.note.encode()[:_MAX_NOTE_BYTES].decode(errors="ignore"),
        "regarding": regarding,
    }
