"""Collects what one turn (one pass of the control loop) changes: job states, history lines, commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from windlass.backends.port import Changes, Transition
from windlass.core.lifecycle.commands import Command, Forget, Launch, Stop
from windlass.core.model.job_changes import describe_changes
from windlass.core.model.queue import PastUsage
from windlass.core.model.status import JobState


class Turn:
    """Collects the states, transitions and commands of a turn."""

    def __init__(self) -> None:
        self.states: dict[str, JobState] = {}
        self.transitions: list[Transition] = []
        self.commands: list[Command] = []
        self.forgotten: list[str] = []
        self.redescribed: set[str] = set()

    def add_state(self, state: JobState, before: JobState | None, cause: str, now: int) -> None:
        """Adds a job's new state, with a line of history if users see a difference.

        `before` is its previous state, None for a new job.
        """
        self.states[state.id] = state
        if before is not None and before.job is not state.job:
            self.redescribed.add(state.id)
            if changes := describe_changes(before.job, state.job):
                phase = before.status.phase.value
                self.transitions.append(Transition(state.id, now, cause, phase, phase, changes))
        old, status = before.status if before else None, state.status
        if old is None or (old.phase, old.reason, old.message) != (status.phase, status.reason, status.message):
            phase = old.phase.value if old else ""
            text = f"{status.reason}: {status.message}" if status.message else status.reason
            self.transitions.append(Transition(state.id, now, cause, phase, status.phase.value, text))
        elif status.diagnosis is not None and old.diagnosis != status.diagnosis:
            phase, text = status.phase.value, f"attempt {status.diagnosis.generation}: {status.diagnosis.text}"
            self.transitions.append(Transition(state.id, now, cause, phase, phase, text))

    def add(self, commands: Iterable[Command]) -> None:
        """Adds commands."""
        for command in commands:
            self.commands.append(command)
            if isinstance(command, Forget):
                self.forgotten.append(command.job_id)

    def changes(self, past_usage: Mapping[str, PastUsage]) -> Changes:
        """The turn as one commit. `past_usage`: the decayed usage of queues."""
        # a launch that is stopped in the same turn is dropped: its nodes may be gone already
        stopped = {(stop.job_id, stop.generation) for stop in self.commands if isinstance(stop, Stop)}
        commands = [c for c in self.commands if not (isinstance(c, Launch) and (c.job_id, c.generation) in stopped)]
        return Changes(
            states=tuple(self.states.values()),
            transitions=tuple(self.transitions),
            redescribed=frozenset(self.redescribed),
            forgotten=tuple(self.forgotten),
            commands=tuple(commands),
            past_usage=past_usage if self.states else {},
        )
