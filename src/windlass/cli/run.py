"""`windlass run`: hand a job in and follow it to its end."""

from __future__ import annotations

import contextlib
from typing import Annotated

import typer

from windlass.cli.attend import Attendance
from windlass.cli.exit_codes import ExitCode
from windlass.cli.handing import facts, submissions, tell_idle
from windlass.cli.interrupts import Interrupts
from windlass.cli.options import (
    ClusterOption,
    FileOption,
    GpusOption,
    NodesOption,
    PolicyOption,
    Words,
    takes_job_options,
    wanted_of,
)
from windlass.cli.place import NoColorOption, StateOption, state_folder
from windlass.cli.screen import Screen
from windlass.jobs.options import RunOptions
from windlass.server.attach import daemon_of, differs


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
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Run a job and follow it to its end; exits as the job does.

    Uses the daemon if one runs, and needs none. Ctrl-C leaves the job to the daemon; without one it cancels the job.
    Options go before --, the command after it: windlass run -N 2 -G 2 -- python train.py --lr 0.1
    """
    folder = state_folder(state)
    handed = submissions(options, words or [], file)
    tell_idle(handed)
    if detach:
        print(*daemon_of(folder).submit(handed, **facts()), sep="\n")
        return ExitCode.OK
    screen = Screen(no_color=no_color)
    wanted = wanted_of(local_nodes, local_gpus, cluster, policy)
    with Interrupts() as interrupts, contextlib.closing(screen):
        attendance = Attendance(folder, wanted, screen)
        with contextlib.closing(attendance):
            if ignored := differs(attendance.connection, wanted):
                screen.say(ignored)
            return attendance.run(handed, interrupts)
