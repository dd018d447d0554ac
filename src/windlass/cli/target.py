"""Where a verb looks: this machine's state folder or a cluster, and how it may paint. Options that every verb takes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from windlass.cli.config_file import configured
from windlass.cli.errors import UsageError

if TYPE_CHECKING:
    from windlass.cli.kubernetes.client import ClusterClient
    from windlass.server.client import Client
    from windlass.server.records_client import RecordsClient

LOCAL, KUBERNETES = "local", "kubernetes"


def _offered(incomplete: str) -> list[str]:
    """What the shell offers after --on. Completion never complains."""
    return [name for name in (LOCAL, KUBERNETES, *_kubeconfig_contexts()) if name.startswith(incomplete)]


def _kubeconfig_contexts() -> list[str]:
    """Names of the contexts in `$KUBECONFIG`, file by file; [] where nothing can be read."""
    files = os.environ.get("KUBECONFIG") or "~/.kube/config"
    return list(dict.fromkeys(name for file in files.split(os.pathsep) if file for name in _contexts_in(Path(file))))


def _contexts_in(file: Path) -> list[str]:
    import yaml  # noqa: PLC0415 - only for completion

    try:
        content: Any = yaml.safe_load(file.expanduser().read_text())
        return [str(each["name"]) for each in content["contexts"]]
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError):
        return []


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

ControllerClient: TypeAlias = "Client | ClusterClient"
RecordSource: TypeAlias = "Client | RecordsClient | ClusterClient"


def resolve_context(on: str, namespace: str = "") -> str | None:
    """Which cluster is meant: a context, "" for the current one, None for this machine.

    Raises UsageError where a namespace is given to this machine, and JobError for a bad config file.
    """
    chosen = on or configured().on or LOCAL
    if chosen != LOCAL:
        return "" if chosen == KUBERNETES else chosen
    if namespace:
        raise UsageError("this machine has no namespaces\nsay where you mean: --on kubernetes, or --on CONTEXT")
    return None


def controller_client(on: str, namespace: str, state: Path | None) -> ControllerClient:
    """Whoever decides there. Raises ApiError NO_DAEMON if nobody does; of a cluster it is seen when it is asked."""
    context = resolve_context(on, namespace)
    if context is not None:
        return _cluster(context, namespace)
    from windlass.server.discovery import find_daemon  # noqa: PLC0415 - help and completion do without

    return find_daemon(state_folder(state))


def record_source(on: str, namespace: str, state: Path | None) -> RecordSource:
    """Whoever can tell: who decides there, else what is on record. Raises ApiError NO_DAEMON if there is neither."""
    context = resolve_context(on, namespace)
    if context is not None:
        return _cluster(context, namespace)
    from windlass.server.discovery import open_state  # noqa: PLC0415 - as above

    return open_state(state_folder(state))


def _cluster(context: str, namespace: str) -> ClusterClient:
    from windlass.cli.kubernetes.client import ClusterClient  # noqa: PLC0415 - loads a cluster's libraries

    return ClusterClient.at(context, namespace)


def state_folder(given: Path | None) -> Path:
    """The state folder: as given, else `$XDG_STATE_HOME/windlass`, else `~/.local/state/windlass`."""
    if given is not None:
        return given.expanduser().absolute()
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser().absolute() / "windlass"


def uses_color(*, no_color: bool) -> bool:
    """Whether stdout shows colours: only a terminal that can, and only if nobody minds (no-color.org)."""
    minds = no_color or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not minds


def warn_if_offline(asked: RecordSource) -> None:
    """On stderr, beside what programs read."""
    if asked.kind:
        return
    from windlass.cli.terminal.formatting import format_time  # noqa: PLC0415 - loads the core
    from windlass.server.records_client import RecordsClient  # noqa: PLC0415 - loaded already where `asked` is one

    if isinstance(asked, RecordsClient):
        when = format_time(asked.as_of() or None)
        print(f"as of {when} (no daemon runs; start one with: windlass up -d)", file=sys.stderr)
