"""The verbs `cancel`, `suspend` and `resume`: act on several jobs and print an answer for each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from windlass.cli.completion import complete_job_names
from windlass.cli.current_user import current_user
from windlass.cli.exit_codes import OF_ERROR, ExitCode
from windlass.cli.target import JobController, job_controller
from windlass.cli.target_options import NamespaceOption, OnOption, StateOption
from windlass.server.errors import error_from_json

_OF_SCHEDULES = {"cancel": "deleted", "suspend": "suspended", "resume": "resumed"}
Jobs = Annotated[list[str], typer.Argument(metavar="JOB…", help="Names or ids.", autocompletion=complete_job_names)]


def cancel(
    jobs: Jobs,
    now: Annotated[bool, typer.Option("--now", help="SIGKILL at once, without the job's grace period.")] = False,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
) -> int:
    """Cancel jobs: SIGTERM, and SIGKILL after the grace period of the job. A schedule is deleted; its runs go on."""
    return _act_on_each("cancel", "is being cancelled", jobs, job_controller(on, namespace, state), now=now)


def suspend(jobs: Jobs, on: OnOption = "", namespace: NamespaceOption = "", state: StateOption = None) -> int:
    """Stop jobs and release their nodes; they stay suspended until `windlass resume`.

    A suspended schedule starts no runs; those that run go on.
    """
    return _act_on_each("suspend", "is being suspended", jobs, job_controller(on, namespace, state))


def resume(jobs: Jobs, on: OnOption = "", namespace: NamespaceOption = "", state: StateOption = None) -> int:
    """Put suspended jobs back at the end of the queue. A schedule starts runs again, from its next time on."""
    return _act_on_each("resume", "is back in the queue", jobs, job_controller(on, namespace, state))


def _act_on_each(verb: str, effect: str, jobs: Sequence[str], daemon: JobController, **how: Any) -> int:
    done = daemon.act_on_all(verb, jobs, by=current_user(), **how)
    for line in done["jobs"]:
        print(f"{line['id']} {effect}")
    for line in done.get("schedules", ()):
        print(f"schedule {line['name']} is {_OF_SCHEDULES[verb]}")
    errors = [error_from_json({"error": error}, 400) for error in done["errors"]]
    for error in errors:
        print(f"windlass: {error}", file=sys.stderr)
    return OF_ERROR[errors[-1].code] if errors else ExitCode.OK
