"""Fields of a job as keyword arguments: those of a job file, with the same names and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, TypedDict


class JobFields(TypedDict, total=False):
    """Fields of a job; the reference of job files describes each. Values are written as there: `time="1h30m"`."""

    name: str
    nodes: int
    elastic: Mapping[str, int]
    gpus: int
    gpu_share: float | str
    mig: str
    gpu_type: Sequence[str]
    procs: int
    mesh: str
    cpus: float | str
    mem: int | str
    env: Mapping[str, str]
    image: str
    pod: Mapping[str, Any]
    network: str
    selector: Mapping[str, str]
    whole_node: bool
    affinity: Sequence[str]
    tolerations: Sequence[Mapping[str, str]]
    topology: Mapping[str, Any]
    avoid: Sequence[str]
    preemptible: bool
    roles: Mapping[str, Any]
    launcher: str
    agent: str
    workdir: str | PathLike[str]
    queue: str
    priority: int
    time: str
    deadline: str
    start_timeout: str
    unreachable_grace: str
    ttl: str
    grace: str
    restarts: int
    restart: Mapping[str, Any]
    array: str
    after: Sequence[str]
    begin: str
    suspend: bool
    labels: Mapping[str, str]


class ScheduleFields(JobFields, total=False):
    """Fields of a job that is submitted again: those of a job, and those of its times beside `cron`."""

    time_zone: str
    cron_policy: str
    cron_deadline: str
    cron_keep: int
    cron_keep_failed: int
