"""Protocol of what pages show beside the answers of the service: records of jobs that lie elsewhere on each backend."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

Json = dict[str, Any]


class PageSources(Protocol):
    """Findings, checkpoints and output of jobs, and the past of nodes. Methods raise ApiError, BackendError.

    `details`: all details of a job, by `Service.job`.
    """

    async def findings(self, details: Json) -> Json:
        """Findings on the newest failed `attempt`: its `verdict` with evidence or None, and what was `unseen`."""

    async def checkpoints(self, details: Json) -> Json:
        """The `place` of checkpoints, the newest `checkpoints`, whether it `is_remote`, and a `trouble`.

        Of a place that is not read: whether it `is_folder` of the job's pods, and the time (ms) of the newest one.
        """

    async def log(
        self, job_id: str, attempt: int | None, ranks: Sequence[int] | None, after: Mapping[str, int]
    ) -> Json:
        """Lines of one attempt (None: the latest) with the offsets to pass as `after` for what follows."""

    async def node_history(self, node: str, visible: Collection[str] | None) -> list[Json]:
        """Attempts of jobs on a node, newest first. `visible`: only jobs of these namespaces; None: all."""
