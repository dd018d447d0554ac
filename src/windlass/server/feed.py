"""Followers of jobs: every commit wakes all of them, and each gets the events of its jobs as a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

import msgspec

from windlass.backends.event_timeout import wait_for_event
from windlass.backends.port import Changes
from windlass.controller.controller import Controller
from windlass.controller.observer import Observer
from windlass.core.model.status import TERMINAL, JobState
from windlass.server.data_source import JobRecords
from windlass.server.job_lines import Json, job_line
from windlass.server.job_lookup import JobLookup, is_pending

_HEARTBEAT_S = 15.0
"""Time without events after which a follower gets a comment that keeps the connection alive."""


class EventFeed(Observer):
    """Wake-up of followers: one asyncio event for each, set at each commit, at each failed commit and at the end."""

    def __init__(self) -> None:
        self.closed = False
        self.trouble = ""
        """Reason why no commit succeeds at present; empty if commits succeed."""
        self._waiting: set[asyncio.Event] = set()

    def on_commit_end(self, changes: Changes) -> None:  # noqa: ARG002 - followers read what they need
        """Wakes the followers after a successful commit."""
        self.trouble = ""
        self._wake()

    def complain(self, trouble: str) -> None:
        """Records that a commit has failed and is being repeated, and wakes the followers."""
        self.trouble = trouble
        self._wake()

    def _wake(self) -> None:
        for event in self._waiting:
            event.set()

    def close(self) -> None:
        """Makes the followers leave: no commit will follow."""
        self.closed = True
        self._wake()

    def join(self) -> asyncio.Event:
        """An event for a new follower, set whenever there may be news. The follower clears it."""
        event = asyncio.Event()
        self._waiting.add(event)
        return event

    def leave(self, event: asyncio.Event) -> None:
        """Removes a follower."""
        self._waiting.discard(event)


class FollowedEvents:
    """Event streams of jobs: transitions, changed reasons and ends. Methods raise ApiError, BackendError."""

    def __init__(self, controller: Controller, records: JobRecords, feed: EventFeed, jobs: JobLookup) -> None:
        self._controller, self._records, self._feed, self._jobs = controller, records, feed, jobs

    async def follow(self, names: str, after: int) -> AsyncIterator[Json]:
        """Events of jobs and arrays after number `after`, until all have ended. `names`: by commas; empty for all."""
        ids = {job_id for name in names.split(",") if name for job_id in await self._jobs.ids(name)}
        return self._follow(ids, after)

    async def _follow(self, ids: set[str], after: int) -> AsyncIterator[Json]:
        news = self._feed.join()
        sent: dict[str, tuple[object, int]] = {}
        ended: set[str] = set()
        try:
            while not self._feed.closed:
                news.clear()
                ends = [state for job_id in sorted(ids - ended) if _has_ended(state := await self._jobs.state(job_id))]
                for number, transition in await self._records.events(after, ids):
                    after = number
                    yield {"type": "transition", "number": number, **msgspec.to_builtins(transition)}
                for event in self._changed_verdicts(ids, sent):
                    yield event
                for state in ends:
                    ended.add(state.id)
                    yield {"type": "end", "job": job_line(state)}
                if ids and ended == ids:
                    yield {"type": "all ended"}
                    return
                if not await wait_for_event(news, _HEARTBEAT_S):
                    yield {"type": "quiet"}
        finally:
            self._feed.leave(news)

    def _changed_verdicts(self, ids: set[str], sent: dict[str, tuple[object, int]]) -> Iterable[Json]:
        """Changed reasons of pending jobs."""
        waiting = [job_id for job_id in ids if (s := self._controller.states.get(job_id)) and is_pending(s)]
        positions = self._jobs.positions() if waiting else {}
        for job_id in waiting:
            state = self._controller.states[job_id]
            line = self._jobs.line(state, positions)
            news = (line["message"], line["position"])
            if sent.get(job_id) != news:
                sent[job_id] = news
                yield {"type": "verdict", "job": line}


def _has_ended(state: JobState) -> bool:
    return state.status.phase in TERMINAL
