"""Waits for the end of submitted jobs, as `sbatch --wait` does."""

from __future__ import annotations

from typing import Any, Protocol

from windlass.cli.job_messages import exit_code_of

_POLL_S = 1.0


class Events(Protocol):
    """Events of the submitted jobs."""

    def poll(self, timeout: float, /) -> list[dict[str, Any]]:
        """Returns the events that arrived, after at most `timeout` seconds."""


def wait_for_end(events: Events) -> int:
    """Waits until the jobs have ended. Returns the highest of their exit codes."""
    ended: list[int] = []
    while True:
        for event in events.poll(_POLL_S):
            if event["type"] == "end":
                ended.append(exit_code_of([event["job"]]))
            elif event["type"] == "all ended":
                return max(ended, default=0)
