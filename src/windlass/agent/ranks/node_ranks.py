"""The ranks of this node: started when told, stopped when told, and every end of theirs reported at once."""

from __future__ import annotations

import itertools
import math
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any, Callable

from windlass import wire
from windlass.agent import hang_detection, messages
from windlass.agent.error_file import read_reason
from windlass.agent.event_loop import EventLoop, Timer
from windlass.agent.fork_server.client import ForkServerClient
from windlass.agent.launcher_settings import LauncherSettings
from windlass.agent.options import Options
from windlass.agent.rank_events import RankEvent, RankFailed, RanksReady, RanksStopped, RanksSucceeded
from windlass.agent.ranks import environment
from windlass.agent.ranks.heartbeats import HeartbeatReceiver
from windlass.agent.ranks.output import RankOutput
from windlass.agent.ranks.status_file import RankStatusFile

_AFTER_A_FAILURE = 1.0
"""Seconds from SIGTERM to SIGKILL for ranks whose gang is broken: they can do nothing that takes longer."""
_DEATHS = 3
"""So often the process that ranks are forked from may be lost."""


class _Rank:
    def __init__(self, number: int, error_file: str) -> None:
        self.number = number
        self.error_file = error_file
        self.pid = 0
        self.code: int | None = None
        self.able = False
        """It can take a new membership; it is in the one that is current, that is."""
        self.stays = False
        """It was there before this generation, and is to go on with it."""
        self.replaced = False
        """It has been killed, as it did not take the membership."""


