"""`windlass exec`: runs a command in the folder and environment of a rank, or inside its pod."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.cli.completion import complete_job_names
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.named_job import read_job
from windlass.cli.target import resolve_context, state_folder
from windlass.cli.target_options import NamespaceOption, OnOption, StateOption
from windlass.cli.terminal.formatting import state_name
from windlass.server.discovery import open_state
from windlass.server.errors import ApiError, ErrorCode

Json = dict[str, Any]


def exec(
    job: Annotated[str, typer.Argument(help="A name or an id.", autocompletion=complete_job_names)],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND…]", help="Command to run; default: a shell.", show_default=False),
    ] = None,
    rank: Annotated[int, typer.Option("--rank", metavar="R", min=0, help="The rank.")] = 0,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
) -> int:
    """Run a command in the folder and environment of a rank of a running job, or inside its pod.

    Exits with the exit code of the command. The job is not affected.
    """
    context = resolve_context(on, namespace)
    if context is not None:
        from windlass.cli.kubernetes.client import ClusterClient  # noqa: PLC0415 - loads a cluster's libraries
        from windlass.cli.kubernetes.pod_exec import execute_in_pod  # noqa: PLC0415

        cluster = ClusterClient.at(context, namespace)
        return execute_in_pod(cluster.session, cluster.running_pod(job, rank), words or ["sh"])
    records = open_state(state_folder(state))
    details = read_job(records, job)
    records.close()
    forked = _forked_rank(details, rank)
    pid = _pid(details, job, rank) if forked is None else int(forked["pid"])
    variables = {} if forked is None else forked["env"]
    return _run_beside(pid, words or [os.environ.get("SHELL") or "/bin/sh"], variables)


def _forked_rank(details: Json, rank: int) -> Json | None:
    """Returns a rank that an agent has forked; /proc does not show the variables that were set after the fork."""
    ranks = (details.get("progress") or {}).get("ranks", ()) if details.get("phase") == "Running" else ()
    alive = (each for each in ranks if each["rank"] == rank and each.get("env") and each["code"] is None)
    return next((each for each in alive if each["pid"]), None)


def _pid(details: Json, job: str, rank: int) -> int:
    if "members" in details:
        raise UsageError(f"{job} is an array\nname one of its jobs: {details['members'][0]['id']}")
    tasks = [task for task in details["tasks"] if task["rank"] == rank]
    if not tasks:
        raise ApiError(ErrorCode.WRONG_STATE, f"{details['id']} has not started a rank {rank}")
    latest = max(tasks, key=lambda task: int(task["generation"]))
    if latest["code"] is not None or latest["signal"] is not None:
        raise ApiError(ErrorCode.WRONG_STATE, f"rank {rank} of {details['id']} has ended")
    if latest["pid"] is None or details["phase"] != "Running":
        raise ApiError(ErrorCode.WRONG_STATE, f"{details['id']} does not run: its state is {state_name(details)}")
    return int(latest["pid"])


def _run_beside(pid: int, command: list[str], variables: Json) -> int:
    try:
        folder = os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115 - the folder may have been removed
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError as error:
        raise ApiError(ErrorCode.WRONG_STATE, f"process {pid} cannot be inspected: {error.strerror}") from None
    pairs = (os.fsdecode(entry).partition("=") for entry in raw.split(b"\0") if entry)
    try:
        env = {**{name: value for name, _, value in pairs}, **variables}
        done = subprocess.run(command, cwd=folder, env=env, check=False)
    except OSError as error:
        raise UsageError(f"cannot run {command[0]}: {error.strerror}") from None
    except KeyboardInterrupt:
        return ExitCode.CANCELLED
    return done.returncode if done.returncode >= 0 else 128 - done.returncode
