"""The verbs `srun` and `salloc`: a command as the tasks of a job or an allocation, and nodes held for a shell."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windlass import wire
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.target import resolve_context, state_folder
from windlass.cli.unparsed_command import UnparsedCommand

if TYPE_CHECKING:
    from windlass.jobs.description.submission import Submission
    from windlass.jobs.slurm.sbatch_command import SbatchCommand
    from windlass.jobs.syntax.text import Text

_COMMON = """
Options: those of {program}, such as -N, -n, -c, --gres, -t, -p, -J, and
  --state DIR         State folder.
  -Q, --quiet         Print no messages.
  -h, --help          Show this message and exit."""
_SRUN = f"""Usage: windlass srun [OPTIONS] COMMAND [ARGS]...

Run a command as the tasks of a job and follow it to its end; within `windlass salloc` as the tasks of the allocation.
Needs no daemon. Exits with the highest exit code of the tasks. Ctrl-C twice within a second cancels.
{_COMMON.format(program="srun")}
  -l, --label         Begin each line with the number of its task.
  --jobid ID          Run in this allocation.
  --test-only         Print when the job would start, and submit nothing."""
_SALLOC = f"""Usage: windlass salloc [OPTIONS] [COMMAND [ARGS]...]

Hold nodes while a command or your shell runs here, with SLURM_* and WINDLASS_* variables. Needs no daemon.
`srun` and `scontrol` on the PATH of the shell are those of Windlass.
{_COMMON.format(program="salloc")}"""
_NO_TERMINAL = {"--pty": "tasks have no terminal\nopen a shell beside a rank with: windlass exec JOB"}
_REFUSED = {**_NO_TERMINAL, "--multi-prog": "each role has one command\nwrite a job file with roles"}


def _srun(words: list[str]) -> int:
    """Runs a command; see `_SRUN`."""
    # 1. The command line.
    command = _read(words, "srun", _SRUN)
    if command is None:
        return ExitCode.OK
    call = command.call
    for name in call.keys() & _REFUSED.keys():
        raise UsageError(f"srun: {name}: {_REFUSED[name]}")
    if not command.words:
        raise UsageError("srun: no command given to execute\nsee: windlass srun --help")
    labelled = not call.keys().isdisjoint(("-l", "--label"))
    state = _state(call)
    # 2. A step of an allocation.
    if allocation := call.get("--jobid") or os.environ.get(wire.JOB_ID):
        return _run_step(allocation, command, state, labelled=labelled)
    # 3. A job of its own.
    from windlass.cli.slurm.admission_fix import refusals_of_slurm  # noqa: PLC0415
    from windlass.jobs.slurm.sbatch_command import step_script  # noqa: PLC0415

    submission = _submission(step_script(command.words), command)
    if "--test-only" in call:
        from windlass.cli.target import controller_client  # noqa: PLC0415
        from windlass.cli.verbs.slurm_jobs import print_start  # noqa: PLC0415

        return print_start("srun", submission.job, controller_client("", "", state))
    with refusals_of_slurm():
        return _follow(_without_restarts(submission), state, labelled=labelled, quiet="--quiet" in call)


def _read(words: list[str], program: str, text: str) -> SbatchCommand | None:
    """The call of a command line; None after its help was printed."""
    from windlass.jobs.slurm.sbatch_command import SbatchCommandError, read_command  # noqa: PLC0415

    try:
        command = read_command(words, os.environ, program)
    except SbatchCommandError as error:
        raise UsageError(f"{program}: {error}") from None
    if command.call.keys() & {"-h", "--help", "--usage"}:
        print(text)
        return None
    on = command.call.get("--on", os.environ.get("WINDLASS_ON", ""))
    if resolve_context(on, command.call.get("--namespace", "")) is not None:
        verb = "run" if program == "srun" else "alloc"
        raise UsageError(f"{program} runs on this machine\non a cluster: windlass {verb} --on {on or 'CONTEXT'}")
    return command


def _state(call: Mapping[str, str]) -> Path:
    given = call.get("--state") or os.environ.get("WINDLASS_STATE")
    return state_folder(Path(given) if given else None)


def _submission(script: Text, command: SbatchCommand) -> Submission:
    """The job of a script with the options of the command line."""
    from windlass.cli.job_submission import for_this_machine, print_note  # noqa: PLC0415
    from windlass.cli.verbs.slurm_jobs import submissions_of  # noqa: PLC0415
    from windlass.jobs.slurm.imported_job import import_script  # noqa: PLC0415

    job = import_script(script, (), command.options)
    for loss in () if "--quiet" in command.call else job.losses:
        print_note(str(loss))
    [submission] = for_this_machine(submissions_of(job, script.source))
    return submission


def _without_restarts(submission: Submission) -> Submission:
    """The job that ends with its first failure, as a step of srun does."""
    restart = replace(submission.job.restart, infrastructure_limit=0, user_limit=0)
    return replace(submission, job=replace(submission.job, restart=restart))


def _follow(submission: Submission, state: Path, *, labelled: bool, quiet: bool) -> int:
    """Follows the job to its end. Returns the highest exit code of its tasks."""
    from windlass.cli.job_follower import JobFollower, LocalTarget  # noqa: PLC0415
    from windlass.cli.slurm.step_screen import StepInterrupts, StepScreen  # noqa: PLC0415
    from windlass.server.cluster_options import ClusterOptions  # noqa: PLC0415

    screen = StepScreen(labelled=labelled, quiet=quiet)
    with StepInterrupts(screen) as interrupts, contextlib.closing(screen):
        follower = JobFollower(LocalTarget(state, ClusterOptions()), screen, always_cancels=True)
        with contextlib.closing(follower):
            follower.submit([submission])
            code = follower.follow(interrupts)
            return max([code, *_task_codes(follower.connection.job(follower.job_id)["tasks"])]) if code else code


def _task_codes(tasks: Iterable[Mapping[str, Any]]) -> list[int]:
    """Exit codes of tasks that ended by themselves."""
    return [int(task["code"]) for task in tasks if task["code"]]


def _run_step(allocation: str, command: SbatchCommand, state: Path, *, labelled: bool) -> int:
    """Runs the command as tasks of an allocation: one for each replica, or as many as -n says."""
    from windlass.cli.slurm.allocation_step import run_step, select_replicas  # noqa: PLC0415
    from windlass.cli.verbs.slurm_listings import MAX_JOBS, is_named  # noqa: PLC0415
    from windlass.jobs.slurm.option_values import parse_count  # noqa: PLC0415
    from windlass.server.discovery import open_state  # noqa: PLC0415

    with contextlib.closing(open_state(state)) as records:
        rows = records.jobs(limit=MAX_JOBS, fields="id,number,array") if allocation.isdecimal() else ()
        details = records.job(next((row["id"] for row in rows if is_named(row, allocation)), allocation))
    given = {each.name: each.value for each in command.options}
    chosen = select_replicas(details, given.get("--nodes", ""), given.get("--nodelist", ""))
    is_whole = len(chosen["tasks"]) == len(details["tasks"])
    number = given.get("--ntasks", "") or (os.environ.get("SLURM_NTASKS", "") if is_whole else "")
    try:
        tasks = parse_count(number) if number else len(chosen["tasks"])
    except ValueError as error:
        raise UsageError(f"srun: --ntasks {error}") from None
    return run_step(chosen, command.words, tasks, labelled=labelled)


srun = UnparsedCommand("srun", _srun, lambda: _SRUN, help="Run a command as the tasks of a job or an allocation")


def _salloc(words: list[str]) -> int:
    """Holds nodes; see `_SALLOC`."""
    command = _read(words, "salloc", _SALLOC)
    if command is None:
        return ExitCode.OK
    from windlass.cli.job_submission import local_command  # noqa: PLC0415
    from windlass.cli.slurm.admission_fix import refusals_of_slurm  # noqa: PLC0415
    from windlass.cli.slurm.allocation_step import allocation_variables  # noqa: PLC0415
    from windlass.cli.slurm.shell_programs import slurm_programs  # noqa: PLC0415
    from windlass.cli.terminal.screen import Screen  # noqa: PLC0415
    from windlass.cli.verbs.alloc import HOLDER, hold_nodes  # noqa: PLC0415
    from windlass.core.model.job import Launcher  # noqa: PLC0415
    from windlass.jobs.slurm.sbatch_command import step_script  # noqa: PLC0415
    from windlass.server.cluster_options import ClusterOptions  # noqa: PLC0415

    made = _submission(step_script(["interactive"]), command)
    roles = tuple(replace(role, procs=1, command=HOLDER) for role in made.job.roles)
    shell = local_command(command.words or [os.environ.get("SHELL") or "/bin/sh"])
    holder = replace(made, job=replace(made.job, roles=roles, launcher=Launcher.PLAIN))
    with slurm_programs() as programs, refusals_of_slurm():
        variables = partial(allocation_variables, tasks=made.job.world_size, programs=programs)
        return hold_nodes(holder, shell, _state(command.call), ClusterOptions(), Screen(no_color=False), variables)


salloc = UnparsedCommand("salloc", _salloc, lambda: _SALLOC, help="Hold nodes while a shell or a command runs here")