class NodeRanks:
    """One generation at a time. `report` is called from the loop, never from within a call to this."""

    def __init__(
        self,
        loop: EventLoop,
        options: Options,
        output: RankOutput,
        folder: Path,
        supervised: LauncherSettings,
        report: Callable[[RankEvent], None],
    ) -> None:
        self._loop, self._options, self._output, self._report = loop, options, output, report
        self.supervised = supervised
        self._board = RankStatusFile(loop, supervised.records)
        self.memory = ""
        """The folder for ranks' copies of their states; "" where there is none."""
        self._ids = itertools.count(1)
        self._ranks: dict[int, _Rank] = {}
        self._store = 0
        self._waiting: tuple[wire.Membership, socket.socket | None, bool] | None = None
        self._membership: wire.Membership | None = None
        self._stopping = False
        self._kill: Timer | None = None
        self._reforming: Timer | None = None
        self._torch: str | None = None
        self._deaths = 0
        self._past: messages.Recovery | None = None
        self._awaited: dict[int, messages.Recovery] = {}
        """Ranks of a new generation that go on or join those who do, until they are in a step."""
        self.pulses = hang_detection.HeartbeatTracker()
        self.recovered: wire.Recovered | None = None
        """When ranks ran again, the last time."""
        self.measured: wire.Telemetry | None = None
        """What the first rank of this node that measures anything said last."""
        self._heart = HeartbeatReceiver(loop, folder, self._heard)
        self._nursery = self._new_nursery()

    @property
    def generation(self) -> int:
        """The generation whose ranks are here, 0 if none is."""
        return self._membership.generation if self._membership else 0

    @property
    def has_ranks(self) -> bool:
        """Whether ranks of a generation are here, ended ones included."""
        return bool(self._ranks)

    def count(self, what: str) -> int:
        """How many ranks this node is to have. Raises ValueError."""
        said = what if what.isdecimal() else self._count(what)
        if not said.isdecimal() or int(said) < 1:
            raise ValueError(f"--nproc-per-node {what}: {said if not said.isdecimal() else 'at least 1'}")
        return int(said)

    # --- orders --------------------------------------------------------------------------------------

    def start(self, membership: wire.Membership, listener: socket.socket | None, *, survivors: bool = False) -> None:
        """Start this node's ranks; where `listener` is given, also the store, on it. `survivors`: others go on."""
        self._membership, self._stopping = membership, False
        self._waiting = (membership, listener, survivors)
        if self._torch is not None:
            self._start()

    def reform(self, membership: wire.Membership, listener: socket.socket | None, why: str) -> None:
        """Ranks that run take the new membership; those that are lost are started anew."""
        self._reformed()
        if not self._ranks:
            self.start(membership, listener, survivors=True)
            return
        self._heart.look()
        now = time.monotonic()
        self._past = past = (self._past or messages.Recovery(why, now, now, 0.0, 0.0))._replace(stopped=now)
        self._membership, self.measured = membership, None
        self.pulses.forget()
        self._kill_store()
        self._host(listener)
        before, self._ranks = self._ranks, {}
        stay = [rank for rank in before.values() if rank.code is None and not rank.replaced]
        patience = hang_detection.reform_timeout(self.pulses) if all(rank.able for rank in stay) else 0.0
        places = list(zip(environment.rank_positions(membership), before.items()))
        self._board.go_on(
            membership.generation,
            {
                rank.number: environment.generation_variables(place, membership)
                for place, (_, rank) in places
                if rank in stay
            },
        )
        for place, (number, rank) in places:
            if rank in stay:
                self._heart.tell([rank.number], membership._replace(rank=place.rank))
                rank.number, rank.able, rank.stays = place.rank, False, True
                self._ranks[number] = rank
            else:
                self._start_rank(membership, place, survivors=bool(stay) or len(membership.members) > 1)
        self._heart.forget()
        self._awaited = {rank.number: past for rank in self._ranks.values()}
        if stay:
            self._reforming = self._loop.after(patience, lambda: self._not_reformed(patience))

    def halt(self, generation: int, why: str, *, planned: bool = False, number: int = signal.SIGTERM) -> None:
        """Stop the ranks of this generation. Reports RanksStopped, at once if there are none. `planned`: with grace.

        What ranks have started in their groups is asked with them then, as it is by torchrun.
        """
        if generation != self.generation or not self._ranks:
            self._never_mind()
            self._soon(RanksStopped("", generation))
            return
        if not self._stopping:
            self._stopping = True
            self._reformed()
            now = time.monotonic()
            if self._past is None or self._past.stopped:
                self._past = messages.Recovery(why, now, now, 0.0, 0.0)
            self._nursery.signal(self._alive(), number, group=planned)
            grace = self._options.shutdown_timeout if planned else _AFTER_A_FAILURE
            self._kill = self._loop.after(grace, self._kill_all)
            self._look_whether_gone()

    def signal(self, number: int) -> None:
        """Pass a signal on to every rank."""
        self._nursery.signal(self._alive(), number, group=False)

    def behind(self, now: float) -> hang_detection.SlowestRank:
        """Which rank of this node is furthest behind."""
        if self._stopping or not self._alive():
            return hang_detection.SlowestRank(patience=math.inf)
        self._heart.look()
        return hang_detection.find_slowest_rank(self.pulses, self._options.limits, now, self._output.silent())

    def interrogate(self) -> None:
        """Have all ranks write down where they are: and what torch recorded of the last collectives."""
        self._heart.tell([each.number for each in self._ranks.values()], wire.Dump(str(self._dumps())))
        if self._options.how != "exec":  # of a program nobody knows what it makes of the signal
            self._nursery.signal(self._alive(), signal.SIGUSR2, group=False)

    def testimony(self, rank: int) -> str:
        """What a rank wrote down when it was asked; "" if it is not of this node."""
        local = {each.number: local for local, each in enumerate(self._ranks.values())}
        return self._output.stacks(self.generation, local.get(rank))

    def close(self) -> None:
        """End everything that is still there."""
        self._nursery.close()
        self._output.drain()
        self._heart.close()
        self._board.close()

    # --- starting ------------------------------------------------------------------------------------

    def _never_mind(self) -> None:
        if self._waiting is not None and self._waiting[1] is not None:
            self._waiting[1].close()
        self._waiting = self._membership = None

    def _new_nursery(self) -> ForkServerClient:
        variables = dict(os.environ)
        if "OMP_NUM_THREADS" not in variables and self._options.procs != "1":
            variables["OMP_NUM_THREADS"] = "1"
        python = os.environ.get("PYTHON_EXEC") or os.sys.executable  # type: ignore[attr-defined]
        return ForkServerClient(self._loop, python, variables, self._told)

    def _count(self, what: str) -> str:
        if what == "cpu":
            return str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
        return self._nursery.count(next(self._ids), what)

    def _start(self) -> None:
        assert self._waiting is not None  # noqa: S101 - asked by those who have looked
        (membership, listener, survivors), self._waiting = self._waiting, None
        self._ranks, self._store, self._awaited, self.measured = {}, 0, {}, None
        self._board.begin(membership.generation)
        self.pulses.forget()
        self._heart.forget()
        self._host(listener)
        for place in environment.rank_positions(membership):
            self._start_rank(membership, place, survivors=survivors)

    def _host(self, listener: socket.socket | None) -> None:
        if listener is not None:
            if self._torch:
                self._store = next(self._ids)
                self._nursery.store(self._store, listener)
            listener.close()  # without torch rank 0 listens there itself

    def _start_rank(self, membership: wire.Membership, place: environment.RankPosition, *, survivors: bool) -> None:
        try:
            self._fork_rank(membership, place, survivors=survivors)
        except (OSError, ValueError) as wrong:
            self._soon(RankFailed("", membership.generation, wire.ExitCode.FATAL, f"cannot start ranks: {wrong}"))

    def _fork_rank(self, membership: wire.Membership, place: environment.RankPosition, *, survivors: bool) -> None:
        files = self._output.open(place.local, place.rank, membership.generation)
        told = environment.RankSettings(
            run_id=self._options.run_id,
            role=self._options.role,
            max_restarts=self._options.max_restarts,
            agent_store=bool(self._torch),
            socket=self._heart.path,
            dumps=str(self._dumps()),
            virtual_local_rank=self._options.virtual_local_rank,
            memory=self.memory,
            survivors=survivors,
        )
        variables = environment.rank_variables(place, membership, told, files.error_file, os.environ)
        number = next(self._ids)
        self._ranks[number] = _Rank(place.rank, files.error_file)
        self._board.start(place.rank, variables)
        words = [word.replace("${local_rank}", str(place.local)) for word in self._options.argv]
        self._nursery.run(number, words, self._options.how, variables, files[:3])
        files.close()

    def _dumps(self) -> Path:
        return self._output.attempt(self.generation)

    # --- what is heard ---------------------------------------------------------------------------------

    def _told(self, said: dict[str, Any]) -> None:
        if said["tell"] == "ready":
            self._ready(said)
        elif said["tell"] == "started" and said["id"] in self._ranks:
            self._started(self._ranks[said["id"]], said["pid"])
        elif said["tell"] == "exit":
            self._exited(said["id"], said["code"], said["at"])
        elif said["tell"] == "gone":
            self._nursery_is_gone()

    def _ready(self, said: dict[str, Any]) -> None:
        self._torch = said["torch"]
        if said["why"]:
            messages.print_message(
                f"{said['why']}: " + ("rank 0 hosts the store" if not self._torch else "ranks start without it")
            )
        if self._waiting is not None:
            self._start()

    def _started(self, rank: _Rank, pid: int) -> None:
        rank.pid = pid
        self._board.started(rank.number, pid)
        self._look_whether_up()

    def _look_whether_up(self) -> None:
        past = self._past
        up = self._reforming is None and all(each.pid for each in self._ranks.values())
        if past is not None and past.stopped and up:
            past = past._replace(started=time.monotonic())
            messages.print_message(messages.describe_recovery(self.generation, past))
            self.recovered = wire.Recovered(self.generation, past.started - past.happened, past.why)
            self.supervised.say(self.recovered)
            self._past = None

    def _exited(self, number: int, code: int, at: float) -> None:
        if number == self._store:
            self._store = 0
            if not self._stopping:
                self._soon(RankFailed("", self.generation, wire.ExitCode.RETRY, "the store has ended"))
        elif (rank := self._ranks.get(number)) is not None:
            if rank.replaced and code and not self._stopping:
                self._start_instead(number)
            else:
                self._rank_exited(rank, code, at)

    def _rank_exited(self, rank: _Rank, code: int, at: float) -> None:
        rank.code = code
        self._board.ended(rank.number, code)
        self._heart.look()  # it notes nothing any more
        self.pulses.forget(rank.number)
        if self._stopping:
            self._look_whether_gone()
        elif code != 0:
            said = read_reason(rank.error_file) if code > 0 else ""
            why = messages.describe_exit(rank.number, rank.pid, code, said)
            if self._past is None or self._past.stopped:
                self._past = messages.Recovery(why, at, time.monotonic(), 0.0, 0.0)
            self.supervised.say(wire.Verdict(self.generation, "failed", rank.number, code, why, said))
            self._soon(self._broken(rank, code, why))
        elif not self._alive():
            self._output.drain()
            self._soon(RanksSucceeded("", self.generation))

    def _broken(self, rank: _Rank, code: int, why: str) -> RankFailed:
        if code < 0 and rank.stays and not rank.able:  # lost with the one that began this generation: counted already
            return RankFailed("", self.generation, wire.ExitCode.RETRY, why)
        forgives = self.supervised.forgives
        return RankFailed("", self.generation, code, why, forgives.whose(code) if forgives else "")

    def _nursery_is_gone(self) -> None:
        """Its ranks have died with it."""
        self._deaths += 1
        self._torch = None
        why = "the process that ranks are forked from is gone"
        code = wire.ExitCode.RETRY if self._deaths < _DEATHS else wire.ExitCode.FATAL
        for rank in self._ranks.values():
            rank.code = -signal.SIGKILL if rank.code is None else rank.code
        self._store = 0
        if self._stopping:
            self._look_whether_gone()
        elif self._membership is not None:
            self._soon(RankFailed("", self.generation, code, why))
        if code == wire.ExitCode.RETRY:
            self._nursery = self._new_nursery()

    def _heard(self, message: wire.Message, at: float) -> None:
        if getattr(message, "generation", 0) != self.generation or self._stopping:
            return
        self._board.hear(message, at)
        if isinstance(message, wire.Heartbeat):
            self.pulses.hear(message, at)
            if message.phase not in wire.OPEN_PHASES:
                self._in_a_step(message.rank, at)
        elif isinstance(message, wire.Goodbye):
            self.pulses.forget(message.rank)
            for rank in self._ranks.values():
                rank.able = rank.able and rank.number != message.rank
        elif isinstance(message, wire.Hello):
            self._greeted(message)
        elif isinstance(message, wire.Telemetry) and (self.measured is None or message.rank <= self.measured.rank):
            self.measured = message

    def _greeted(self, hello: wire.Hello) -> None:
        for rank in self._ranks.values():
            if rank.number == hello.rank and not rank.replaced:
                rank.able = hello.reforms
        if all(rank.able for rank in self._ranks.values() if rank.stays):
            self._reformed()
            self._look_whether_up()
        if all(rank.able for rank in self._ranks.values()):
            self._soon(RanksReady("", self.generation))

    def _in_a_step(self, rank: int, at: float) -> None:
        past = self._awaited.pop(rank, None)
        if past is None:
            return
        past = past._replace(started=max(past.started, at))
        self._awaited = dict.fromkeys(self._awaited, past)
        if not self._awaited:
            stays = sum(each.stays for each in self._ranks.values())
            messages.print_message(messages.describe_survivors(self.generation, past, stays, len(self._ranks) - stays))

    def _reformed(self) -> None:
        if self._reforming is not None:
            self._reforming.cancel()
            self._reforming = None

    def _not_reformed(self, waited: float) -> None:
        """Who stays and is not here cannot come any more: it is started anew, if others may have the state."""
        assert self._membership is not None  # noqa: S101 - it is what they have not taken
        self._reforming = None
        late = {number: rank for number, rank in self._ranks.items() if rank.stays and not rank.able}
        why = messages.describe_late_ranks([rank.number for rank in late.values()], self.generation, waited)
        others = len(self._membership.members) > 1 or any(rank.stays and rank.able for rank in self._ranks.values())
        if not waited or not others:
            self._soon(RankFailed("", self.generation, wire.ExitCode.RETRY, why))
            return
        messages.print_message(f"{why}: started anew")
        for rank in late.values():
            rank.replaced = True
        self._nursery.signal(list(late), signal.SIGKILL, group=True)

    def _start_instead(self, number: int) -> None:
        """At the place of a rank that has been killed, in the generation that it did not come into."""
        assert self._membership is not None  # noqa: S101 - as above
        rank = self._ranks.pop(number)
        self._heart.look()
        self.pulses.forget(rank.number)
        place = next(each for each in environment.rank_positions(self._membership) if each.rank == rank.number)
        self._start_rank(self._membership, place, survivors=True)
        self._ranks = dict(sorted(self._ranks.items(), key=lambda each: each[1].number))  # the order is that of places

    # --- stopping --------------------------------------------------------------------------------------

    def _alive(self) -> list[int]:
        return [number for number, rank in self._ranks.items() if rank.code is None]

    def _kill_all(self) -> None:
        self._nursery.signal(self._alive(), signal.SIGKILL, group=True)

    def _kill_store(self) -> None:
        if self._store:
            self._nursery.signal([self._store], signal.SIGKILL, group=False)
            self._store = 0

    def _look_whether_gone(self) -> None:
        if self._alive():
            return
        if self._kill is not None:
            self._kill.cancel()
        self._kill_store()
        self._output.drain()
        if self._past is not None:
            self._past = self._past._replace(stopped=time.monotonic())
        codes = [rank.code or 0 for rank in self._ranks.values()]
        generation, self._membership, self._ranks = self.generation, None, {}
        self._soon(RanksStopped("", generation, _worst(codes)))

    def _soon(self, report: RankEvent) -> None:
        self._loop.after(0, lambda: self._report(report))


def _worst(codes: list[int]) -> int:
    for wanted in (wire.ExitCode.FATAL, wire.ExitCode.PREEMPTED, wire.ExitCode.RETRY):
        if wanted in codes:
            return int(wanted)
    return next((code for code in codes if code), 0)
