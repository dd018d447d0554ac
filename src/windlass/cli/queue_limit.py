"""The longest time that followed jobs may wait in their queue, and the explanation of that wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from windlass.cli.terminal.formatting import format_duration, reason_text
from windlass.server.errors import ApiError

Json = dict[str, Any]


class QueueTimeoutError(Exception):
    """A job has waited in its queue for too long. The text states why, and the fix."""


class WaitExplainer(Protocol):
    """A controller that explains why a job waits."""

    def explain(self, name: str, /) -> Json:
        """Returns the answer of `windlass why`."""


class QueueLimit:
    """Limit of a wait in the queue. `describe` turns the answer of `windlass why` into text; `fix`: what to try."""

    def __init__(
        self, limit_ms: int, describe: Callable[[Json], str], fix: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit_ms, self._describe, self._fix, self._clock = limit_ms, describe, fix, clock
        self._since: float | None = None
        self._reason = ""
        self._is_explained = False

    def begin(self) -> None:
        """Starts the clock: the jobs are submitted."""
        self._since = self._clock()

    def note_transition(self, event: Mapping[str, Any]) -> None:
        """Stops the clock when a job gets its nodes, and starts it anew when it is queued again."""
        if event["after"] == "Queued":
            self._since = self._clock()
        elif event["after"] != "Created":
            self._since = None

    def explain(self, job: Mapping[str, Any], controller: WaitExplainer) -> str:
        """Returns the explanation of a waiting job at the first call; then, and where there is none, ""."""
        self._reason = reason_text(job, token=False)
        if self._is_explained:
            return ""
        self._is_explained = True
        try:
            return self._describe(controller.explain(job["id"]))
        except ApiError:  # the line of the job states its reason
            return ""

    def is_over(self) -> bool:
        """Whether the jobs have waited for longer than the limit."""
        return self._since is not None and (self._clock() - self._since) * 1000 >= self._limit_ms

    def error(self, names: str, controller: WaitExplainer) -> QueueTimeoutError:
        """Returns the error that ends the verb. `names`: ids of the jobs, separated by commas."""
        reason = self._reason or _ask_reason(names.partition(",")[0], controller)
        limit = format_duration(self._limit_ms)
        return QueueTimeoutError(f"{names} got no nodes within {limit} and is cancelled: {reason}\n{self._fix}")


def _ask_reason(name: str, controller: WaitExplainer) -> str:
    """Returns why a job waits for which no reason was reported, such as one that no operator has seen."""
    try:
        return reason_text(controller.explain(name)["job"])
    except ApiError as error:
        return error.message
