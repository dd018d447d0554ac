"""Finding whoever controls a state folder, or becoming it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from windlass.server import numpy_import
from windlass.server.client import Client, no_daemon_error
from windlass.server.cluster_options import ClusterOptions
from windlass.server.errors import ApiError, Code

if TYPE_CHECKING:
    from windlass.server.embedded_controller import EmbeddedController
    from windlass.server.records_client import RecordsClient

_PATIENCE = 20.0
"""Seconds in which whoever has taken the lock must be heard on the socket."""
_PAUSE = 0.02
_GRACE_OF_SUCCESSION = 1.0
"""Seconds in which a controller that was asked to make room leaves the lock to whoever asked."""
LOST = (Code.GONE, Code.NO_DAEMON)

Connection: TypeAlias = "Client | EmbeddedController"
Source: TypeAlias = "Client | RecordsClient"


def find_controller(state: Path) -> Client | None:
    """Whoever answers now, a daemon or a `run`, or None."""
    client = Client(state)
    try:
        client.facts = client.ping()
    except ApiError as error:
        client.close()
        if error.code in LOST:
            return None
        raise
    return client


def find_daemon(state: Path) -> Client:
    """The daemon, which outlives this process. Raises ApiError NO_DAEMON."""
    client = find_controller(state)
    if client is None:
        raise no_daemon_error(FileNotFoundError())
    return client


def open_state(state: Path) -> Source:
    """Whoever controls the folder, else its records. Raises ApiError NO_DAEMON if there is neither."""
    if client := find_controller(state):
        return client
    from windlass.server.records_client import RecordsClient  # noqa: PLC0415 - loads the database's half

    if records := RecordsClient.open(state):
        return records
    raise no_daemon_error(FileNotFoundError())


def find_or_start(
    state: Path, wanted: ClusterOptions, say: Callable[[str], None], *, succeeded: bool = False
) -> Connection:
    """Whoever answers; or, if the folder has no controller, be it. Raises HeldError, WorldError, JobError.

    `succeeded`: this process has just made room for another one, which is given the time to come up.
    """
    began = time.monotonic()
    while True:
        if client := find_controller(state):
            return client
        waited = time.monotonic() - began
        if not succeeded or waited > _GRACE_OF_SUCCESSION:
            house = _become(state, wanted, say, insist=waited > _PATIENCE)
            if house is not None:
                return house
        time.sleep(_PAUSE)


def _become(
    state: Path, wanted: ClusterOptions, say: Callable[[str], None], *, insist: bool
) -> EmbeddedController | None:
    """Take the lock and be the controller; None if somebody else has it, whom `insist` makes an error."""
    from windlass.backends.local import folder_lock, paths, supervisor_start  # noqa: PLC0415 - a daemon's client needs none of it

    folder = paths.prepare(state)
    try:
        held = folder_lock.acquire(folder, "run")
    except folder_lock.HeldError:
        if insist:
            raise
        return None
    link = supervisor_start.start_supervisor(folder)  # it starts while the rest is loaded
    numpy_import.load_numpy()
    from windlass.server.embedded_controller import EmbeddedController  # noqa: PLC0415

    return EmbeddedController(folder.root, wanted, held, link, say)


def describe_mismatch(connection: Connection, wanted: ClusterOptions) -> str:
    """What to tell a person whose cluster is not the one that will be used; "" if it is, or none was asked for."""
    if wanted == ClusterOptions() or not isinstance(connection, Client):
        return ""
    facts = connection.facts
    nodes, gpus = facts["nodes"], facts["capacity"].get("gpu", 0)
    asked = (wanted.nodes or nodes, gpus if wanted.gpus is None else (wanted.nodes or nodes) * wanted.gpus)
    if wanted.file is None and not wanted.policy and asked == (nodes, gpus):
        return ""
    options = {
        "--local-nodes": wanted.nodes,
        "--local-gpus": wanted.gpus,
        "--cluster": wanted.file,
        "--policy": wanted.policy or None,
    }
    ignored = ", ".join(name for name, value in options.items() if value is not None)
    whose = "a daemon" if connection.kind == "up" else "another `windlass run`"
    return f"{whose} runs (pid {facts['pid']}) with {facts['cluster']}: {ignored} ignored"
