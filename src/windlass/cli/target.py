"""Finds where a subcommand or a `Client` works: the local daemon, a cluster or a Slurm. Loads no typer."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from windlass.cli.config_file import configured
from windlass.cli.current_user import current_user
from windlass.cli.errors import UsageError
from windlass.server.errors import NO_DAEMON, START_DAEMON

if TYPE_CHECKING:
    from windlass.cli.kubernetes.client import ClusterClient
    from windlass.cli.slurm_cluster.client import SlurmClient
    from windlass.server.client import Client
    from windlass.server.records_client import RecordsClient

_SLURM_VERBS = "run, submit, queue, history, status, why, logs, cancel, suspend, resume"
LOCAL, KUBERNETES, SLURM = "local", "kubernetes", "slurm"


ControllerClient: TypeAlias = "Client | ClusterClient"
RecordSource: TypeAlias = "Client | RecordsClient | ClusterClient"
JobController: TypeAlias = "ControllerClient | SlurmClient"
JobSource: TypeAlias = "RecordSource | SlurmClient"


def is_slurm(on: str, namespace: str = "") -> bool:
    """Whether the target is the Slurm of this login node. Raises UsageError if a namespace is given for it."""
    if (on or configured().on) != SLURM:
        return False
    if namespace:
        raise UsageError("Slurm has no namespaces\nremove -n, or select a cluster: --on kubernetes, or --on CONTEXT")
    return True


def resolve_context(on: str, namespace: str = "") -> str | None:
    """Returns the context of the target cluster, "" for the current context, None for this machine.

    Raises UsageError if a namespace is given for this machine, or for Slurm, which only the verbs know that call
    `is_slurm` first, and InputError for a bad config file.
    """
    chosen = on or configured().on or LOCAL
    if chosen == SLURM:
        raise UsageError(f"this verb does not work on Slurm; these do: {_SLURM_VERBS}\nselect another target with --on")
    if chosen != LOCAL:
        return "" if chosen == KUBERNETES else chosen
    if namespace:
        raise UsageError("this machine has no namespaces\nselect a cluster: --on kubernetes, or --on CONTEXT")
    return None


def controller_client(on: str, namespace: str, state: Path | None) -> ControllerClient:
    """Returns a client of the controller. Raises ApiError NO_DAEMON without a daemon.

    A cluster is contacted only at the first call.
    """
    context = resolve_context(on, namespace)
    if context is not None:
        return _cluster(context, namespace)
    from windlass.server.discovery import find_daemon  # noqa: PLC0415 - help and completion do not need it

    return find_daemon(state_folder(state))


def own_name(on: str, namespace: str) -> str:
    """Returns the user's name as the controller knows it: on a cluster that of the API server."""
    context = resolve_context(on, namespace)
    return current_user() if context is None else _cluster(context, namespace).user() or current_user()


def record_source(on: str, namespace: str, state: Path | None) -> RecordSource:
    """Returns a client of the controller, else the stored records. Raises ApiError NO_DAEMON if there is neither."""
    context = resolve_context(on, namespace)
    if context is not None:
        return _cluster(context, namespace)
    from windlass.server.discovery import open_state  # noqa: PLC0415 - as above

    return open_state(state_folder(state))


def job_controller(on: str, namespace: str, state: Path | None) -> JobController:
    """Returns a client that acts on jobs: of a controller as `controller_client`, or of Slurm."""
    return _slurm() if is_slurm(on, namespace) else controller_client(on, namespace, state)


def job_source(on: str, namespace: str, state: Path | None) -> JobSource:
    """Returns a client for queries about jobs: as `record_source`, or of Slurm."""
    return _slurm() if is_slurm(on, namespace) else record_source(on, namespace, state)


def _slurm() -> SlurmClient:
    from windlass.cli.slurm_cluster.client import SlurmClient  # noqa: PLC0415 - rarely needed

    return SlurmClient()


def _cluster(context: str, namespace: str) -> ClusterClient:
    from windlass.cli.kubernetes.client import ClusterClient  # noqa: PLC0415 - loads a cluster's libraries

    return ClusterClient.at(context, namespace)


def state_folder(given: Path | None) -> Path:
    """Returns the state folder: the given one, else `windlass` in `$XDG_STATE_HOME` or `~/.local/state`."""
    if given is not None:
        return given.expanduser().absolute()
    base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(base).expanduser().absolute() / "windlass"


def uses_color(*, no_color: bool) -> bool:
    """Whether stdout gets colors: only a capable terminal, and only without --no-color and NO_COLOR (no-color.org)."""
    plain = no_color or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def warn_if_offline(source: JobSource) -> None:
    """Prints on stderr how old the stored records are if they answer in place of a daemon."""
    if source.kind:
        return
    from windlass.cli.terminal.formatting import format_time  # noqa: PLC0415 - loads the core
    from windlass.server.records_client import RecordsClient  # noqa: PLC0415 - loaded already if `source` is one

    if isinstance(source, RecordsClient):
        when = format_time(source.as_of() or None)
        print(f"as of {when} ({NO_DAEMON}; {START_DAEMON})", file=sys.stderr)
