"""Runs one agent from its start to its end: creates its parts, handles its signals, decides its exit code.

`ranks.node_ranks` has the ranks; a module of `rendezvous` decides when they start and stop.
"""

from __future__ import annotations

import os
import signal
import socket
import uuid
from pathlib import Path
from typing import Union

from windlass import wire
from windlass.agent import messages
from windlass.agent.agent_folders import create_replica_folder, create_socket_folder
from windlass.agent.event_loop import EventLoop
from windlass.agent.options import CommandLineError, Options, RendezvousOptions
from windlass.agent.parent_settings import ParentSettings, take_settings
from windlass.agent.rank_events import RankEvent, RanksStopped
from windlass.agent.ranks.node_ranks import NodeRanks
from windlass.agent.ranks.output import RankOutput
from windlass.agent.rendezvous.controller_client import ControllerClient, write_termination_message
from windlass.agent.rendezvous.leader import SingleNode
from windlass.agent.rendezvous.multi_node import MultiNode
from windlass.agent.rendezvous.state_machine import EndRun, Peer, RendezvousRules

_SECRET_BYTES = 32
MembershipSource = Union[SingleNode, MultiNode, ControllerClient]
"""The part that decides when this node's ranks start and stop."""


def run(options: Options) -> int:
    """Runs the ranks of this node to the end of the run. Returns the exit code. Raises CommandLineError."""
    for note in options.notes:
        messages.print_message(note)
    try:
        settings = take_settings(os.environ)
    except ValueError as error:
        raise CommandLineError(str(error)) from None
    _make_secret(options)
    with create_socket_folder() as folder, create_replica_folder() as replica_folder:
        return _Agent(options, Path(folder), settings, replica_folder).run()


def _make_secret(options: Options) -> None:
    """Makes the secret of a gang that has no other agent, unless the parent process or the user has made one."""
    if options.rendezvous is None and not os.environ.get(wire.CONTROLLER):
        os.environ.setdefault(wire.GANG_SECRET, os.urandom(_SECRET_BYTES).hex())


class _Agent:
    """One agent: its event loop, its ranks, and the source of its memberships."""

    def __init__(self, options: Options, folder: Path, settings: ParentSettings, replica_memory_dir: str) -> None:
        self._options = options
        self._settings = settings
        self._loop = EventLoop()
        self._output = RankOutput(self._loop, options, messages.console, folder, settings)
        self._loop.on_signals(options.signals, self._on_signal)
        self._ranks = NodeRanks(self._loop, options, self._output, folder, settings, self._on_rank_event)
        self._ranks.processes.replica_memory_dir = replica_memory_dir
        self._ending: EndRun | None = None
        self._end_signal = 0
        """The signal that asked this agent to end."""
        self._had_ranks = False
        """Whether there were ranks when it came."""

    def run(self) -> int:
        try:
            self._source = self._membership_source()
            self._source.begin()
            self._loop.run()
            self._source.leave()
        finally:
            self._ranks.close()
        assert self._ending is not None  # noqa: S101 - the loop ends for no other reason
        return self._exit_code(self._ending)

    def _membership_source(self) -> MembershipSource:
        options = self._options
        try:
            count = self._ranks.processes.count(options.procs)
        except ValueError as error:
            raise CommandLineError(str(error)) from None
        if controller := os.environ.get(wire.CONTROLLER):
            return ControllerClient(self._loop, options, controller, count, self._ranks, self._close)
        node = os.environ.get(wire.NODE) or socket.gethostname()
        me = Peer(uuid.uuid4().hex, node, options.local_addr, 0, count, options.node_rank)
        rules, budget = rendezvous_rules(options, self._settings.budget), self._settings.budget
        if budget is not None:
            me = me._replace(generation=budget.generation)
        rendezvous = options.rendezvous
        if rendezvous is None:
            me = me._replace(address=me.address or "127.0.0.1")
            return SingleNode(self._loop, rules, options.limits, me, self._ranks, self._close)
        return MultiNode(self._loop, options, rendezvous, rules, me, self._ranks, self._close)

    def _on_rank_event(self, event: RankEvent) -> None:
        if self._end_signal:
            self._end_after_signal(event)
        elif self._ending is None:
            self._source.on_rank_event(event)

    def _close(self, ending: EndRun) -> None:
        if self._ending is None:
            self._ending = ending
            self._loop.end()

    # --- signals -----------------------------------------------------------------------------------------

    def _on_signal(self, signum: int) -> None:
        if signum in (signal.SIGUSR1, signal.SIGUSR2):  # they mean nothing to the agent, and may to ranks
            self._ranks.send_signal(signum)
        elif self._end_signal:  # a second signal: do not wait any longer
            self._ranks.send_signal(signal.SIGKILL)
        else:
            self._end_signal, self._had_ranks = signum, self._ranks.has_ranks
            name = signal.Signals(signum).name
            grace = self._options.shutdown_timeout
            messages.print_message(f"{name}: passed on to the ranks, which have {grace:.0f} s")
            self._ranks.stop(self._ranks.generation, name, graceful=True, signum=signum)

    def _end_after_signal(self, event: RankEvent) -> None:
        if isinstance(event, RanksStopped):
            code = event.code if self._had_ranks else -self._end_signal
            self._close(EndRun(code, signal.Signals(self._end_signal).name))

    def _exit_code(self, ending: EndRun) -> int:
        """Exit code of the agent: 1 for each failure, as torchrun, with three exceptions.

        Codes of `wire.RankExitCode` are passed on; so are all codes where the parent process counts failures, and after
        a signal that ends the agent.
        """
        if ending.code and not self._end_signal:
            messages.print_message(f"the run has failed: {ending.reason}")
            write_termination_message(ending.reason)
        if ending.code in set(wire.RankExitCode):
            return int(ending.code)
        is_counted = isinstance(self._source, ControllerClient) or self._settings.budget is not None
        if self._end_signal or is_counted:
            return messages.shell_exit_code(ending.code)
        return 1 if ending.code else 0


def rendezvous_rules(options: Options, budget: wire.RestartBudget | None) -> RendezvousRules:
    """The rules of the command line; with a budget, limits and backoff are those of the parent process."""
    rendezvous = options.rendezvous or RendezvousOptions("", 0, "")
    rules = RendezvousRules(
        min_agents=options.nodes[0] if options.rendezvous else 1,
        max_agents=options.nodes[1] if options.rendezvous else 1,
        max_restarts=options.max_restarts,
        last_call=rendezvous.last_call,
        join_timeout=rendezvous.join_timeout,
        # followers of a lost leader reconnect within this time: after a longer silence they are lost themselves
        settle=min(rendezvous.interval * rendezvous.attempts, rendezvous.join_timeout),
    )
    if budget is None:
        return rules
    return rules._replace(
        max_infrastructure=budget.infrastructure,
        immediate=1,
        backoff_base=budget.backoff_base,
        backoff_max=budget.backoff_max,
        healthy_after=budget.healthy_after,
    )
