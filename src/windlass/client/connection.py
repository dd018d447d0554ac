"""The target of a client, and the threads in which its calls run.

A cluster's session belongs to one thread, and none of an event loop of the program (a notebook has one): calls of a
cluster run one after the other in a thread of their own. Calls of this machine may run side by side.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeAlias, TypeVar

from windlass.cli.target import (
    LOCAL,
    ControllerClient,
    JobController,
    JobSource,
    controller_client,
    is_slurm,
    record_source,
    resolve_context,
    state_folder,
)
from windlass.client.errors import InvalidRequestError, public_errors

if TYPE_CHECKING:
    from windlass.cli.kubernetes.client import ClusterClient
    from windlass.cli.slurm_cluster.client import SlurmClient
    from windlass.server.client import Client as DaemonClient
    from windlass.server.records_client import RecordsClient

    LocalRecords: TypeAlias = DaemonClient | RecordsClient

P = ParamSpec("P")
T = TypeVar("T")
_LOCAL_THREADS = 4


class TargetConnection:
    """A target, selected as on the command line, also by `$WINDLASS_ON` and `$WINDLASS_STATE`.

    It is contacted at the first call.
    """

    def __init__(self, target: str, namespace: str, state: Path | None) -> None:
        with public_errors():
            on = target or os.environ.get("WINDLASS_ON", "")
            self.is_slurm = is_slurm(on, namespace)
            """Whether the target is the Slurm of this login node."""
            self.context = None if self.is_slurm else resolve_context(on, namespace)
            given = os.environ.get("WINDLASS_STATE")
            self.state = state_folder(Path(given) if given and state is None else state)
        self.namespace = namespace
        self._slurm: list[SlurmClient] = []
        """The client of Slurm, once it is needed."""
        self._cluster: list[ClusterClient] = []
        """The client of the cluster, once it has been opened."""
        self._threads = ThreadPoolExecutor(1 if self.is_cluster else _LOCAL_THREADS, "windlass-client")
        self._lock = threading.Lock()
        self._is_closed = False
        self._end = weakref.finalize(self, _close_in_thread, self._threads, self._cluster)

    @property
    def is_cluster(self) -> bool:
        """Whether the target is a cluster."""
        return self.context is not None

    def start(
        self, step: Callable[Concatenate[TargetConnection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Future[T]:
        """Starts a call in a thread of this client; its errors are those of `client.errors`."""

        def work() -> T:
            with public_errors():
                return step(self, *args, **kwargs)

        with self._lock:
            if self._is_closed:
                raise InvalidRequestError("the client is closed", "open a new one")
            return self._threads.submit(work)

    def controller(self) -> ControllerClient:
        """Returns a client of the controller. Raises ApiError NO_DAEMON without a daemon."""
        if self.is_slurm:
            raise InvalidRequestError("Slurm answers no queries about nodes and queues here", "run sinfo or sacctmgr")
        return self.cluster() if self.is_cluster else controller_client(LOCAL, "", self.state)

    def job_controller(self) -> JobController:
        """Returns a client that acts on jobs: of the controller, or of Slurm."""
        return self.slurm() if self.is_slurm else self.controller()

    def records(self) -> JobSource:
        """Returns a client of the controller, else the stored records. Raises ApiError if there is neither."""
        if self.is_slurm:
            return self.slurm()
        return self.cluster() if self.is_cluster else record_source(LOCAL, "", self.state)

    def local_records(self) -> LocalRecords:
        """Returns a client of the daemon, else its stored records. Raises ApiError if there is neither."""
        from windlass.server.discovery import open_state  # noqa: PLC0415 - as in `cli.target`

        return open_state(self.state)

    def slurm(self) -> SlurmClient:
        """Returns the client of Slurm."""
        from windlass.cli.slurm_cluster.client import SlurmClient  # noqa: PLC0415 - rarely needed
        from windlass.client.submission import warn_of  # noqa: PLC0415 - it imports this module

        if not self._slurm:
            self._slurm.append(SlurmClient(warn=warn_of))
        return self._slurm[0]

    def cluster(self) -> ClusterClient:
        """Returns the client of the cluster, opened once. Call it only in the thread of this client."""
        from windlass.cli.kubernetes.client import ClusterClient  # noqa: PLC0415 - loads a cluster's libraries

        if not self._cluster:
            self._cluster.append(ClusterClient.at(self.context or "", self.namespace))
        return self._cluster[0]

    def close(self) -> None:
        """Closes the session with a cluster. Closing again, also at the same time, waits for the same end."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._end()
        self._threads.shutdown()


def _close_in_thread(threads: ThreadPoolExecutor, opened: list[ClusterClient]) -> None:
    """Closes the sessions in the thread to which they belong, at the end of the process in the last one there is.

    The end of a client is found in any thread, also in one whose event loop runs.
    """
    if not opened:
        return
    try:
        threads.submit(_close_all, opened)
    except RuntimeError:  # the threads have ended
        _close_all(opened)


def _close_all(opened: list[ClusterClient]) -> None:
    """Closes the sessions, also at the end of the process; an error of a broken connection is of no interest."""
    while opened:
        with contextlib.suppress(Exception):
            opened.pop().close()
