"""The verbs `sbatch` and `scancel`: submit and cancel jobs with the habits of Slurm's commands."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from windlass.cli.current_user import current_user
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.job_submission import current_folder, for_this_machine, submission_context
from windlass.cli.target import ControllerClient, controller_client, own_name, resolve_context, state_folder
from windlass.cli.target_options import OnOption, StateOption
from windlass.cli.unparsed_command import UnparsedCommand
from windlass.cli.verbs.slurm_listings import (
    MAX_JOBS,
    LongNamespace,
    Me,
    Partitions,
    States,
    UsersOption,
    names_of,
    parse_states,
)
from windlass.server.errors import error_from_json

if TYPE_CHECKING:
    from windlass.core.model.job import Job
    from windlass.jobs.description.submission import Submission
    from windlass.jobs.imports.imported_job import ImportedJob
    from windlass.jobs.syntax.text import Text


_HELP = """Usage: windlass sbatch [OPTIONS] SCRIPT [ARGS]...

Submit a batch script of Slurm as a job. Needs a daemon or a cluster. Options of the command line win over the
variables SBATCH_*, and these over the #SBATCH lines of the script. Without a script it is read from standard input.

Options: those of sbatch, such as -N, -n, -c, --gres, -t, -p, -J, -a, -d, -H, and
  --parsable          Print the id alone.
  -Q, --quiet         Do not print what the job lacks.
  -W, --wait          Wait for the end of the job, and exit with its exit code.
  --test-only         Print when the job would start, and submit nothing.
  --wrap COMMAND      Submit a command instead of a script.
  --on local|kubernetes|CONTEXT
                      This machine, the current cluster, or a context of the kubeconfig.
  --namespace NAMESPACE
                      On Kubernetes; default: that of the context.
  --state DIR         State folder.
  -h, --help          Show this message and exit."""


def _sbatch(words: list[str]) -> int:
    """Submits the script of a command line; see `_HELP`."""
    from windlass.cli.slurm.admission_fix import refusals_of_slurm  # noqa: PLC0415
    from windlass.cli.slurm.job_dependencies import with_job_ids  # noqa: PLC0415
    from windlass.jobs.slurm.batch_script import read_script  # noqa: PLC0415
    from windlass.jobs.slurm.imported_job import import_script  # noqa: PLC0415
    from windlass.jobs.slurm.sbatch_command import SbatchCommandError, read_command, wrapped_script  # noqa: PLC0415

    # 1. The options of command line and environment.
    try:
        command = read_command(words, os.environ)
    except SbatchCommandError as error:
        raise UsageError(f"sbatch: {error}") from None
    call = command.call
    if call.keys() & {"-h", "--help", "--usage"}:
        print(_HELP)
        return ExitCode.OK
    state = Path(call["--state"]) if "--state" in call else _state_of_environment()
    on, namespace = call.get("--on", os.environ.get("WINDLASS_ON", "")), call.get("--namespace", "")
    # 2. The job of the script.
    text = wrapped_script(call["--wrap"]) if "--wrap" in call else _script_text(command.script)
    options = read_script(text).options + command.options
    after = with_job_ids(options, lambda: _all_jobs(controller_client(on, namespace, state)))
    job = import_script(text, command.words[1:], command.options + after)
    for loss in () if "--quiet" in call else job.losses:
        print(f"windlass: {text.source}: {loss}", file=sys.stderr)
    submissions = submissions_of(job, text.source)
    # 3. Submission.
    if "--test-only" in call:
        return print_start("sbatch", submissions[0].job, controller_client(on, namespace, state))
    with refusals_of_slurm():
        ids = _submit(submissions, resolve_context(on, namespace), namespace, state)
    print(ids[0] if "--parsable" in call else f"Submitted batch job {ids[0]}", flush=True)
    if "--wait" not in call:
        return ExitCode.OK
    from windlass.cli.slurm.job_end import wait_for_end  # noqa: PLC0415 - rarely needed

    with contextlib.closing(controller_client(on, namespace, state).follow(",".join(ids))) as events:
        return wait_for_end(events)


def _script_text(path: str) -> Text:
    """The text of a script, which jobs know by its absolute path; "-": standard input."""
    from windlass.jobs.syntax.text import STDIN, read_text  # noqa: PLC0415

    text = read_text(path)
    return text if path == STDIN else replace(text, source=str(Path(path).absolute()))


def _all_jobs(client: ControllerClient) -> list[dict[str, Any]]:
    """Numbers and ids of all recorded jobs."""
    return client.jobs(all="True", limit=MAX_JOBS, fields="id,number,array,index")


def _state_of_environment() -> Path | None:
    given = os.environ.get("WINDLASS_STATE")
    return Path(given) if given else None


sbatch = UnparsedCommand("sbatch", _sbatch, lambda: _HELP, help="Submit a batch script of Slurm")


def submissions_of(job: ImportedJob, source: str) -> list[Submission]:
    """The job of an imported script, or an array, as it is submitted: its queue is the nearest name of one here."""
    from windlass.jobs.description.job_file import loads  # noqa: PLC0415 - loads the YAML parser
    from windlass.jobs.imports.job_text import job_text  # noqa: PLC0415
    from windlass.jobs.slurm.option_fields import queue_name  # noqa: PLC0415

    read = loads(job_text(job, source), source=f"job of {source}", base=current_folder(), user=current_user())
    return [replace(each, job=replace(each.job, queue=queue_name(each.job.queue))) for each in read]


def _submit(submissions: list[Submission], context: str | None, namespace: str, state: Path | None) -> list[str]:
    """Submits the job to the daemon, or to the cluster of a context. Returns its id."""
    if context is None:
        from windlass.server.discovery import find_daemon  # noqa: PLC0415

        return find_daemon(state_folder(state)).submit(for_this_machine(submissions), **submission_context())
    from windlass.cli.kubernetes.run import submit_read_jobs  # noqa: PLC0415 - loads a cluster's libraries

    return submit_read_jobs(context, namespace, submissions)[0]


def print_start(program: str, job: Job, client: ControllerClient) -> int:
    """Prints when a job would start, on stderr as sbatch and srun do."""
    from windlass.cli.slurm.field_values import slurm_time  # noqa: PLC0415 - loads the core
    from windlass.cli.slurm.start_estimate import estimate_start  # noqa: PLC0415

    start = slurm_time(estimate_start(client.snapshot(), job))
    nodes = "1 node" if job.members == 1 else f"{job.members} nodes"
    print(f"{program}: Job {job.name} to start at {start} on {nodes} in partition {job.queue}", file=sys.stderr)
    return ExitCode.OK


def scancel(
    jobs: Annotated[list[str] | None, typer.Argument(metavar="[JOB]...", help="Ids, numbers or arrays.")] = None,
    user: UsersOption = "",
    me: Me = False,
    name: Annotated[str, typer.Option("-n", "--name", help="Only jobs of this name.")] = "",
    partition: Partitions = "",
    states: States = "",
    on: OnOption = "",
    namespace: LongNamespace = "",
    state: StateOption = None,
) -> int:
    """Cancel jobs by id, or your own by what they have in common, and print nothing, as Slurm's scancel does."""
    user = current_user() if me else user
    if not (jobs or user or name or partition or states):
        raise UsageError("nothing to cancel\nname jobs, or write -u USER, -n NAME, -p QUEUE or -t STATE")
    client = controller_client(on, namespace, state)
    from windlass.cli.slurm.field_values import job_state  # noqa: PLC0415 - loads the core

    wanted = parse_states(states)
    owner = user or ("" if jobs else own_name(on, namespace))
    found = client.jobs(limit=MAX_JOBS, user=owner, name=name, queue=partition)
    living = [row for row in found if not wanted or job_state(row) in wanted]
    words = {each for word in jobs or () for each in _array_tasks(word)}
    # the latest first: a job that waits for another one is cancelled before it fails
    latest = sorted(living, key=lambda row: -int(row["number"]))
    chosen = [row["id"] for row in latest if not words or not words.isdisjoint(names_of(row))]
    unknown = sorted(words.difference(*map(names_of, living)))
    for word in unknown:
        print(f"windlass: Invalid job id specified: {word[:60]}\nwindlass squeue lists jobs", file=sys.stderr)
    done = client.act_on_all("cancel", chosen, by=current_user(), now=False) if chosen else {"errors": []}
    errors = [error_from_json({"error": error}, 400) for error in done["errors"]]
    for error in errors:
        print(f"windlass: {error}", file=sys.stderr)
    return ExitCode.FAILED if errors or unknown else ExitCode.OK


def _array_tasks(word: str) -> list[str]:
    """The tasks of "train-1_[1-3,7]", or the word itself."""
    array, bracket, indexes = word.partition("_[")
    if not bracket or not indexes.endswith("]"):
        return [word]
    from windlass.jobs.syntax.array_indexes import parse_array  # noqa: PLC0415 - rarely needed

    try:
        return [f"{array}_{index}" for index in parse_array(indexes[:-1])[0]]
    except ValueError:
        return [word]
