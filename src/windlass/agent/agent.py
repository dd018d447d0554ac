"""One agent from its beginning to its end: what it consists of, signals, and the exit code."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
import uuid
from pathlib import Path
from typing import Union

from windlass import wire
from windlass.agent import messages, replica_memory
from windlass.agent.event_loop import EventLoop
from windlass.agent.fork_server.client import ROOT
from windlass.agent.launcher_settings import LauncherSettings, take_settings
from windlass.agent.options import OptionError, Options, RendezvousOptions
from windlass.agent.rank_events import RankEvent, RanksStopped
from windlass.agent.ranks.node_ranks import NodeRanks
from windlass.agent.ranks.output import RankOutput
from windlass.agent.rendezvous import state_machine
from windlass.agent.rendezvous.controller_client import ControllerClient, write_termination_message
from windlass.agent.rendezvous.multi_node import MultiNode
from windlass.agent.rendezvous.single_node import SingleNode

_SOCKET_PATHS = 80
"""The kernel takes 107 bytes for a socket's path; this much may be the folder's."""
Source = Union[SingleNode, MultiNode, ControllerClient]
"""Who says when this node's ranks start and stop."""


def run(options: Options) -> int:
    """Until the run is over. Returns the exit code. Raises Refused."""
    for note in options.notes:
        messages.print_message(note)
    try:
        supervised = take_settings(os.environ)
    except ValueError as wrong:
        raise OptionError(str(wrong)) from None
    folder = _folder()
    if len(str(folder)) > _SOCKET_PATHS:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="windlass-agent-", dir="/tmp"))
    try:
        with replica_memory.create_folder() as copies:
            return _Agent(options, folder, supervised, copies).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _folder() -> Path:
    """One for what ranks and agent say to each other; beside the packed agent where nothing else may be written to."""
    try:
        return Path(tempfile.mkdtemp(prefix="windlass-agent-"))
    except FileNotFoundError:
        if not os.path.isfile(ROOT):
            raise
        made = tempfile.mkdtemp(prefix="windlass-agent-", dir=os.path.dirname(ROOT))
        os.environ["TMPDIR"] = made  # ranks have nowhere else either
        return Path(made)


class _Agent:
    def __init__(self, options: Options, folder: Path, supervised: LauncherSettings, copies: str) -> None:
        self._options = options
        self._supervised = supervised
        self._loop = EventLoop()
        self._output = RankOutput(self._loop, options, messages.console, folder, supervised)
        self._loop.on_signals(options.signals, self._signalled)
        self._local = NodeRanks(self._loop, options, self._output, folder, supervised, self._hear)
        self._local.memory = copies
        self._ending: state_machine.EndRun | None = None
        self._asked = 0
        """The signal that this agent was asked to end by."""
        self._had_ranks = False

    def run(self) -> int:
        try:
            self._source = self._new_source()
            self._source.begin()
            self._loop.run()
            self._source.leave()
        finally:
            self._local.close()
        assert self._ending is not None  # noqa: S101 - the loop ends for no other reason
        return self._code(self._ending)

    def _new_source(self) -> Source:
        where = os.environ.get(wire.MEMBERSHIP)
        try:
            ranks = self._local.count(self._options.procs)
        except ValueError as wrong:
            raise OptionError(str(wrong)) from None
        if where:
            return ControllerClient(self._loop, self._options, where, ranks, self._local, self._close)
        me = state_machine.Peer(
            uuid.uuid4().hex, _node_name(), self._options.local_addr, 0, ranks, self._options.node_rank
        )
        rules, forgives = _rules(self._options), self._supervised.forgives
        if forgives is not None:
            me = me._replace(generation=forgives.crew)
            first, most, healthy = forgives.backoff
            rules = rules._replace(machine=forgives.machine, backoff=first, backoff_most=most, healthy=healthy)
        meeting = self._options.meeting
        if meeting is None:
            me = me._replace(address=me.address or "127.0.0.1")
            return SingleNode(self._loop, rules, self._options.limits, me, self._local, self._close)
        return MultiNode(self._loop, self._options, meeting, rules, me, self._local, self._close)

    def _hear(self, event: RankEvent) -> None:
        if self._asked:
            self._leave(event)
        elif self._ending is None:
            self._source.hear(event)

    def _close(self, verdict: state_machine.EndRun) -> None:
        if self._ending is None:
            self._ending = verdict
            self._loop.end()

    # --- asked to end ------------------------------------------------------------------------------------

    def _signalled(self, number: int) -> None:
        if number in (signal.SIGUSR1, signal.SIGUSR2):  # of no meaning to us, maybe to ranks
            self._local.signal(number)
        elif self._asked:  # again: somebody is in a hurry
            self._local.signal(signal.SIGKILL)
        else:
            self._asked, self._had_ranks = number, self._local.has_ranks
            name = signal.Signals(number).name
            grace = self._options.shutdown_timeout
            messages.print_message(f"{name}: passed on to the ranks, which have {grace:.0f} s")
            self._local.halt(self._local.generation, name, planned=True, number=number)

    def _leave(self, event: RankEvent) -> None:
        if isinstance(event, RanksStopped):
            code = event.code if self._had_ranks else -self._asked
            self._close(state_machine.EndRun(code, signal.Signals(self._asked).name))

    def _code(self, verdict: state_machine.EndRun) -> int:
        """Torchrun says 1 for whatever went wrong; here wire's codes, and a signal's that ended us, are passed on."""
        if verdict.code and not self._asked:
            messages.print_message(f"the run has failed: {verdict.why}")
            write_termination_message(verdict.why)
        if verdict.code in set(wire.ExitCode):
            return int(verdict.code)
        if self._asked or isinstance(self._source, ControllerClient):  # which judges whose fault it was
            return messages.shell_exit_code(verdict.code)
        if self._supervised.forgives is not None:  # whoever counts wants to know how it was
            return messages.shell_exit_code(verdict.code)
        return 1 if verdict.code else 0


def _rules(options: Options) -> state_machine.Rules:
    meeting = options.meeting or RendezvousOptions("", 0, "")
    return state_machine.Rules(
        least=options.nodes[0] if options.meeting else 1,
        most=options.nodes[1] if options.meeting else 1,
        max_restarts=options.max_restarts,
        last_call=meeting.last_call,
        join_timeout=meeting.join_timeout,
        settle=meeting.interval * meeting.attempts,
    )


def _node_name() -> str:
    """Name of this node: from the launcher, else the host name."""
    return os.environ.get(wire.NODE) or socket.gethostname()
