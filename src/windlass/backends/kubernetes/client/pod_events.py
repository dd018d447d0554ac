"""Reads the Events of one object, a few at a time: no watch of all Events of a cluster."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.backends.kubernetes.client.api_errors import Unreachable
from windlass.backends.kubernetes.client.connection import Connection, stream_within
from windlass.backends.kubernetes.client.objects import ApiStruct
from windlass.backends.kubernetes.client.resources import EVENTS, path

_MAX_EVENTS = 100
"""Events that are read of one object. A pod that does not start has about ten."""
_MAX_BYTES = 1 << 20
"""Bytes of the answer that are read: users with the right can write Events of a megabyte each."""
_TIMEOUT_S = 5.0


REPORTER = "windlass.dev/operator"
"""Reporting component of the Events that Windlass writes."""


class EventSource(ApiStruct, frozen=True):
    """The component that wrote an Event of the core API."""

    component: str = ""


class EventSeries(ApiStruct, frozen=True):
    """Repetitions of an Event of the API events.k8s.io."""

    last_observed_time: str | None = None


class PodEvent(ApiStruct, frozen=True):
    """An Event. Which of its times is set depends on the API by which it was written."""

    type: str = ""
    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None
    event_time: str | None = None
    series: EventSeries | None = None
    reporting_component: str = ""
    source: EventSource | None = None

    @property
    def is_own(self) -> bool:
        """Whether Windlass wrote it. Such an Event repeats what the record of the job says, verdicts included."""
        return REPORTER in (self.reporting_component, self.source.component if self.source is not None else "")

    @property
    def last_seen(self) -> str:
        """Time of the last repetition, in RFC 3339; "" if it has none."""
        repeated = self.series.last_observed_time if self.series is not None else None
        return repeated or self.last_timestamp or self.event_time or ""


class _EventList(msgspec.Struct):
    items: tuple[PodEvent, ...] | None = None


_decoder = msgspec.json.Decoder(_EventList)


async def list_events(connection: Connection, namespace: str, uid: str) -> Sequence[PodEvent]:
    """Returns Events about the object with this uid. Raises ApiError, Unreachable, also where they are too large."""
    params = {"fieldSelector": f"involvedObject.uid={uid}", "limit": str(_MAX_EVENTS)}
    body = bytearray()
    about = f"the list of Events of {uid}"
    async with stream_within(connection, path(EVENTS, namespace), params, _TIMEOUT_S, about) as pieces:
        async for piece in pieces:
            body += piece
            if len(body) > _MAX_BYTES:
                raise Unreachable(f"{about} has more than {_MAX_BYTES >> 10} KiB and is not read")
    try:
        return _decoder.decode(body).items or ()
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unreachable(f"the answer is no list of Events: {error}") from error
