"""Jobs as `squeue --json` prints them, of Slurm 21.08 and newer: checked, with each value of one type.

Newer versions write a number as {"set": …, "infinite": …, "number": …}, and a state as a list with flags.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from windlass.backends.slurm.commands import error_of, printable
from windlass.backends.slurm.errors import SlurmError, SlurmFailure

_UNSET = 4_294_967_294
"""Slurm's NO_VAL; INFINITE is one more."""
_NO_LIMIT = 365 * 24 * 60
"""Minutes that Slurm states for a running job without a limit, of a partition without one."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._+-]")
_TASKS = re.compile(r"[0-9,%:.-]{1,200}")
_PATTERN = re.compile(r"%([0-9]{0,2})([%AajJuxN])")
_GPUS = re.compile(r"gpu(?::[\w.-]+)?[:=]([0-9]{1,6})")
_MEMORY = re.compile(r"mem=([0-9.]{1,12})([KMGT]?)")
_CPUS = re.compile(r"cpu=([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job, a running member of an array, or the waiting members of an array. Times in seconds; None: not yet.

    A heterogeneous job is one, with the nodes of all components.
    """

    number: int
    name: str
    states: frozenset[str]
    """The state and its flags, such as COMPLETED and COMPLETING."""
    array: int = 0
    """Number of the array; 0: no member of one."""
    index: int | None = None
    waiting_indexes: str = ""
    """Waiting members of an array, as "3-9%2"."""
    het_number: int = 0
    """Number of the heterogeneous job of which it is a component; 0: of none."""
    user: str = ""
    partition: str = ""
    reason: str = ""
    dependency: str = ""
    comment: str = ""
    priority: int = 0
    nodes: str = ""
    node_count: int = 1
    tasks: int = 1
    cpus: int = 0
    memory: int = 0
    """Bytes, over all nodes."""
    gpus_per_node: int = 0
    time_limit: int | None = None
    """Minutes."""
    submitted: int = 0
    started: int | None = None
    """Of a waiting job: the expected start."""
    ended: int | None = None
    exit_code: int = 0
    signal: int = 0
    failed_task: str = ""
    """The task whose exit code this is, where another source than Slurm's record names it."""
    restarts: int = 0
    workdir: str = ""
    output: str = ""
    """Path of the standard output."""
    is_accounted: bool = False
    """Whether the accounting alone knows the job, without its ranks; `output` is then Slurm's default path."""

    @property
    def id(self) -> str:
        """The job's id in Windlass: its name and its number, of a member "digits-12_3"."""
        if self.index is not None:
            return f"{self.name}-{self.array}_{self.index}"
        if self.waiting_indexes:
            return f"{self.name}-{self.array}_[{self.waiting_indexes}]"
        return f"{self.name}-{self.number}"

    @property
    def key(self) -> str:
        """The job's number for commands of Slurm."""
        return self.id.rpartition("-")[2] if self.index is not None else str(self.array or self.number)


def parse_jobs(text: str) -> list[SlurmJob]:
    """The jobs in the output of `squeue --json`. Raises SlurmError."""
    try:
        content = json.loads(text)
        errors, jobs = content["errors"], content["jobs"]
        if errors and not jobs:
            raise error_of("squeue", "\n".join(str(each.get("error")) for each in errors))
        return join_components([job_of(each) for each in jobs])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SlurmError(
            SlurmFailure.FAILED,
            "squeue --json printed something else than jobs",
            "install Slurm 21.08 or newer with its plugin serializer/json",
        ) from None


def join_components(jobs: Sequence[SlurmJob]) -> list[SlurmJob]:
    """The jobs with one for each heterogeneous job, which has the number of its first component."""
    components: dict[int, list[SlurmJob]] = {}
    for job in sorted(jobs, key=lambda each: each.number):
        components.setdefault(job.het_number, []).append(job)
    return [
        _joined(job, components[job.het_number]) if job.het_number else job
        for job in jobs
        if job.het_number in (0, job.number)
    ]


def _joined(first: SlurmJob, parts: Sequence[SlurmJob]) -> SlurmJob:
    return replace(
        first,
        nodes=",".join(part.nodes for part in parts if part.nodes),
        node_count=sum(part.node_count for part in parts),
        tasks=sum(part.tasks for part in parts),
        cpus=sum(part.cpus for part in parts),
        memory=sum(part.memory for part in parts),
        gpus_per_node=max(part.gpus_per_node for part in parts),
    )


