"""A run upon which faults come, one after the other, and what became of each of them.

Nobody inside of the run knows of them: ranks and agents are signalled, files are changed, disks filled, stores made to
fail. An agent that has ended is started again, as whatever runs jobs does.
"""

from __future__ import annotations

import contextlib
import random
import re
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

from disturbing.agent import Agent, Line, losses, step_of
from disturbing.places import Bucket, Disk, Keeping, torn_or_flipped
from disturbing.schedule import QUIET, Fault, Kind

from windlass.train.checkpoint.store.layout import folder_of

_PATIENCE = 120.0
_RESUMED = re.compile(r"resumed after step (\d+)(?!.*memory)")
_PASSED = re.compile(r".*: skipping step-(\d+): ")
_OF_STORES = {
    Kind.S3_ERRORS: {"errors": 0.1},
    Kind.S3_SLOW: {"slow": 0.03},
    Kind.S3_CUT: {"drop": 4},
}
_NOTICED = {
    **dict.fromkeys((Kind.KILL, Kind.KILL_WRITING, Kind.STOP, Kind.TERM), "; generation "),
    **dict.fromkeys((Kind.KILL_AGENT, Kind.TERM_AGENT, Kind.TORN), ""),
    Kind.FULL: "No space left",
}
"""What is said by whoever notices; nothing, where it is whoever starts agents."""
_MORE = 3
"""Steps that a run may go on while somebody waits for what it does."""
_LIVES = 30
"""Of agents, before something else must be wrong."""


class Met(NamedTuple):
    """One fault, and seconds until the run was further than before. NaN for what stops nobody."""

    fault: Fault
    lost: float


@dataclass
class Told:
    """What a disturbed run came to."""

    losses: dict[int, float] = field(default_factory=dict)
    met: list[Met] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    """Agents that had to be started again: after what."""
    passed_over: int = 0
    """How often a damaged checkpoint was found before it was loaded."""
    lost: list[str] = field(default_factory=list)
    """Checkpoints that were good, and were not found again."""
    loaded: list[str] = field(default_factory=list)
    """Damaged ones that were loaded all the same."""
    console: str = ""
    """All that agents and ranks said."""
    damaged: list[int] = field(default_factory=list)
    """Those that are there at the end and not what was written, found by reading every byte."""


def undisturbed(mesh: str, place: str, steps: int) -> dict[int, float]:
    """The loss of each step where nothing happens. Raises AssertionError if the run does not end well."""
    with tempfile.TemporaryDirectory() as folder:
        leash = Path(folder, "leash")
        leash.write_text(str(steps))
        agent = Agent(mesh, size(mesh), place, steps, leash)
        try:
            assert agent.end() == 0, agent.text
        finally:
            agent.close()
    return losses(agent.lines)


def disturbed(mesh: str, keeping: Keeping, steps: int, faults: list[Fault], *, then: str = "") -> Told:
    """The same run with faults. `then`: the mesh on which an agent that was killed comes back, if it is another one."""
    keeping.committed()  # a client of a store takes seconds to be loaded
    with tempfile.TemporaryDirectory() as folder:
        run = _Disturbed(mesh, keeping, steps, then, Path(folder, "leash"))
        try:
            for fault in faults:
                run.meet(fault)
            run.finish()
        finally:
            run.agent.close()
    return run.told


def size(mesh: str) -> int:
    """How many ranks a mesh has."""
    return reduce(lambda product, part: product * int(part.partition("=")[2]), mesh.split(","), 1)


