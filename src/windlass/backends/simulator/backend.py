"""The simulator behind the port: a controller's view of a Universe.

Time passes only in `wait`, up to the next event. Committed state outlives the controller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from windlass.backends.port import BackendError, BackendEvent, Changes, Recovery
from windlass.backends.simulator.universe import Universe
from windlass.core.lifecycle.commands import Command, Forget, Launch, Stop
from windlass.core.model.status import TERMINAL, JobState


class SimulationOver(Exception):  # noqa: N818 - the end of a simulation is no error
    """Signal that nothing is scheduled any more: a wait would last for ever."""


class SimulatorBackend:
    """Implements `backends.port.Backend`.

    `watch` is called before each wait, when every decision was carried out. `full` tells whether a commit finds its
    disk full, `refusal` why the state of a job cannot be written ("" if it can).
    """

    def __init__(
        self,
        universe: Universe,
        watch: Callable[[], None] = lambda: None,
        full: Callable[[], bool] = lambda: False,
        refusal: Callable[[str], str] = lambda _job_id: "",
    ) -> None:
        self.universe = universe
        self._watch, self._full, self._refusal = watch, full, refusal
        self._refused: set[str] = set()
        """Jobs whose last state was refused."""
        self._failed_commit: tuple[Changes | None, int] = (None, 0)
        """A commit that failed, and the number of events that it answers; later events are not part of it."""

    def now(self) -> int:
        """Returns the universe's time."""
        return self.universe.timeline.now

    def recover(self) -> Recovery:
        """Returns the committed state; delivered and uncommitted events are repeated."""
        self.universe.timeline.redeliver_all()
        return Recovery(self.universe.machines.known(), tuple(self._known()))

    def _known(self) -> list[JobState]:
        states = self.universe.states.values()
        return [state for state in states if state.status.phase not in TERMINAL or state.job.ttl is not None]

    def finished(self, job_id: str) -> JobState | None:
        """Returns a job that has ended, or None."""
        state = self.universe.states.get(job_id)
        return state if state is not None and state.status.phase in TERMINAL else None

    async def wait(self, until: int | None) -> Sequence[BackendEvent]:
        """Advances virtual time. Raises SimulationOver if it would wait for ever."""
        self._watch()
        if until is None and self.universe.timeline.over:
            raise SimulationOver
        return self.universe.timeline.take(until)

    async def commit(self, changes: Changes) -> Mapping[str, str]:
        """Keeps the state in memory; returns the jobs whose state is refused.

        Raises BackendError if the simulated disk is full.
        """
        events = self._failed_commit[1] if self._failed_commit[0] is changes else self.universe.timeline.delivered
        if self._full():
            self._failed_commit = changes, events
            raise BackendError("no space left on the simulated disk")
        refusals = {state.id: reason for state in changes.states if (reason := self._refusal(state.id))}
        self.universe.states.update({state.id: state for state in changes.states if state.id not in refusals})
        for job_id in changes.forgotten:
            self.universe.states.pop(job_id, None)
        self._refused = (self._refused - {state.id for state in changes.states}) | refusals.keys()
        self.universe.timeline.acknowledge(events, self._refused)
        self._failed_commit = None, 0
        return refusals

    def perform(self, commands: Sequence[Command]) -> None:
        """Carries out commands; answers come in `wait`."""
        for command in commands:
            match command:
                case Launch(job_id, generation, placement):
                    self.universe.gangs.launch(job_id, generation, placement)
                case Stop(job_id, generation, grace):
                    self.universe.gangs.stop(job_id, generation, grace)
                case Forget(job_id):
                    self.universe.gangs.forget(job_id)
