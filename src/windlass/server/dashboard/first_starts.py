"""Nodes on which jobs have started first, for jobs that hold none any more."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from windlass.backends.port import BackendError, Transition

Json = dict[str, Any]
_MAX_KEPT = 1_000
_MAX_READ = 20
"""Jobs whose history one answer reads, the latest first; later answers read the others."""
_START = "starting on "
"""Words of the transition before the names of nodes (`core.lifecycle.generations.describe_start`)."""


class FirstStarts:
    """The nodes of first starts, read once for each job: they do not change."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, str] = OrderedDict()

    async def name_nodes(
        self, changes: Sequence[Json], read: Callable[[str], Awaitable[Sequence[Transition]]]
    ) -> list[Json]:
        """The changes, with nodes in each `started` that names none. `read`: returns the transitions of a job."""
        unnamed = [each["job"] for each in changes if each["change"] == "started" and not each["message"]]
        try:
            for job_id in [each for each in unnamed if each not in self._kept][:_MAX_READ]:
                self._keep(job_id, await read(job_id))
        except BackendError:
            pass  # the writer of history reports the reason; the names are missing
        named = {job_id: self._kept[job_id] for job_id in unnamed if job_id in self._kept}
        return [
            {**each, "message": named.get(each["job"], "")}
            if each["change"] == "started" and not each["message"]
            else each
            for each in changes
        ]

    def _keep(self, job_id: str, transitions: Sequence[Transition]) -> None:
        self._kept[job_id] = next(
            (each.message.partition(_START)[2] for each in transitions if _START in each.message), ""
        )
        while len(self._kept) > _MAX_KEPT:
            self._kept.popitem(last=False)