class _Disturbed:
    def __init__(self, mesh: str, keeping: Keeping, steps: int, then: str, leash: Path) -> None:
        self.mesh, self.keeping, self.steps, self.then, self.leash = mesh, keeping, steps, then, leash
        self.told = Told()
        self._let_go(0)
        self.agent = self._started()
        self.before: list[Line] = []
        """Of the agents before this one."""
        self.judged = 0
        """How many lines have been looked at for what was loaded."""
        self.hurt: dict[int, str] = {}
        """Step → file that was damaged in it, as long as that checkpoint is the same."""
        self.trouble: dict[str, Any] = {}
        """Of a store, at present."""
        self.good = 0
        """The newest checkpoint that was whole when the last fault came."""

    @property
    def lines(self) -> list[Line]:
        return [*self.before, *self.agent.lines]

    # --- one fault -------------------------------------------------------------------------------------

    def meet(self, fault: Fault) -> None:
        """Let it come, and wait until the run is further than it was."""
        # 1. the run is where the fault is due; what is good now must be there afterwards
        self._let_go(fault.step + _MORE)
        self._until_step(fault.step)
        good = max((step for step in self.keeping.committed() if step not in self.hurt), default=0)
        self._judge()  # a slow machine may have been taken for one that hangs: that was before
        self.good = good
        # 2. the fault
        begun = self._come(fault, random.Random(fault.draw))  # noqa: S311 - a dice
        if fault.kind in QUIET:
            self.told.met.append(Met(fault, float("nan")))
            return
        # 3. who notices, and the first step that is new
        self._let_go(_furthest(self.lines) + _MORE)
        self.told.met.append(Met(fault, self._until_further(_NOTICED[fault.kind], begun) - begun))
        # 4. what was loaded meanwhile
        self._judge()
        if isinstance(self.keeping, Bucket):
            self.trouble = {}
            self.keeping.fail()

    def finish(self) -> None:
        """To the end of the run; then read every byte that is kept."""
        self._let_go(self.steps)
        while (code := self.agent.end()) != 0:
            self._start_again(f"after the last fault, with {code}")
        self._judge()
        self.told.losses = losses(self.lines)
        self.told.console = "\n".join(f"{line.at:.2f} {line.text}" for line in self.lines)
        self.told.damaged = self.keeping.damaged()
        if self.steps not in self.keeping.committed():
            self.told.lost.append(f"step {self.steps}, the last")
        unexpected = [step for step in self.told.damaged if step not in self.hurt]
        self.told.lost += [f"step {step}: damaged, and nobody touched it" for step in unexpected]

    def _judge(self) -> None:
        """What the run has said of checkpoints since this was asked last."""
        lines = self.lines
        for line in lines[self.judged :]:
            if found := _PASSED.match(line.text):
                self.told.passed_over += 1
                if int(found[1]) not in self.hurt:
                    self.told.lost.append(line.text)
            if found := _RESUMED.match(line.text):
                step = int(found[1])
                if step in self.hurt:
                    self.told.loaded.append(f"step {step} with {self.hurt[step]}")
                if step < self.good:
                    self.told.lost.append(f"step {self.good}; loaded was step {step}")
                # What is newer belongs to a past that was given up: the next save replaces it.
                self.hurt = {each: name for each, name in self.hurt.items() if each <= step}
        self.judged = len(lines)

    # --- what comes ------------------------------------------------------------------------------------

    def _come(self, fault: Fault, chance: random.Random) -> float:
        """Do it. Returns when."""
        rank = chance.randrange(size(self.mesh))
        match fault.kind:
            case Kind.KILL | Kind.STOP | Kind.TERM:
                number = {Kind.KILL: signal.SIGKILL, Kind.STOP: signal.SIGSTOP, Kind.TERM: signal.SIGTERM}[fault.kind]
                return self._signal_rank(rank, number)
            case Kind.KILL_WRITING:
                self._until(self.keeping.writing)
                return self._signal_rank(rank, signal.SIGKILL)
            case Kind.KILL_AGENT | Kind.TERM_AGENT:
                return self._end_agent(signal.SIGTERM if fault.kind is Kind.TERM_AGENT else signal.SIGKILL)
            case Kind.TORN:
                self._damage(chance, torn=True)
                return self._end_agent(signal.SIGKILL)
            case Kind.FLIP:
                self._damage(chance, torn=False)
            case Kind.FULL:
                return self._fill()
            case _:
                self._trouble_store(fault)
        return time.monotonic()

    def _signal_rank(self, rank: int, number: int) -> float:
        begun = time.monotonic()
        self.agent.kill_rank(rank, number)
        return begun

    def _end_agent(self, number: int) -> float:
        begun = time.monotonic()
        self.agent.process.send_signal(number)
        self.agent.end()
        return begun

    def _damage(self, chance: random.Random, *, torn: bool) -> None:
        """The next checkpoint as soon as it is there; the one before stays whole."""
        before = self.keeping.committed()

        def damaged() -> bool:
            fresh = [step for step in self.keeping.committed() if step not in before]
            with contextlib.suppress(FileNotFoundError):  # it is gone already, where saves are quicker than this
                self.hurt |= {step: torn_or_flipped(self.keeping, step, torn=torn, chance=chance) for step in fresh[:1]}
                return bool(fresh)
            return False

        self._until(damaged)

    def _fill(self) -> float:
        """Until somebody says that the disk is full."""
        assert isinstance(self.keeping, Disk)
        begun, said, notice = time.monotonic(), len(self.agent.lines), _NOTICED[Kind.FULL]
        with self.keeping.full():
            self._until(lambda: any(notice in each.text for each in self.agent.lines[said:]))
        return begun

    def _trouble_store(self, fault: Fault) -> None:
        """On top of what troubles it already, until the run has recovered from something."""
        assert isinstance(self.keeping, Bucket)
        if fault.kind is Kind.S3_LAG:
            self.trouble["hide"] = folder_of(self.keeping.committed()[0])
        else:
            self.trouble |= {**_OF_STORES[fault.kind], "seed": fault.draw}
        self.keeping.fail(**self.trouble)

    # --- who waits for what ------------------------------------------------------------------------------

    def _until(self, true: Callable[[], bool]) -> None:
        until = time.monotonic() + _PATIENCE
        while not true():
            assert time.monotonic() < until, self.agent.text
            assert self.agent.process.poll() is None, f"ended before the fault could come\n{self.agent.text}"
            self._let_go(_furthest(self.agent.lines) + _MORE)
            time.sleep(0.002)

    def _let_go(self, step: int) -> None:
        """The run may go up to this step."""
        beside = self.leash.with_name("next")
        beside.write_text(str(step))
        beside.replace(self.leash)

    def _until_step(self, step: int) -> None:
        """The agent's ranks train, and are that far."""
        reached = self.agent.wait_for(lambda lines: _furthest(lines) >= step, _PATIENCE)
        assert reached, f"ended before step {step}\n{self.agent.text}"

    def _until_further(self, notice: str, begun: float) -> float:
        """When the first step was made that is new since the fault was noticed. Agents that end are started again."""

        def noticed(lines: list[Line]) -> int:
            heard = (place for place, each in enumerate(lines) if each.at >= begun and notice in each.text)
            return next(heard, len(lines))

        if notice:
            self.agent.wait_for(lambda lines: noticed(lines) < len(lines), _PATIENCE)
        far = _furthest(self.lines[: len(self.before) + noticed(self.agent.lines)] if notice else self.lines)

        def further(lines: list[Line]) -> list[Line]:
            return [each for each in lines if each.at >= begun and (step_of(each) or 0) > far]

        while not self.agent.wait_for(lambda lines: bool(further(lines)), _PATIENCE):
            self._start_again(f"after '{notice}' with {self.agent.end()}")
        return further(self.agent.lines)[0].at

    def _start_again(self, why: str) -> None:
        self.before += self.agent.lines
        self.agent.close()
        self.told.ended.append(why)
        assert len(self.told.ended) < _LIVES, f"{self.told.ended}\n{self.agent.text}"
        if self.then:
            self.mesh, self.then = self.then, self.mesh
        self.agent = self._started()

    def _started(self) -> Agent:
        return Agent(self.mesh, size(self.mesh), self.keeping.text, self.steps, self.leash)


def _furthest(lines: list[Line]) -> int:
    return max((step for line in lines if (step := step_of(line)) is not None), default=-1)
