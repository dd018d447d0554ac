"""`windlass exec`: a command beside a rank of a job, with what the rank finds around it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Annotated, Any

import typer

from windlass.cli.completion import complete_job_names
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.target import NamespaceOption, OnOption, StateOption, resolve_context, state_folder
from windlass.cli.terminal.formatting import state_name
from windlass.server.discovery import open_state
from windlass.server.errors import ApiError, Code

Json = dict[str, Any]


def exec(
    job: Annotated[str, typer.Argument(help="A name or an id.", autocompletion=complete_job_names)],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND…]", help="What to run there; else a shell.", show_default=False),
    ] = None,
    rank: Annotated[int, typer.Option("--rank", metavar="R", min=0, help="Beside which rank.")] = 0,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
) -> int:
    """Run a command beside a rank of a job that runs: in its folder and its environment, or inside of its pod.

    Exits as the command does. The job goes on as before.
    """
    context = resolve_context(on, namespace)
    if context is not None:
        from windlass.cli.kubernetes.client import ClusterClient  # noqa: PLC0415 - loads a cluster's libraries
        from windlass.cli.kubernetes.pod_exec import execute_in_pod  # noqa: PLC0415

        cluster = ClusterClient.at(context, namespace)
        return execute_in_pod(cluster.reach, cluster.running(job, rank), words or ["sh"])
    asked = open_state(state_folder(state))
    story = asked.job(job)
    asked.close()
    seen = _seen(story, rank)
    pid = _pid(story, job, rank) if seen is None else int(seen["pid"])
    told = {} if seen is None else seen["env"]
    return _beside(pid, words or [os.environ.get("SHELL") or "/bin/sh"], told)


def _seen(story: Json, rank: int) -> Json | None:
    """A rank that an agent has forked: its own variables are in no file of the system's."""
    ranks = (story.get("progress") or {}).get("ranks", ()) if story.get("phase") == "Running" else ()
    alive = (each for each in ranks if each["rank"] == rank and each.get("env") and each["code"] is None)
    return next((each for each in alive if each["pid"]), None)


def _pid(story: Json, job: str, rank: int) -> int:
    if "members" in story:
        raise UsageError(f"{job} is an array\nname one of its jobs: {story['members'][0]['id']}")
    tasks = [task for task in story["tasks"] if task["rank"] == rank]
    if not tasks:
        raise ApiError(Code.WRONG_STATE, f"{story['id']} has no rank {rank} that was started")
    latest = max(tasks, key=lambda task: int(task["generation"]))
    if latest["code"] is not None or latest["signal"] is not None:
        raise ApiError(Code.WRONG_STATE, f"rank {rank} of {story['id']} has ended")
    if latest["pid"] is None or story["phase"] != "Running":
        raise ApiError(Code.WRONG_STATE, f"{story['id']} does not run: it is {state_name(story)}")
    return int(latest["pid"])


def _beside(pid: int, command: list[str], told: Json) -> int:
    try:
        folder = os.readlink(f"/proc/{pid}/cwd")  # noqa: PTH115 - it may name a folder that is gone
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError as error:
        raise ApiError(Code.WRONG_STATE, f"process {pid} cannot be looked at: {error.strerror}") from None
    pairs = (os.fsdecode(entry).partition("=") for entry in raw.split(b"\0") if entry)
    try:
        done = subprocess.run(
            command, cwd=folder, env={**{name: value for name, _, value in pairs}, **told}, check=False
        )
    except OSError as error:
        raise UsageError(f"cannot run {command[0]}: {error.strerror}") from None
    except KeyboardInterrupt:
        return ExitCode.CANCELLED
    return done.returncode if done.returncode >= 0 else 128 - done.returncode
