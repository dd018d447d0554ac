"""A run with faults injected one after the other, and the outcome of each of them.

Faults come from outside the run: ranks and agents receive signals, files are changed, disks filled, stores made to
fail. An agent that has ended is started again, as a job runner does.
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

from fault_injection.agent import Agent, Line, losses, step_of
from fault_injection.faulty_storage import Bucket, Disk, Keeping, torn_or_flipped
from fault_injection.schedule import QUIET, Fault, Kind

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
"""Text of the process that notices a fault; empty where it is the job runner."""
_MORE = 3
"""Steps that a run may continue while the test waits for its reaction."""
_LIVES = 30
"""Seconds without output of agents after which the test fails."""


class Met(NamedTuple):
    """One fault, and the seconds until the run had passed its previous step. NaN for faults that stop no rank."""

    fault: Fault
    lost: float


@dataclass
class Told:
    """The outcome of a run with faults."""

    losses: dict[int, float] = field(default_factory=dict)
    met: list[Met] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    """Reasons of restarts of agents."""
    passed_over: int = 0
    """Number of damaged checkpoints that were detected before a load."""
    lost: list[str] = field(default_factory=list)
    """Good checkpoints that were not found again."""
    loaded: list[str] = field(default_factory=list)
    """Damaged checkpoints that were loaded."""
    console: str = ""
    """All output of agents and ranks."""
    damaged: list[int] = field(default_factory=list)
    """Checkpoints at the end that differ from what was written, found by reading every byte."""


def undisturbed(mesh: str, place: str, steps: int) -> dict[int, float]:
    """Return the loss of each step without faults. Raises AssertionError if the run does not end well."""
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
    """Run with faults. `then`: the mesh on which a killed agent restarts, if it is another one."""
    keeping.committed()  # importing the client of a store takes seconds
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
    """Return the number of ranks of a mesh."""
    return reduce(lambda product, part: product * int(part.partition("=")[2]), mesh.split(","), 1)


class _Disturbed:
    def __init__(self, mesh: str, keeping: Keeping, steps: int, then: str, leash: Path) -> None:
        self.mesh, self.keeping, self.steps, self.then, self.leash = mesh, keeping, steps, then, leash
        self.told = Told()
        self._let_go(0)
        self.agent = self._started()
        self.before: list[Line] = []
        """Lines of the previous agents."""
        self.judged = 0
        """Number of lines that were searched for loads."""
        self.hurt: dict[int, str] = {}
        """Step → damaged file, as long as the checkpoint is the same."""
        self.trouble: dict[str, Any] = {}
        """Current faults of the store."""
        self.good = 0
        """The newest checkpoint that was complete at the last fault."""

    @property
    def lines(self) -> list[Line]:
        return [*self.before, *self.agent.lines]

    # --- one fault -------------------------------------------------------------------------------------

    def meet(self, fault: Fault) -> None:
        """Inject a fault, and wait until the run has passed its previous step."""
        # 1. wait for the step of the fault; checkpoints that are good now must survive
        self._let_go(fault.step + _MORE)
        self._until_step(fault.step)
        good = max((step for step in self.keeping.committed() if step not in self.hurt), default=0)
        self._judge()  # a slow machine may have been taken for a hang before
        self.good = good
        # 2. inject the fault
        begun = self._come(fault, random.Random(fault.draw))  # noqa: S311 - a dice
        if fault.kind in QUIET:
            self.told.met.append(Met(fault, float("nan")))
            return
        # 3. wait for the notice, and for the first new step
        self._let_go(_furthest(self.lines) + _MORE)
        self.told.met.append(Met(fault, self._until_further(_NOTICED[fault.kind], begun) - begun))
        # 4. check the loads meanwhile
        self._judge()
        if isinstance(self.keeping, Bucket):
            self.trouble = {}
            self.keeping.fail()

    def finish(self) -> None:
        """Wait for the end of the run; then read every byte of its checkpoints."""
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
        """Process new output about checkpoints."""
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
                # Newer checkpoints are obsolete: the next save replaces them.
                self.hurt = {each: name for each, name in self.hurt.items() if each <= step}
        self.judged = len(lines)

    # --- what comes ------------------------------------------------------------------------------------

    def _come(self, fault: Fault, chance: random.Random) -> float:
        """Inject the fault. Returns its time."""
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
        """Damage the next checkpoint as soon as it exists; the previous one stays intact."""
        before = self.keeping.committed()

        def damaged() -> bool:
            fresh = [step for step in self.keeping.committed() if step not in before]
            with contextlib.suppress(FileNotFoundError):  # removed already, if saves are faster than this
                self.hurt |= {step: torn_or_flipped(self.keeping, step, torn=torn, chance=chance) for step in fresh[:1]}
                return bool(fresh)
            return False

        self._until(damaged)

    def _fill(self) -> float:
        """Fill the disk until the run reports it."""
        assert isinstance(self.keeping, Disk)
        begun, said, notice = time.monotonic(), len(self.agent.lines), _NOTICED[Kind.FULL]
        with self.keeping.full():
            self._until(lambda: any(notice in each.text for each in self.agent.lines[said:]))
        return begun

    def _trouble_store(self, fault: Fault) -> None:
        """Add a fault of the store, until the run has recovered from one."""
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
        """Let the run continue up to this step."""
        beside = self.leash.with_name("next")
        beside.write_text(str(step))
        beside.replace(self.leash)

    def _until_step(self, step: int) -> None:
        """Wait until the agent's ranks have reached a step."""
        reached = self.agent.wait_for(lambda lines: _furthest(lines) >= step, _PATIENCE)
        assert reached, f"ended before step {step}\n{self.agent.text}"

    def _until_further(self, notice: str, begun: float) -> float:
        """Return the time of the first new step after the notice of the fault. Agents that end are started again."""

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
