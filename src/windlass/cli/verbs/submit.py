"""`windlass submit`: submits jobs and prints their ids."""

from __future__ import annotations

from typing import Annotated

import typer

from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.job_submission import (
    ON_KUBERNETES,
    check_program,
    for_this_machine,
    read_submissions,
    submission_context,
)
from windlass.cli.options import (
    SHIP_NEEDS_KUBERNETES,
    CommandArgument,
    FileOption,
    NoLintOption,
    ShipOption,
    ValidateOption,
    refuse_for_slurm,
    refuse_no_lint,
    refuse_validate,
    takes_job_options,
)
from windlass.cli.target import controller_client, is_slurm, resolve_context, state_folder
from windlass.cli.target_options import NamespaceOption, OnOption, StateOption
from windlass.cli.terminal.output import Format, FormatOption, as_json, as_json_line, as_yaml
from windlass.jobs.description.options import RunOptions
from windlass.server.discovery import find_daemon


@takes_job_options
def submit(
    options: RunOptions,
    words: CommandArgument = None,
    file: FileOption = None,
    schedule: Annotated[
        str, typer.Option("--from", metavar="SCHEDULE", help="Start a run of this schedule at once.")
    ] = "",
    output: FormatOption = Format.TABLE,
    ship: ShipOption = "",
    validate: ValidateOption = None,
    no_lint: NoLintOption = False,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
) -> int:
    """Submit a job, an array or a file of jobs, all or none, and print their ids. Needs a daemon or a cluster.

    With --cron the job is a schedule, which is submitted again at each of its times; its name is printed. On Kubernetes
    it is a CronTrainingJob, and a CronJob where the cluster lacks that kind.
    """
    if schedule:
        _refuse_job(options, words, file)
        if is_slurm(on, namespace):
            raise UsageError("--from: Slurm has no schedules, it repeats scripts with scrontab\nleave out --from")
        _print_ids(controller_client(on, namespace, state).run_schedule(schedule), output)
        return ExitCode.OK
    if is_slurm(on, namespace):
        refuse_for_slurm(ship, validate, no_lint=no_lint)
        from windlass.cli.slurm_cluster.run import read_for_slurm, submit_to_slurm  # noqa: PLC0415 - rarely needed

        _print_ids(submit_to_slurm(read_for_slurm(options, words or [], file)), output)
        return ExitCode.OK
    context = resolve_context(on, namespace)
    if context is not None:
        from windlass.cli.kubernetes.run import submit_to_cluster  # noqa: PLC0415
        from windlass.cli.kubernetes.submission import SubmitRequest  # noqa: PLC0415 - loads a cluster's libraries

        ids, code = submit_to_cluster(
            context, namespace, SubmitRequest(options, words or [], file, ship, validate, lint=not no_lint)
        )
        _print_ids(ids, output)
        return code
    if ship:
        raise UsageError(SHIP_NEEDS_KUBERNETES)
    refuse_validate(validate, ON_KUBERNETES)
    refuse_no_lint(ON_KUBERNETES, no_lint=no_lint)
    check_program(options, words or [], file)
    submissions = for_this_machine(read_submissions(options, words or [], file))
    _print_ids(find_daemon(state_folder(state)).submit(submissions, **submission_context()), output)
    return ExitCode.OK


def _refuse_job(options: RunOptions, words: list[str] | None, file: str | None) -> None:
    """Raises UsageError if a job is given beside the schedule whose job is started."""
    if options != RunOptions() or words or file:
        raise UsageError("--from starts the job of a schedule\nleave out the other options and the command")


def _print_ids(ids: list[str], output: Format) -> None:
    if output is Format.JSON:
        print(as_json(ids))
    elif output is Format.JSONL:
        print(*map(as_json_line, ids), sep="\n")
    elif output is Format.YAML:
        print(as_yaml(ids), end="")
    else:
        print(*ids, sep="\n")