def job_of(raw: Mapping[str, Any]) -> SlurmJob:
    """The job of one record of `squeue --json`. Raises KeyError without a number."""
    number = _number(raw["job_id"]) or 0
    array = _number(raw.get("array_job_id")) or 0
    waiting = str(raw.get("array_task_string") or "")
    exit_code, signal = _exit(raw.get("exit_code"))
    job = SlurmJob(
        number=number,
        name=job_name(str(raw.get("name") or "")),
        states=_states(raw.get("job_state")),
        array=array,
        index=_number(raw.get("array_task_id")) if array else None,
        waiting_indexes=waiting if array and _TASKS.fullmatch(waiting) else "",
        het_number=_number(raw.get("het_job_id")) or 0,
        user=printable(str(raw.get("user_name") or "")),
        partition=printable(str(raw.get("partition") or "")),
        reason=printable(str(raw.get("state_reason") or "")),
        dependency=printable(str(raw.get("dependency") or "")),
        comment=str(raw.get("comment") or ""),
        priority=_number(raw.get("priority")) or 0,
        nodes=str(raw.get("nodes") or ""),
        node_count=max(1, _number(raw.get("node_count")) or 1),
        tasks=max(1, _number(raw.get("tasks")) or 1),
        cpus=_found(_CPUS, raw.get("tres_req_str")),
        memory=_memory(str(raw.get("tres_req_str") or "")),
        gpus_per_node=_gpus_per_node(raw),
        time_limit=None if _number(raw.get("time_limit")) == _NO_LIMIT else _number(raw.get("time_limit")),
        submitted=_number(raw.get("submit_time")) or 0,
        started=_number(raw.get("start_time")) or None,
        ended=_number(raw.get("end_time")) or None,
        exit_code=exit_code,
        signal=signal,
        restarts=_number(raw.get("restart_cnt")) or 0,
        workdir=str(raw.get("current_working_directory") or ""),
    )
    return replace(job, output=output_path(job, str(raw.get("standard_output") or "")))


def job_name(text: str) -> str:
    """A name of a job as a part of its id."""
    return _NOT_IN_NAMES.sub("-", text)[:200] or "job"


def _number(value: Any) -> int | None:
    if isinstance(value, Mapping):
        value = None if value.get("infinite") or value.get("set") is False else value.get("number")
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value < 2**53 and value not in (_UNSET, _UNSET + 1) else None


def _states(value: Any) -> frozenset[str]:
    return frozenset(printable(str(each)) for each in (value if isinstance(value, list) else [value]))


def _exit(value: Any) -> tuple[int, int]:
    """The exit code and the signal: of a wait status, or of an object of newer versions."""
    if isinstance(value, Mapping):
        signal = value.get("signal")
        return _number(value.get("return_code")) or 0, _number((signal or {}).get("id")) or 0
    status = _number(value) or 0
    return status >> 8 & 0xFF, status & 0x7F


def _gpus_per_node(raw: Mapping[str, Any]) -> int:
    """The GPUs of each node, by the option that requested them."""
    nodes, tasks = (max(1, _number(raw.get(key)) or 1) for key in ("node_count", "tasks"))
    of_node, of_job, of_task = (_found(_GPUS, raw.get(f"tres_per_{part}")) for part in ("node", "job", "task"))
    return of_node or -(-of_job // nodes) or of_task * -(-tasks // nodes)


def _found(pattern: re.Pattern[str], text: Any) -> int:
    found = pattern.search(str(text or ""))
    return int(found[1]) if found else 0


def _memory(text: str) -> int:
    found = _MEMORY.search(text)
    return int(float(found[1]) * 2 ** (10 * " KMGT".index(found[2] or "M"))) if found else 0


def output_path(job: SlurmJob, pattern: str) -> str:
    """The path of a job's output by its pattern ("": Slurm's default), relative to the folder of the job."""
    pattern = pattern or ("slurm-%A_%a.out" if job.index is not None else "slurm-%j.out")
    values = {
        "%": "%",
        "A": str(job.array or job.number),
        "a": "" if job.index is None else str(job.index),
        "j": str(job.number),
        "J": str(job.number),
        "u": job.user,
        "x": job.name,
        "N": job.nodes.partition(",")[0],
    }
    path = _PATTERN.sub(lambda found: values[found[2]].zfill(int(found[1] or 0)), pattern)
    return path if path.startswith("/") else f"{job.workdir}/{path}"
