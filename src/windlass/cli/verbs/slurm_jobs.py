"""The verbs `sbatch` and `scancel`: submit and cancel jobs with the habits of Slurm's commands."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from windlass.cli.current_user import current_user
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import OF_ERROR, ExitCode
from windlass.cli.job_submission import current_folder, for_this_machine, submission_context
from windlass.cli.target import (
    OnOption,
    StateOption,
    controller_client,
    resolve_context,
    state_folder,
)
from windlass.cli.verbs.slurm_listings import (
    MAX_JOBS,
    LongNamespace,
    Partitions,
    States,
    UsersOption,
    is_named,
    parse_states,
)
from windlass.server.errors import error_from_json

if TYPE_CHECKING:
    from windlass.jobs.imports.imported_job import ImportedJob


def sbatch(
    script: Annotated[str, typer.Argument(metavar="SCRIPT", help="A batch script, or - for standard input.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="Arguments of the script; options after --.")
    ] = None,
    parsable: Annotated[bool, typer.Option("--parsable", help="Print the id alone.")] = False,
    queue: Annotated[str, typer.Option("-p", "--partition", help="The queue, instead of the script's partition.")] = "",
    quiet: Annotated[bool, typer.Option("-Q", "--quiet", help="Do not print what the job lacks.")] = False,
    on: OnOption = "",
    namespace: LongNamespace = "",
    state: StateOption = None,
) -> int:
    """Submit a batch script of Slurm as a job: `windlass import` and `windlass submit` in one. Needs a daemon."""
    from windlass.jobs.imports.imported_job import with_queue  # noqa: PLC0415
    from windlass.jobs.slurm.imported_job import import_script  # noqa: PLC0415
    from windlass.jobs.syntax.text import read_text  # noqa: PLC0415

    job = import_script(read_text(script), arguments or [])
    job = with_queue(job, queue) if queue else job
    for loss in () if quiet else job.losses:
        print(f"windlass: {script}: {loss}", file=sys.stderr)
    job_id = _submit(job, script, resolve_context(on, namespace), namespace, state)
    print(job_id if parsable else f"Submitted batch job {job_id}")
    return ExitCode.OK


def _submit(job: ImportedJob, script: str, context: str | None, namespace: str, state: Path | None) -> str:
    """Submits the job to the daemon, or to the cluster of a context. Returns its id."""
    from windlass.jobs.description.job_file import loads  # noqa: PLC0415 - loads the YAML parser
    from windlass.jobs.imports.job_text import job_text  # noqa: PLC0415

    submissions = loads(job_text(job, script), source=f"job of {script}", base=current_folder(), user=current_user())
    if context is None:
        from windlass.server.discovery import find_daemon  # noqa: PLC0415

        return find_daemon(state_folder(state)).submit(for_this_machine(submissions), **submission_context())[0]
    from windlass.cli.kubernetes.run import submit_read_jobs  # noqa: PLC0415 - loads a cluster's libraries

    ids, _ = submit_read_jobs(context, namespace, submissions)
    return ids[0]


def scancel(
    jobs: Annotated[list[str] | None, typer.Argument(metavar="[JOB]...", help="Ids, numbers or arrays.")] = None,
    user: UsersOption = "",
    name: Annotated[str, typer.Option("-n", "--name", help="Only jobs of this name.")] = "",
    partition: Partitions = "",
    states: States = "",
    on: OnOption = "",
    namespace: LongNamespace = "",
    state: StateOption = None,
) -> int:
    """Cancel jobs by id or by what they have in common, and print nothing, as Slurm's scancel does."""
    if not (jobs or user or name or partition or states):
        raise UsageError("nothing to cancel\nname jobs, or write -u USER, -n NAME, -p QUEUE or -t STATE")
    client = controller_client(on, namespace, state)
    from windlass.cli.slurm.field_values import job_state  # noqa: PLC0415 - loads the core

    wanted = parse_states(states)
    found = client.jobs(limit=MAX_JOBS, user=user, name=name, queue=partition)
    living = [row for row in found if not wanted or job_state(row) in wanted]
    words = jobs or []
    chosen = [row["id"] for row in living if not words or any(is_named(row, word) for word in words)]
    unknown = [word for word in words if not any(is_named(row, word) for row in living)]
    for word in unknown:
        print(f"windlass: Invalid job id specified: {word[:60]}\nwindlass squeue lists jobs", file=sys.stderr)
    done = client.act_on_all("cancel", chosen, by=current_user(), now=False) if chosen else {"errors": []}
    errors = [error_from_json({"error": error}, 400) for error in done["errors"]]
    for error in errors:
        print(f"windlass: {error}", file=sys.stderr)
    return OF_ERROR[errors[-1].code] if errors else ExitCode.FAILED if unknown else ExitCode.OK
