"""Starts and signals the processes of this node's ranks and of the store, through the fork server.

`environment` gives a rank its variables, `output` its files, `fork_server.client` forks it.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
from pathlib import Path
from typing import Any, Callable

from windlass import wire
from windlass.agent.event_loop import EventLoop
from windlass.agent.fork_server.client import ForkServerClient
from windlass.agent.options import Options
from windlass.agent.ranks import environment
from windlass.agent.ranks.output import RankOutput
from windlass.agent.ranks.rank_table import NodeRank, RankTable
from windlass.agent.ranks.status_file import RankStatusFile
from windlass.wire import RankExitCode

_MAX_LOST_FORK_SERVERS = 3
"""Number of unexpected ends of fork servers after which the run ends."""


class RankProcesses:
    """The processes of this node, by the number that the fork server knows them by (`process_id`).

    Adds the ranks that it forks to `table` and to the status file. Passes events of the fork server to `receive`.
    `socket_path`: path of the socket on which the agent receives messages of its ranks.
    """

    def __init__(
        self,
        loop: EventLoop,
        options: Options,
        output: RankOutput,
        table: RankTable,
        status_file: RankStatusFile,
        socket_path: str,
        receive: Callable[[dict[str, Any]], None],
    ) -> None:
        self._loop, self._options, self._output, self._table = loop, options, output, table
        self._status_file, self._socket_path, self._receive = status_file, socket_path, receive
        self.replica_memory_dir = ""
        """Folder for in-memory checkpoint replicas; "" where there is none."""
        self.torch: str | None = None
        """Version of torch in the fork server, "" without torch; None until the fork server is ready."""
        self._ids = itertools.count(1)
        self._store = 0
        """Process of the store; 0: there is none on this node."""
        self._lost_fork_servers = 0
        self._fork_server = self._start_fork_server()

    def count(self, option: str) -> int:
        """Number of ranks of this node, from --nproc-per-node. Raises ValueError."""
        if option.isdecimal():
            found = option
        elif option == "cpu":
            found = str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
        else:
            found = self._fork_server.count(next(self._ids), option)
        if not found.isdecimal() or int(found) < 1:
            raise ValueError(f"--nproc-per-node {option}: {found if not found.isdecimal() else 'at least 1'}")
        return int(found)

    def fork_rank(self, position: environment.RankPosition, *, survivors: bool) -> None:
        """Starts a rank of the current membership. `survivors`: other ranks survived. Raises OSError, ValueError."""
        membership = self._table.membership
        assert membership is not None  # noqa: S101 - ranks are started for a membership
        files = self._output.open(position.local_rank, position.rank, membership.generation)
        settings = environment.RankSettings(
            run_id=self._options.run_id,
            role=self._options.role,
            max_restarts=self._options.max_restarts,
            agent_store=bool(self.torch),
            socket=self._socket_path,
            dump_dir=str(self.dump_dir),
            virtual_local_rank=self._options.virtual_local_rank,
            replica_memory_dir=self.replica_memory_dir,
            survivors=survivors,
        )
        variables = environment.rank_variables(position, membership, settings, files.error_file, os.environ)
        process_id = next(self._ids)
        self._table.ranks[process_id] = NodeRank(position.rank, files.error_file)
        self._status_file.add_rank(position.rank, variables)
        words = [word.replace("${local_rank}", str(position.local_rank)) for word in self._options.argv]
        self._fork_server.run(process_id, words, self._options.how, {**variables, **_gang_secret()}, files[:3])
        files.close()

    @property
    def dump_dir(self) -> Path:
        """Folder for the diagnostics of this generation's ranks."""
        return self._output.attempt(self._table.generation)

    def host_store(self, listener: socket.socket | None) -> None:
        """Starts the store on this socket; without torch rank 0 listens at its port itself. None: no store here."""
        if listener is not None:
            if self.torch:
                self._store = next(self._ids)
                self._fork_server.store(self._store, listener)
            listener.close()

    def is_store(self, process_id: int) -> bool:
        """Whether a process is that of the store."""
        return process_id == self._store

    def forget_store(self) -> None:
        """Drops the process of the store, which has ended."""
        self._store = 0

    def kill_store(self) -> None:
        """Kills the store, if it is on this node."""
        if self._store:
            self.send_signal([self._store], signal.SIGKILL, group=False)
            self._store = 0

    def send_signal(self, process_ids: list[int], signum: int, *, group: bool) -> None:
        """Sends a signal to processes. `group`: to all processes of their process groups."""
        self._fork_server.send_signal(process_ids, signum, group=group)

    def restart_fork_server(self) -> RankExitCode:
        """Starts another fork server after the loss of one. FATAL, without a start, after too many losses."""
        self._lost_fork_servers += 1
        self.torch = None
        self._store = 0
        if self._lost_fork_servers >= _MAX_LOST_FORK_SERVERS:
            return RankExitCode.FATAL
        self._fork_server = self._start_fork_server()
        return RankExitCode.RETRY

    def close(self) -> None:
        """Ends all processes."""
        self._fork_server.close()

    def _start_fork_server(self) -> ForkServerClient:
        variables = dict(os.environ)
        if "OMP_NUM_THREADS" not in variables and self._options.procs != "1":
            variables["OMP_NUM_THREADS"] = "1"
        python = os.environ.get("PYTHON_EXEC") or os.sys.executable  # type: ignore[attr-defined]
        return ForkServerClient(self._loop, python, variables, self._receive)


def _gang_secret() -> dict[str, str]:
    """The secret of the gang, for a rank: the fork server may be older than it. The rank status file lacks it."""
    secret = os.environ.get(wire.GANG_SECRET)
    return {wire.GANG_SECRET: secret} if secret else {}
