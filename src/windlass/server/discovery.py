"""Discovery of the controller of a state folder, or start of one in this process."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from windlass.server import numpy_import
from windlass.server.client import Client, no_daemon_error
from windlass.server.cluster_options import ClusterOptions
from windlass.server.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from windlass.server.embedded_controller import EmbeddedController
    from windlass.server.records_client import RecordsClient

_SOCKET_TIMEOUT_S = 20.0
"""Seconds that a process which holds the lock has to answer on the socket."""
_POLL_INTERVAL_S = 0.02
_SUCCESSION_DELAY_S = 1.0
"""Seconds for which a controller that has released the lock on request does not take it again."""
LOST = (ErrorCode.GONE, ErrorCode.NO_DAEMON)

Connection: TypeAlias = "Client | EmbeddedController"
Source: TypeAlias = "Client | RecordsClient"


def find_controller(state: Path) -> Client | None:
    """A client of the daemon or `run` that answers, or None."""
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
    """A client of the daemon, which outlives this process. Raises ApiError NO_DAEMON."""
    client = find_controller(state)
    if client is None:
        raise no_daemon_error(FileNotFoundError())
    return client


def open_state(state: Path) -> Source:
    """A client of the folder's controller, else of its records. Raises ApiError NO_DAEMON if there is neither."""
    if client := find_controller(state):
        return client
    from windlass.server.records_client import RecordsClient  # noqa: PLC0415 - loads the database

    if records := RecordsClient.open(state):
        return records
    raise no_daemon_error(FileNotFoundError())


def find_or_start(
    state: Path, options: ClusterOptions, say: Callable[[str], None], *, succeeded: bool = False
) -> Connection:
    """The controller of a folder: a client of a running one, or one started in this process.

    `succeeded`: this process has just released the lock to another one, and gives it time to start. Raises HeldError,
    BackendError, InputError.
    """
    began = time.monotonic()
    while True:
        if client := find_controller(state):
            return client
        waited = time.monotonic() - began
        if not succeeded or waited > _SUCCESSION_DELAY_S:
            server = _start_controller(state, options, say, insist=waited > _SOCKET_TIMEOUT_S)
            if server is not None:
                return server
        time.sleep(_POLL_INTERVAL_S)


def _start_controller(
    state: Path, options: ClusterOptions, say: Callable[[str], None], *, insist: bool
) -> EmbeddedController | None:
    """Takes the lock and starts a controller. If another process holds the lock: None, or HeldError with `insist`."""
    from windlass.backends.local import folder_lock, paths, supervisor_start  # noqa: PLC0415 - a daemon's client needs none of it

    folder = paths.prepare_folder(state)
    try:
        held = folder_lock.acquire_lock(folder, "run")
    except folder_lock.HeldError:
        if insist:
            raise
        return None
    link = supervisor_start.start_supervisor(folder)  # it starts while other modules are loaded
    numpy_import.load_numpy()
    from windlass.server.embedded_controller import EmbeddedController  # noqa: PLC0415

    return EmbeddedController(folder.root, options, held, link, say)


def describe_mismatch(connection: Connection, options: ClusterOptions) -> str:
    """Warning that the running controller ignores these cluster options; empty if it matches them."""
    if options == ClusterOptions() or not isinstance(connection, Client):
        return ""
    facts = connection.facts
    nodes, gpus = facts["nodes"], facts["capacity"].get("gpu", 0)
    requested = (options.nodes or nodes, gpus if options.gpus is None else (options.nodes or nodes) * options.gpus)
    if options.file is None and not options.policy and requested == (nodes, gpus):
        return ""
    flags = {
        "--local-nodes": options.nodes,
        "--local-gpus": options.gpus,
        "--cluster": options.file,
        "--policy": options.policy or None,
    }
    ignored = ", ".join(name for name, value in flags.items() if value is not None)
    controller = "a daemon" if connection.kind == "up" else "another `windlass run`"
    return f"{controller} runs (pid {facts['pid']}) with {facts['cluster']}: {ignored} ignored"
