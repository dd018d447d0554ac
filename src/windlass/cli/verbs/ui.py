"""`windlass ui`: opens the dashboard in a browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from typing import Annotated

import typer

from windlass.cli.config_file import configured
from windlass.cli.errors import UsageError
from windlass.cli.exit_codes import ExitCode
from windlass.cli.target import resolve_context, state_folder
from windlass.cli.target_options import OnOption, StateOption
from windlass.server.dashboard.listener import DEFAULT_PORT


def ui(
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=0,
            max=65_535,
            help=f"Port on this machine; 0: any free one. Default: the last one, or {DEFAULT_PORT}.",
            show_default=False,
        ),
    ] = None,
    allow_actions: Annotated[
        bool,
        typer.Option("--allow-actions", help="Pages may cancel, suspend and resume jobs. Default: they only read."),
    ] = False,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open a browser, or only print the address.")
    ] = True,
    on: OnOption = "",
    state: StateOption = None,
) -> int:
    """Open the dashboard: capacity, queue, jobs with their ranks, nodes, fair shares, history.

    With --on CONTEXT, that of a cluster: forwards a port to its operator with kubectl until Ctrl-C, and signs in with
    the token of the kubeconfig's user. A user with a certificate pastes a token on the page instead.

    Prints an address that works once, within two minutes, on this machine; the browser that opens it stays
    signed in for twelve hours. Starts the daemon if none runs. The port is chosen by the first call.
    """
    context = resolve_context(on)
    if context is not None:
        if allow_actions:
            raise UsageError("a cluster's operator decides about actions: windlass operator run --dashboard-actions")
        return _forward(context, DEFAULT_PORT if port is None else port, browser=browser)
    from windlass.server import daemon, discovery  # noqa: PLC0415 - help does not need them
    from windlass.server.cluster_options import ClusterOptions  # noqa: PLC0415

    folder = state_folder(state)
    client = discovery.find_controller(folder)
    if client is None:
        facts = daemon.start(folder, ClusterOptions())
        print(f"windlass is up (pid {facts['pid']}) with {facts['cluster']}", file=sys.stderr)
        client = discovery.find_daemon(folder)
    address = client.open_dashboard(port=port, may_act=allow_actions)
    _show(address, browser=browser)
    return ExitCode.OK


def _forward(context: str, port: int, *, browser: bool) -> int:
    """Forwards a port to the dashboard of a cluster until Ctrl-C."""
    from windlass.cli.kubernetes.dashboard_forward import forward_dashboard  # noqa: PLC0415 - a cluster's libraries
    from windlass.jobs.kubernetes.operator_names import NAMESPACE  # noqa: PLC0415 - for a cluster

    operator = configured().operator
    namespace = operator.rpartition("/")[0] if "://" not in operator else ""
    forward_dashboard(context, namespace or NAMESPACE, port, lambda address: _show(address, browser=browser))
    return ExitCode.OK


def _show(address: str, *, browser: bool) -> None:
    print(address, flush=True)
    if browser and _has_display():
        webbrowser.open(address)


def _has_display() -> bool:
    """Whether a browser could show a window; a text browser in this terminal is not wanted."""
    return sys.stdout.isatty() and (
        sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    )
