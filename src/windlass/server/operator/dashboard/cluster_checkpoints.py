"""Checkpoints of a job on a cluster, which the operator does not read: their place, and the age of the newest one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from windlass import wire
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.core.model.job import Job
from windlass.jobs.kubernetes.manifest_reader import ManifestField
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.secret_values import hide_in_command

Json = dict[str, Any]


def describe_checkpoints(job: Job, gang: Gang | None, progress: Mapping[str, Any] | None) -> Json:
    """The answer of `PageSources.checkpoints`. `progress`: of the running job; `gang`: None without an object."""
    newest = (progress or {}).get("checkpoint_at")
    place = checkpoint_place(job, gang)
    return {
        "place": place,
        "is_remote": True,
        "is_folder": bool(place) and "://" not in place,
        "newest_at": None if newest is None else round(newest),
        "trouble": "",
        "checkpoints": [],
    }


def checkpoint_place(job: Job, gang: Gang | None) -> str:
    """The place that the environment of a job names, without passwords; empty if it names none."""
    written = [role.env.get(wire.CHECKPOINTS, "") for role in job.roles]
    found = next(filter(None, (*written, *(_named_places(gang.parsed) if gang is not None else ()))), "")
    return hide_in_command((found,))[0]


def _named_places(parsed: ParsedJob) -> Iterator[str]:
    """Values of the variable in the containers of pod templates."""
    for replicas in parsed.replicas:
        spec = ManifestField(replicas.template, (replicas.type,))["spec"]
        for container in spec["containers"].items():
            for variable in container["env"].items():
                if variable["name"].text() == wire.CHECKPOINTS:
                    yield variable["value"].text()
