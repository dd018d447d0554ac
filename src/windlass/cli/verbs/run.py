"""`windlass run`: submits a job and follows it to its end."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated, cast

import typer

from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.job_follower import JobFollower, LocalTarget
from windlass.cli.job_submission import (
    ON_KUBERNETES,
    check_program,
    for_this_machine,
    read_submissions,
    refuse_schedules,
    submission_context,
)
from windlass.cli.options import (
    SHIP_NEEDS_KUBERNETES,
    ClusterOption,
    CommandArgument,
    FileOption,
    GpusOption,
    NodesOption,
    NoLintOption,
    PolicyOption,
    ShipOption,
    ValidateOption,
    refuse_for_slurm,
    refuse_local_cluster_options,
    refuse_no_lint,
    refuse_validate,
    requested_cluster,
    takes_job_options,
)
from windlass.cli.target import is_slurm, resolve_context, state_folder
from windlass.cli.target_options import NamespaceOption, NoColorOption, OnOption, StateOption
from windlass.cli.terminal.interrupts import Interrupts
from windlass.cli.terminal.screen import Screen
from windlass.jobs.description.options import RunOptions
from windlass.server.discovery import describe_mismatch, find_daemon

if TYPE_CHECKING:
    from windlass.server.discovery import Connection


@takes_job_options
def run(
    options: RunOptions,
    words: CommandArgument = None,
    file: FileOption = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return after submitting (needs a daemon).")] = False,
    local_nodes: NodesOption = None,
    local_gpus: GpusOption = None,
    cluster: ClusterOption = None,
    policy: PolicyOption = "",
    ship: ShipOption = "",
    validate: ValidateOption = None,
    no_lint: NoLintOption = False,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Run a job and follow it to its end; exits with the exit code of the job.

    Uses the daemon if one runs, but needs none. Ctrl-C detaches from a job of the daemon; without a daemon it cancels
    the job. On Kubernetes the job becomes a TrainingJob, and the current folder is sent along unless an image is named.
    Of an array the exit code is that of the failed member with the lowest index.
    Options go before --, the command after it: windlass run -N 2 -G 2 -- python train.py --lr 0.1
    """
    if is_slurm(on, namespace):
        refuse_for_slurm(ship, validate, no_lint=no_lint)
        refuse_local_cluster_options(local_nodes, local_gpus, cluster, policy)
        return _run_on_slurm(options, words or [], file, detach=detach, no_color=no_color)
    context = resolve_context(on, namespace)
    if context is not None:
        refuse_local_cluster_options(local_nodes, local_gpus, cluster, policy)
        from windlass.cli.kubernetes.run import run_on_cluster  # noqa: PLC0415
        from windlass.cli.kubernetes.submission import SubmitRequest  # noqa: PLC0415 - loads a cluster's libraries

        request = SubmitRequest(options, words or [], file, ship, validate, lint=not no_lint)
        return run_on_cluster(context, namespace, request, detach=detach, no_color=no_color)
    if ship:
        raise UsageError(SHIP_NEEDS_KUBERNETES)
    refuse_validate(validate, ON_KUBERNETES)
    refuse_no_lint(ON_KUBERNETES, no_lint=no_lint)
    folder = state_folder(state)
    check_program(options, words or [], file)
    submissions = for_this_machine(read_submissions(options, words or [], file))
    refuse_schedules(submissions, "windlass run")
    if detach:
        print(*find_daemon(folder).submit(submissions, **submission_context()), sep="\n")
        return ExitCode.OK
    screen = Screen(no_color=no_color)
    wanted = requested_cluster(local_nodes, local_gpus, cluster, policy)
    with Interrupts() as interrupts, contextlib.closing(screen):
        follower = JobFollower(LocalTarget(folder, wanted), screen)
        with contextlib.closing(follower):
            if ignored := describe_mismatch(cast("Connection", follower.connection), wanted):
                screen.say(ignored)
            follower.submit(submissions)
            return follower.follow(interrupts)


def _run_on_slurm(options: RunOptions, words: list[str], file: str | None, *, detach: bool, no_color: bool) -> int:
    from windlass.cli.slurm_cluster.run import read_for_slurm, run_on_slurm, submit_to_slurm  # noqa: PLC0415 - rarely needed

    submissions = read_for_slurm(options, words, file)
    if not detach:
        return run_on_slurm(submissions, no_color=no_color)
    print(*submit_to_slurm(submissions), sep="\n")
    return ExitCode.OK
