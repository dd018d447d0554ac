"""Check of the runtimes that the TrainJobs of a cluster name."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from windlass.backends.kubernetes.client.connection import Connection, list_if_served
from windlass.backends.kubernetes.client.resources import named
from windlass.backends.kubernetes.gangs.stored_state import FIELD
from windlass.backends.kubernetes.served_kinds import RUNTIMES
from windlass.deploy.install.findings import Finding, ok, warning
from windlass.jobs.kubernetes.kinds.registry import TRAINER
from windlass.jobs.kubernetes.status.foreign_status import has_ended
from windlass.jobs.kubernetes.train_runtimes import RUNTIME, TRAIN_JOB

_TRAIN_JOBS = named(TRAINER, "trainjobs", TRAIN_JOB)
_ABOUT = "runtimes"
_FIX = "create them, or windlass operator install --trainer for the standard ones"


async def check_runtimes(connection: Connection, _namespace: str) -> list[Finding]:
    """Finds TrainJobs that wait for a runtime. Another check reports missing kinds."""
    cluster, own, jobs = await asyncio.gather(*(list_if_served(connection, kind) for kind in (*RUNTIMES, _TRAIN_JOBS)))
    return findings_of_runtimes([*cluster, *own], jobs)


def findings_of_runtimes(runtimes: list[Any], jobs: list[Any]) -> list[Finding]:
    """Findings about these runtimes and TrainJobs."""
    there = {(each["metadata"].get("namespace", ""), each["metadata"]["name"]) for each in runtimes}
    waiting = [name for each in jobs if _is_new(each) and (name := _runtime_of(each)) not in there]
    if not waiting:
        return [ok(_ABOUT, f"{len(there)} for TrainJobs")]
    names = sorted({f"{namespace}/{name}" if namespace else name for namespace, name in waiting})
    return [warning(_ABOUT, f"{len(waiting)} TrainJobs wait for {', '.join(names)}", _FIX)]


def _is_new(job: Any) -> bool:
    """Whether neither Windlass nor the trainer has begun with a job."""
    return not has_ended(job) and FIELD not in (job.get("status") or {})


def _runtime_of(job: Mapping[str, Any]) -> tuple[str, str]:
    """The namespace ("" for one of the cluster) and the name of a job's runtime."""
    reference = job["spec"].get("runtimeRef") or {}
    return job["metadata"]["namespace"] if reference.get("kind") == RUNTIME else "", str(reference.get("name"))
