"""Renewal of the Lease in a thread of its own, with an event loop and connections of its own.

A turn of the operator's event loop may take longer than the Lease lasts, for example a plan for a large cluster. The
leader is healthy then and must not be deposed. One whose event loop never turns again is not: the thread watches the
loop, and renews no longer once the loop has not turned for `MAX_TURN_LEASES` durations of the Lease. Fencing does not
depend on the thread: a write is sent only while `Election.may_lead`.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future

from windlass.backends.kubernetes.client.connection import Connection
from windlass.server.operator.election import Election

MAX_TURN_LEASES = 8
"""Longest turn of the operator's event loop, in durations of the Lease."""


class LoopBeat:
    """Time of the last turn of the operator's event loop. `longest`: seconds after which the loop counts as hung."""

    def __init__(self, longest: float, clock: Callable[[], float]) -> None:
        self._longest, self._clock = longest, clock
        self._at = clock()

    def beat(self) -> None:
        """Notes a turn."""
        self._at = self._clock()

    def is_alive(self) -> bool:
        """Whether the loop has turned recently."""
        return self._clock() - self._at < self._longest


async def keep_in_thread(election: Election, connect: Callable[[], Connection]) -> None:
    """Renews the Lease in a thread until it is lost; then raises LostError.

    `connect` makes the thread's connection. The thread has ended when this returns or is cancelled, however often.
    """
    duration = election.settings.duration
    beat = LoopBeat(MAX_TURN_LEASES * duration, election.clock)
    loop = asyncio.new_event_loop()
    renewal = loop.create_task(_renew(election, connect, beat))
    outcome: Future[None] = Future()
    thread = threading.Thread(target=_run, args=(loop, renewal, outcome), name="lease", daemon=True)
    thread.start()
    ended = asyncio.wrap_future(outcome)
    try:
        while not ended.done():
            beat.beat()
            await asyncio.wait([ended], timeout=duration / 5)
        ended.result()
    finally:
        while not ended.done():
            loop.call_soon_threadsafe(renewal.cancel)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([ended])
        thread.join()
        loop.close()


def _run(loop: asyncio.AbstractEventLoop, renewal: asyncio.Task[None], outcome: Future[None]) -> None:
    """Runs the loop of a renewal until its end."""
    try:
        outcome.set_result(loop.run_until_complete(renewal))
    except asyncio.CancelledError:
        outcome.cancel()
    except BaseException as error:  # noqa: BLE001 - raised where the outcome is awaited
        outcome.set_exception(error)


async def _renew(election: Election, connect: Callable[[], Connection], beat: LoopBeat) -> None:
    async with connect() as connection:
        with election.through(connection):
            await election.keep(beat.is_alive)
