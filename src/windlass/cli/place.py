"""Where a verb looks: this machine's state folder or a cluster, and how it may paint. Options that every verb takes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from windlass.cli.config_file import configured
from windlass.cli.failures import UsageError

if TYPE_CHECKING:
    from windlass.cli.cluster.cluster import Cluster
    from windlass.server.client import Client
    from windlass.server.offline import Offline

LOCAL, KUBERNETES = "local", "kubernetes"


def _offered(incomplete: str) -> list[str]:
    """What the shell offers after --on. Completion never complains."""
    from windlass.cli.cluster.contexts import contexts  # noqa: PLC0415 - loads the YAML parser

    return [name for name in (LOCAL, KUBERNETES, *contexts()) if name.startswith(incomplete)]


StateOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--state", metavar="DIR", help="State folder.", envvar="WINDLASS_STATE", show_envvar=True),
]
NoColorOption: TypeAlias = Annotated[
    bool, typer.Option("--no-color", help="Plain text; the variable NO_COLOR does the same.")
]
OnOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="local|kubernetes|CONTEXT",
        help="This machine, the current cluster, or a context of the kubeconfig.",
        envvar="WINDLASS_ON",
        show_envvar=True,
        autocompletion=_offered,
    ),
]
NamespaceOption: TypeAlias = Annotated[
    str, typer.Option("-n", "--namespace", metavar="NAMESPACE", help="On Kubernetes; else the context's.")
]

Daemon: TypeAlias = "Client | Cluster"
Told: TypeAlias = "Client | Offline | Cluster"


def context_of(on: str, namespace: str = "") -> str | None:
    """Which cluster is meant: a context, "" for the current one, None for this machine.

    Raises UsageError where a namespace is given to this machine, and JobError for a bad config file.
    """
    chosen = on or configured().on or LOCAL
    if chosen != LOCAL:
        return "" if chosen == KUBERNETES else chosen
    if namespace:
        raise UsageError("this machine has no namespaces\nsay where you mean: --on kubernetes, or --on CONTEXT")
    return None


def daemon_at(on: str, namespace: str, state: Path | None) -> Daemon:
    """Whoever decides there. Raises ApiError NO_DAEMON if nobody does; of a cluster it is seen when it is asked."""
    context = context_of(on, namespace)
    if context is not None:
        return _cluster(context, namespace)
    from windlass.server.attach import daemon_of  # noqa: PLC0415 - help and completion do without

    return daemon_of(state_folder(state))


def source_of(on: str, namespace: str, state: Path | None) -> Told:
    """Whoever can tell: who decides there, else what is on record. Raises ApiError NO_DAEMON if there is neither."""
    context = context_of(on, namespace)
    if context is not None:
        return _cluster(context, namespace)
    from windlass.server.attach import source  # noqa: PLC0415 - as above

    return source(state_folder(state))


def _cluster(context: str, namespace: str) -> Cluster:
    from windlass.cli.cluster.cluster import Cluster  # noqa: PLC0415 - loads a cluster's libraries

    return Cluster.at(context, namespace)


def state_folder(given: Path | None) -> Path:
    """The state folder: as given, else `$XDG_STATE_HOME/windlass`, else `~/.local/state/windlass`."""
    if given is not None:
        return given.expanduser().absolute()
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser().absolute() / "windlass"


def paints(*, no_color: bool) -> bool:
    """Whether stdout shows colours: only a terminal that can, and only if nobody minds (no-color.org)."""
    minds = no_color or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not minds
