"""One agent from its beginning to its end: what it consists of, signals, and the exit code."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import uuid
from pathlib import Path
from typing import Union

from windlass import wire
from windlass.agent import crew, memory, story
from windlass.agent.alone import Alone
from windlass.agent.controlled import TCP, Controlled, last_words
from windlass.agent.fork_server import ROOT
from windlass.agent.local import Gone, Local, Report
from windlass.agent.loop import Loop
from windlass.agent.options import Meeting, Options, Refused
from windlass.agent.output import Output
from windlass.agent.published import Published, node_name
from windlass.agent.supervised import Supervised, taken
from windlass.agent.together import Together

_SOCKET_PATHS = 80
"""The kernel takes 107 bytes for a socket's path; this much may be the folder's."""
Source = Union[Alone, Together, Published, Controlled]
"""Who says when this node's ranks start and stop."""


def run(options: Options) -> int:
    """Until the run is over. Returns the exit code. Raises Refused."""
    for note in options.notes:
        story.say(note)
    try:
        supervised = taken(os.environ)
    except ValueError as wrong:
        raise Refused(str(wrong)) from None
    folder = _folder()
    if len(str(folder)) > _SOCKET_PATHS:
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="windlass-agent-", dir="/tmp"))
    try:
        with memory.folder() as copies:
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
    def __init__(self, options: Options, folder: Path, supervised: Supervised, copies: str) -> None:
        self._options = options
        self._supervised = supervised
        self._loop = Loop()
        self._output = Output(self._loop, options, story.console, folder, supervised)
        self._loop.on_signals(options.signals, self._signalled)
        self._local = Local(self._loop, options, self._output, folder, supervised, self._hear)
        self._local.memory = copies
        self._ending: crew.Close | None = None
        self._asked = 0
        """The signal that this agent was asked to end by."""

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
        if where and not where.startswith(TCP):
            return Published(self._loop, where, node_name(), self._local, self._close)
        try:
            ranks = self._local.count(self._options.procs)
        except ValueError as wrong:
            raise Refused(str(wrong)) from None
        if where:
            return Controlled(self._loop, self._options, where, ranks, self._local, self._close)
        me = crew.Peer(uuid.uuid4().hex, node_name(), self._options.local_addr, 0, ranks, self._options.node_rank)
        rules, forgives = _rules(self._options), self._supervised.forgives
        if forgives is not None:
            me = me._replace(generation=forgives.crew)
            first, most, healthy = forgives.backoff
            rules = rules._replace(machine=forgives.machine, backoff=first, backoff_most=most, healthy=healthy)
        meeting = self._options.meeting
        if meeting is None:
            me = me._replace(address=me.address or "127.0.0.1")
            return Alone(self._loop, rules, self._options.limits, me, self._local, self._close)
        return Together(self._loop, self._options, meeting, rules, me, self._local, self._close)

    def _hear(self, report: Report) -> None:
        if self._asked:
            self._leave(report)
        elif self._ending is None:
            self._source.hear(report)

    def _close(self, verdict: crew.Close) -> None:
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
            self._asked = number
            name = signal.Signals(number).name
            grace = self._options.shutdown_timeout
            story.say(f"{name}: passed on to the ranks, which have {grace:.0f} s")
            self._local.halt(self._local.generation, name, planned=True, number=number)

    def _leave(self, report: Report) -> None:
        if isinstance(report, Gone):
            code = -self._asked if report.code is None else report.code
            self._close(crew.Close(code, signal.Signals(self._asked).name))

    def _code(self, verdict: crew.Close) -> int:
        """Torchrun says 1 for whatever went wrong; here wire's codes, and a signal's that ended us, are passed on."""
        if verdict.code and not self._asked:
            story.say(f"the run has failed: {verdict.why}")
            last_words(verdict.why)
        if verdict.code in set(wire.ExitCode):
            return int(verdict.code)
        if self._asked or isinstance(self._source, Controlled):  # which judges whose fault it was
            return story.exit_code(verdict.code)
        if self._supervised.forgives is not None:  # whoever counts wants to know how it was
            return story.exit_code(verdict.code)
        return 1 if verdict.code else 0


def _rules(options: Options) -> crew.Rules:
    meeting = options.meeting or Meeting("", 0, "")
    return crew.Rules(
        least=options.nodes[0] if options.meeting else 1,
        most=options.nodes[1] if options.meeting else 1,
        max_restarts=options.max_restarts,
        last_call=meeting.last_call,
        join_timeout=meeting.join_timeout,
        settle=meeting.interval * meeting.attempts,
    )
