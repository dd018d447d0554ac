"""`windlass notebook`: JupyterLab in the one member of a gang, on this machine or in a pod."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Annotated

import typer

from windlass.cli.current_user import current_user
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.option_values import parse_duration_option
from windlass.cli.options import takes_job_options
from windlass.cli.target import resolve_context, state_folder
from windlass.cli.target_options import NamespaceOption, NoColorOption, OnOption, StateOption
from windlass.cli.terminal.screen import Screen
from windlass.jobs.description.options import RunOptions

_GRACE = "30s"
"""Time to save the workspace after SIGTERM, unless --grace is given."""
_NOT_FOR_NOTEBOOKS = ("nodes", "procs", "mesh", "array", "launcher", "agent", "after")


@takes_job_options
def notebook(
    options: RunOptions,
    idle: Annotated[
        str, typer.Option("--idle", metavar="DURATION", help="End after so long without activity; 0s: never.")
    ] = "1h",
    claim: Annotated[
        str, typer.Option("--claim", metavar="CLAIM", help="On Kubernetes: volume claim for the files.")
    ] = "",
    browser: Annotated[bool, typer.Option("--open", help="Open the notebook in a browser.")] = False,
    on: OnOption = "",
    namespace: NamespaceOption = "",
    state: StateOption = None,
    no_color: NoColorOption = False,
) -> int:
    """Start JupyterLab in a member of a gang, and print its address with a private token.

    A notebook is a job with one replica: `windlass queue` lists it, `windlass cancel` stops it, and it may be
    preempted unless --no-preemptible is given. Its workspace is saved at the end, also after --idle, and is restored
    by the next start under the same --name. For a notebook that runs, prints its address again.

    On this machine it needs a daemon, and the files are in the state folder, or in --workdir. On Kubernetes its image
    contains Windlass and JupyterLab, and a port is forwarded with kubectl until Ctrl-C.
    """
    refuse_gang_options(options)
    idle_ms = parse_duration_option("--idle", idle)
    described = replace(options, grace=options.grace or _GRACE)
    context = resolve_context(on, namespace)
    if context is not None:
        return _in_pod(context, namespace, described, idle_ms, claim, browser=browser, no_color=no_color)
    if claim:
        raise UsageError("--claim is for Kubernetes\nadd --on kubernetes, or name a folder: --workdir DIR")
    from windlass.cli.notebook_job import LocalNotebook  # noqa: PLC0415 - help does not need it

    with contextlib.closing(Screen(no_color=no_color)) as screen:
        named = replace(described, name=options.name or "notebook")
        page = LocalNotebook(state_folder(state), named, idle_ms, screen).start()
        screen.flush()
        page.show(browser=browser)
    return ExitCode.OK


def _in_pod(
    context: str, namespace: str, options: RunOptions, idle_ms: int, claim: str, *, browser: bool, no_color: bool
) -> int:
    """Opens a notebook of a cluster, and forwards a port to it until Ctrl-C."""
    from windlass.cli.kubernetes.client import ClusterClient  # noqa: PLC0415 - loads a cluster's libraries
    from windlass.cli.kubernetes.notebook_objects import default_name  # noqa: PLC0415
    from windlass.cli.kubernetes.notebook_pod import PodNotebook, open_notebook  # noqa: PLC0415

    named = replace(options, name=options.name or default_name(current_user()))
    wanted = PodNotebook(context, named, idle_ms, claim)
    with contextlib.closing(Screen(no_color=no_color)) as screen:
        cluster = ClusterClient.at(context, namespace)
        open_notebook(cluster, wanted, screen, lambda page: page.show(browser=browser))
    return ExitCode.OK


def refuse_gang_options(options: RunOptions) -> None:
    """Raises UsageError for options of gangs with several ranks."""
    given = [name for name in _NOT_FOR_NOTEBOOKS if getattr(options, name)]
    if given:
        raise UsageError(f"a notebook has one rank: it takes no {' and '.join(given)}\nremove it")
