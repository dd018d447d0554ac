"""A step of an allocation: tasks that run with the environment of its replicas, as srun starts them within salloc."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

from windlass.cli.errors import UsageError
from windlass.jobs.slurm.hostlist import expand_hosts
from windlass.jobs.slurm.option_values import parse_range
from windlass.server.errors import ApiError, ErrorCode

T = TypeVar("T")
Json = dict[str, Any]
_LOCK = threading.Lock()


def allocation_variables(details: Json, tasks: int, programs: Path) -> dict[str, str]:
    """The SLURM_* variables of a shell in an allocation, and its PATH with the folder of `programs` first."""
    nodes = [str(task["node"]) for task in details["tasks"]]
    names = list(dict.fromkeys(nodes))
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "SLURM_JOB_ID": str(details["number"]),
        "SLURM_JOBID": str(details["number"]),
        "SLURM_JOB_NAME": details["name"],
        "SLURM_JOB_PARTITION": details["queue"],
        "SLURM_JOB_NODELIST": ",".join(names),
        "SLURM_NODELIST": ",".join(names),
        "SLURM_JOB_NUM_NODES": str(len(nodes)),
        "SLURM_NNODES": str(len(nodes)),
        "SLURM_NTASKS": str(tasks),
        "SLURM_SUBMIT_DIR": str(Path.cwd()),
    }


def select_replicas(details: Json, nodes: str, names: str) -> Json:
    """The allocation cut to the replicas that --nodelist names and --nodes counts. Raises UsageError."""
    tasks = details.get("tasks", [])
    if names:
        wanted = set(_read("--nodelist", expand_hosts, names))
        if missing := wanted - {task["node"] for task in tasks}:
            raise UsageError(
                f"srun: node {min(missing)[:60]} is not in the allocation\nscontrol show hostnames lists them"
            )
        tasks = [task for task in tasks if task["node"] in wanted]
    if nodes:
        number = _read("--nodes", parse_range, nodes)[0]
        if number > len(tasks):
            raise UsageError(
                f"srun: More processors requested than permitted: -N {number}\nthere are {len(tasks)} nodes"
            )
        tasks = tasks[:number]
    return {**details, "tasks": tasks}


def _read(option: str, parse: Callable[[str], T], value: str) -> T:
    try:
        return parse(value)
    except ValueError as error:
        raise UsageError(f"srun: {option} {error}") from None


def run_step(details: Json, command: Sequence[str], tasks: int, *, labelled: bool) -> int:
    """Runs a command as so many tasks on the replicas of an allocation, in blocks. Returns the highest exit code.

    Raises ApiError if the job does not run, and UsageError if there are fewer tasks than one.
    """
    holders = [task for task in details.get("tasks", ()) if task["code"] is None and task["signal"] is None]
    if details.get("phase") != "Running" or not holders:
        raise ApiError(ErrorCode.WRONG_STATE, f"{details['id']} holds no nodes", "allocate nodes with: windlass salloc")
    environments = [_task_environment(holders, tasks, number) for number in range(tasks)]
    children = [_start(command, environment, labelled=labelled) for environment in environments]
    readers = [
        threading.Thread(target=_copy, args=(number, source, target))
        for number, child in enumerate(children)
        for source, target in ((child.stdout, sys.stdout), (child.stderr, sys.stderr))
        if source is not None
    ]
    for reader in readers:
        reader.start()
    codes = _wait_for_all(children)
    for reader in readers:
        reader.join()
    return max(codes)


def _task_environment(holders: Sequence[Json], tasks: int, number: int) -> dict[str, str]:
    """The environment of a task: that of its replica, with the numbers of the task."""
    first = [index * tasks // len(holders) for index in range(len(holders) + 1)]
    node = next(index for index in range(len(holders)) if first[index] <= number < first[index + 1])
    try:
        raw = Path(f"/proc/{holders[node]['pid']}/environ").read_bytes()
    except OSError as error:
        raise ApiError(ErrorCode.WRONG_STATE, f"a replica cannot be inspected: {error.strerror}") from None
    pairs = (os.fsdecode(entry).partition("=") for entry in raw.split(b"\0") if entry)
    local, of_node = number - first[node], first[node + 1] - first[node]
    numbers = {
        "RANK": number,
        "LOCAL_RANK": local,
        "WORLD_SIZE": tasks,
        "LOCAL_WORLD_SIZE": of_node,
        "SLURM_PROCID": number,
        "SLURM_LOCALID": local,
        "SLURM_NTASKS": tasks,
        "SLURM_NODEID": node,
        "SLURM_STEP_ID": 0,
        "SLURM_STEP_NUM_TASKS": tasks,
        "SLURMD_NODENAME": holders[node]["node"],
        "SLURM_NNODES": len(holders),
    }
    own = {name: value for name, _, value in pairs}
    slurm = {name: value for name, value in os.environ.items() if name.startswith("SLURM_")}
    return {**own, **slurm, **{name: str(value) for name, value in numbers.items()}}


def _start(command: Sequence[str], environment: Mapping[str, str], *, labelled: bool) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE if labelled else None
    try:
        return subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            text=True,
            errors="replace",
        )
    except OSError as error:
        raise UsageError(f"srun: cannot run {command[0][:60]}: {error.strerror}\ncorrect the command") from None


def _copy(number: int, source: IO[str], target: IO[str]) -> None:
    """Copies lines of a task with its number."""
    for line in source:
        with _LOCK:
            target.write(f"{number}: {line if line.endswith(chr(10)) else line + chr(10)}")
            target.flush()


def _wait_for_all(children: Sequence[subprocess.Popen[str]]) -> list[int]:
    """Exit codes of all tasks; 128 + n for signal n. The tasks get Ctrl-C from the terminal themselves."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        codes = [child.wait() for child in children]
    finally:
        signal.signal(signal.SIGINT, before)
    return [code if code >= 0 else 128 - code for code in codes]
