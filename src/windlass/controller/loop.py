"""The loop between a controller and its backend: commit, perform, wait, decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from windlass.backends.deferred_commits import DeferredCommits, committed
from windlass.backends.port import Backend, BackendError, BackendEvent, Changes
from windlass.controller.controller import Controller
from windlass.controller.job_timers import earliest
from windlass.controller.observer import Observer

_RETRY_COMMIT_MS = 1_000
"""Wait before a turn that could not be made durable is tried again."""


async def run(
    controller: Controller, backend: Backend, observers: Sequence[Observer] = (), *, on_trouble: Callable[[str], None]
) -> None:
    """Drives a backend until cancelled. `on_trouble` receives the text of each commit that failed, once."""
    deferred = DeferredCommits(on_trouble)
    changes = controller.take_over(backend.now())
    while True:
        # 1. nothing is performed before it is durable; a job that cannot be written holds up no other
        selected = deferred.select(changes, backend.now())
        failures, waiting = await _commit(backend, selected, observers, on_trouble)
        # 2. perform it
        backend.perform(deferred.settle(selected, failures, backend.now()))
        controller.set_uncommitted(deferred.jobs, deferred.state_of)
        # 3. the events since, after those of gangs that could not be launched
        withheld = deferred.take_withheld_launches()
        due = backend.now() if withheld else earliest(controller.next_due(), deferred.next_due())
        events = waiting or await backend.wait(due)
        # 4. their meaning, and the next gangs to start
        for observer in observers:
            observer.on_turn_start()
        changes = controller.turn([*withheld, *events], backend.now())
        for observer in observers:
            observer.on_turn_end()


async def _commit(
    backend: Backend, changes: Changes, observers: Sequence[Observer], on_trouble: Callable[[str], None]
) -> tuple[Mapping[str, str], list[BackendEvent]]:
    """Commits a turn, with as many attempts as it takes. Returns the jobs that failed, and the events meanwhile."""
    events: list[BackendEvent] = []
    reported = ""
    while changes != Changes():
        for observer in observers:
            observer.on_commit_start(changes)
        try:
            failures = await backend.commit(changes)
        except BackendError as trouble:
            for observer in observers:
                observer.on_commit_failed()
            if str(trouble) != reported:
                reported = str(trouble)
                on_trouble(reported)
            events.extend(await backend.wait(backend.now() + _RETRY_COMMIT_MS))
        else:
            for observer in observers:
                observer.on_commit_end(committed(changes, failures))
            return failures, events
    return {}, events
