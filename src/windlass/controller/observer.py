"""Observer of the controller's turns: followers of events, metrics, the history of jobs."""

from __future__ import annotations

from windlass.backends.port import Changes


class Observer:
    """Callbacks of one turn, in their order. They run in the controller's loop: they must not block and not raise."""

    def on_turn_start(self) -> None:
        """Events have arrived."""

    def on_turn_end(self) -> None:
        """The controller has decided; its commit follows."""

    def on_commit_start(self, changes: Changes) -> None:
        """A commit starts. It may fail, and then starts again."""

    def on_commit_failed(self) -> None:
        """Nothing of the changes could be written."""

    def on_commit_end(self, changes: Changes) -> None:
        """The changes are durable."""
