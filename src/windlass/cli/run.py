"""`windlass run`: hand a job in and follow it to its end."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated, cast

import typer

from windlass.cli.attend import Attendance, ThisMachine
from windlass.cli.exit_codes import ExitCode
from windlass.cli.failures import UsageError
from windlass.cli.handing import ON_KUBERNETES, facts, here_by_agents, submissions, tell_idle
from windlass.cli.interrupts import Interrupts
from windlass.cli.options import (
    SHIP_ELSEWHERE,
    ClusterOption,
    FileOption,
    GpusOption,
    NodesOption,
    PolicyOption,
    ShipOption,
    ValidateOption,
    Words,
    refuse_nodes_of_ours,
    refuse_validate,
    takes_job_options,
    wanted_of,
)
from windlass.cli.place import NamespaceOption, NoColorOption, OnOption, StateOption, context_of, state_folder
from windlass.cli.screen import Screen
from windlass.jobs.options import RunOptions
from windlass.server.attach import daemon_of, differs

if TYPE_CHECKING:
    from windlass.server.attach import Connection


@takes_job_options
def run(
    options: RunOptions,
    words: Words = None,
    file: FileOption = None,
    detach: Annotated[bool, typer.Option("--detach", help="Do not wait for the end (needs a daemon).")] = False,
    local_nodes: NodesOption = None,
    local_gpus: GpusOption = None,
    cluster: ClusterOption = None,
    policy: PolicyOption = "",
    ship: ShipOption = "",
    validate: ValidateOption = None,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Run a job and follow it to its end; exits as the job does.

    Uses the daemon if one runs, and needs none. Ctrl-C leaves the job to the daemon; without one it cancels the job.
    On Kubernetes the job is an object of its own, and the current folder goes along unless an image is named.
    Options go before --, the command after it: windlass run -N 2 -G 2 -- python train.py --lr 0.1
    """
    context = context_of(on, namespace)
    if context is not None:
        refuse_nodes_of_ours(local_nodes, local_gpus, cluster, policy)
        from windlass.cli.cluster.handing import Given  # noqa: PLC0415 - loads a cluster's libraries
        from windlass.cli.cluster.running import run_there  # noqa: PLC0415

        given = Given(options, words or [], file, ship, validate)
        return run_there(context, namespace, given, detach=detach, no_color=no_color)
    if ship:
        raise UsageError(SHIP_ELSEWHERE)
    refuse_validate(validate, ON_KUBERNETES)
    folder = state_folder(state)
    handed = here_by_agents(submissions(options, words or [], file))
    tell_idle(handed)
    if detach:
        print(*daemon_of(folder).submit(handed, **facts()), sep="\n")
        return ExitCode.OK
    screen = Screen(no_color=no_color)
    wanted = wanted_of(local_nodes, local_gpus, cluster, policy)
    with Interrupts() as interrupts, contextlib.closing(screen):
        attendance = Attendance(ThisMachine(folder, wanted), screen)
        with contextlib.closing(attendance):
            if ignored := differs(cast("Connection", attendance.connection), wanted):
                screen.say(ignored)
            return attendance.run(handed, interrupts)
