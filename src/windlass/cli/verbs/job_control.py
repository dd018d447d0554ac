"""`cancel`, `suspend`, `resume`: several jobs at a time, each with its own answer."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from windlass.cli.completion import complete_job_names
from windlass.cli.exit_codes import OF_ERROR, ExitCode
from windlass.cli.job_submission import current_user
from windlass.cli.target import ControllerClient, NamespaceOption, OnOption, StateOption, controller_client
from windlass.server.errors import error_from_json

Jobs = Annotated[list[str], typer.Argument(metavar="JOB…", help="Names or ids.", autocompletion=complete_job_names)]


def cancel(
    jobs: Jobs,
    now: Annotated[bool, typer.Option("--now", help="SIGKILL at once, without the job's grace.")] = False,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
) -> int:
    """End jobs: SIGTERM, and SIGKILL after their grace."""
    return _each("cancel", "is being cancelled", jobs, controller_client(on, namespace, state), now=now)


def suspend(jobs: Jobs, on: OnOption = "", namespace: NamespaceOption = "", state: StateOption = None) -> int:
    """Take jobs off their nodes; their place is kept on record until `windlass resume`."""
    return _each("suspend", "is being suspended", jobs, controller_client(on, namespace, state))


def resume(jobs: Jobs, on: OnOption = "", namespace: NamespaceOption = "", state: StateOption = None) -> int:
    """Put suspended jobs back into the queue, at its end."""
    return _each("resume", "is back in the queue", jobs, controller_client(on, namespace, state))


def _each(verb: str, said: str, jobs: Sequence[str], daemon: ControllerClient, **how: Any) -> int:
    done = daemon.act_on_all(verb, jobs, by=current_user(), **how)
    for line in done["jobs"]:
        print(f"{line['id']} {said}")
    errors = [error_from_json({"error": error}, 400) for error in done["errors"]]
    for error in errors:
        print(f"windlass: {error}", file=sys.stderr)
    return OF_ERROR[errors[-1].code] if errors else ExitCode.OK
