"""A role of an app of TorchX, and its fields in a job: one process on each replica, as TorchX starts it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from windlass.jobs.syntax.command_line import procs_of, words_of
from windlass.jobs.syntax.names import IMAGE, is_name, valid_name
from windlass.jobs.torchx.ddp_command import direct_torchrun
from windlass.jobs.torchx.macros import command_of


@dataclass(frozen=True, slots=True)
class AppRole:
    """A role. Amounts below 1 are none."""

    name: str
    command: Sequence[str]
    image: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    replicas: int = 1
    min_replicas: int = 0
    max_retries: int = 0
    cpu: int = 0
    gpu: int = 0
    mem_mb: int = 0


def job_fields(name: str, roles: Sequence[AppRole]) -> dict[str, Any]:
    """Fields of the job of an app; those of a single role stand in the job itself."""
    job: dict[str, Any] = {"name": valid_name(name)}
    if retries := max(each.max_retries for each in roles):
        job["restarts"] = retries
    job["launcher"] = "torchrun"
    if len(roles) == 1:
        return {**job, **dict(_fields(roles[0], "nodes"))}
    return {**job, "roles": {valid_name(each.name): dict(_fields(each, "replicas")) for each in roles}}


def _fields(role: AppRole, count: str) -> Iterator[tuple[str, Any]]:
    if 0 < role.min_replicas < role.replicas:
        yield "elastic", {"min": role.min_replicas, "max": role.replicas}
    elif role.replicas > 1:
        yield count, role.replicas
    words = direct_torchrun(list(role.command)) or role.command
    procs = procs_of(words_of(list(words)))
    if procs and procs != max(1, role.gpu):
        yield "procs", procs
    if role.gpu > 0:
        yield "gpus", role.gpu
    if role.cpu > 0:
        yield "cpus", role.cpu
    if role.mem_mb > 0:
        yield "mem", f"{role.mem_mb}Mi"
    if is_name(IMAGE, role.image):
        yield "image", role.image
    command, env = command_of(words, role.env)
    if env:
        yield "env", env
    yield "command", command
