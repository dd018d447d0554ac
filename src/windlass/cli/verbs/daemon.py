"""The verbs `up` and `down`: start and stop the daemon."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from windlass.cli.exit_codes import ExitCode
from windlass.cli.options import requested_cluster
from windlass.cli.target import state_folder
from windlass.cli.target_options import StateOption
from windlass.cli.terminal.formatting import pluralize
from windlass.server.discovery import find_daemon
from windlass.server.errors import ApiError, ErrorCode

_STOP_TIMEOUT_S = 30.0


def up(
    background: Annotated[
        bool, typer.Option("-d", "--detach", help="Run in the background; return once it answers.")
    ] = False,
    local_nodes: Annotated[int | None, typer.Option("--local-nodes", min=1, help="Number of nodes.")] = None,
    local_gpus: Annotated[int | None, typer.Option("--local-gpus", min=0, help="GPUs (or slots) of each node.")] = None,
    cluster: Annotated[Path | None, typer.Option("--cluster", help="Nodes, queues and policy from a file.")] = None,
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="POLICY",
            help="Scheduling policy: fifo, easy, fair, windlass:min-runtime=1m, …",
        ),
    ] = "",
    state: StateOption = None,
) -> int:
    """Start the daemon, which keeps the queue. Its jobs keep running when their terminal closes or the daemon stops.

    Without options it uses the nodes found on this machine or, after a crash, the nodes it had before.
    """
    from windlass.jobs.cluster.cluster_file import load_cluster  # noqa: PLC0415 - loads the YAML parser
    from windlass.jobs.cluster.queues import warnings_of  # noqa: PLC0415
    from windlass.server import daemon  # noqa: PLC0415

    folder, wanted = state_folder(state), requested_cluster(local_nodes, local_gpus, cluster, policy)
    if wanted.file is not None:
        # checked in the foreground: the output of a daemon in the background goes to its log only
        for warning in warnings_of(load_cluster(str(wanted.file)).queues):
            print(f"{wanted.file}: {warning}", file=sys.stderr)
    if background:
        facts = daemon.start(folder, wanted)
        print(f"windlass is up (pid {facts['pid']}) with {facts['cluster']}; state in {facts['state']}")
        return ExitCode.OK
    daemon.serve(folder, wanted, say=_print_message)
    return ExitCode.OK


def down(
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Cancel jobs without asking.")] = False,
    keep_jobs: Annotated[
        bool, typer.Option("--keep-jobs", help="Leave jobs running, for the next `windlass up`.")
    ] = False,
    state: StateOption = None,
) -> int:
    """Stop the daemon. Its jobs are cancelled first, after confirmation, or keep running without it."""
    client = find_daemon(state_folder(state))
    facts = client.ping()
    living = facts["waiting"] + facts["holding"]
    if living and not keep_jobs and not (yes or _confirm(living)):
        print("windlass: nothing was done", file=sys.stderr)
        return ExitCode.FAILED
    left = client.down(keep_jobs=keep_jobs)["jobs"]
    _wait_for_end(state_folder(state))
    keeps = "keep" if len(left) > 1 else "keeps"
    fate = f"{keeps} running" if keep_jobs else "cancelled"
    print(f"windlass is down (pid {facts['pid']})" + (f"; {pluralize(len(left), 'job')} {fate}" if left else ""))
    return ExitCode.OK


def _print_message(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _confirm(living: int) -> bool:
    if not sys.stdin.isatty():
        raise ApiError(
            ErrorCode.WRONG_STATE,
            f"{pluralize(living, 'job')} would be cancelled",
            "add --yes, or --keep-jobs to leave them running",
        )
    return typer.confirm(f"Cancel {pluralize(living, 'job')} and stop the daemon?", err=True)


def _wait_for_end(folder: Path) -> None:
    """Waits until the daemon has released the lock of the state folder."""
    from windlass.backends.local import folder_lock  # noqa: PLC0415
    from windlass.backends.local.paths import StatePaths  # noqa: PLC0415

    until = time.monotonic() + _STOP_TIMEOUT_S
    while folder_lock.read_holder(StatePaths(folder)) is not None and time.monotonic() < until:
        time.sleep(0.02)
