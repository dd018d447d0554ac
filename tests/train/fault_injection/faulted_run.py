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
from fault_injection.faulty_storage import Bucket, Disk, FaultyStorage, damage_file
from fault_injection.schedule import WITHOUT_RECOVERY, Fault, Kind

from windlass.train.checkpoint.store.layout import folder_of

_TIMEOUT_S = 120.0
_RESUMED = re.compile(r"resumed after step (\d+)(?!.*memory)")
_PASSED = re.compile(r".*: skipping step-(\d+)\S*: ")
_STORE_FAULTS = {
    Kind.S3_ERRORS: {"errors": 0.1},
    Kind.S3_SLOW: {"slow": 0.03},
    Kind.S3_CUT: {"drop": 4},
}
_NOTICES = {
    **dict.fromkeys((Kind.KILL, Kind.KILL_WRITING, Kind.STOP, Kind.TERM), "; generation "),
    **dict.fromkeys((Kind.KILL_AGENT, Kind.TERM_AGENT, Kind.TORN), ""),
    Kind.FULL: "No space left",
}
"""Text of the process that notices a fault; empty where it is the job runner."""
_STEPS_AHEAD = 3
"""Number of steps that a run may continue while the test waits for its reaction."""
_MAX_RESTARTS = 30
"""Number of restarts of agents after which the test fails."""


class FaultOutcome(NamedTuple):
    """One injected fault."""

    fault: Fault
    lost_s: float
    """Seconds until the run had passed its previous step; NaN for faults that stop no rank."""


@dataclass
class RunOutcome:
    """The outcome of a run with faults."""

    losses: dict[int, float] = field(default_factory=dict)
    faults: list[FaultOutcome] = field(default_factory=list)
    restarts: list[str] = field(default_factory=list)
    """Reasons of restarts of agents."""
    skipped: int = 0
    """Number of damaged checkpoints that were detected before a load."""
    lost: list[str] = field(default_factory=list)
    """Good checkpoints that were not found again."""
    loaded: list[str] = field(default_factory=list)
    """Damaged checkpoints that were loaded."""
    console: str = ""
    """All output of agents and ranks."""
    damaged: list[int] = field(default_factory=list)
    """Checkpoints at the end that differ from what was written, found by reading every byte."""


def run_without_faults(mesh: str, place: str, steps: int) -> dict[int, float]:
    """Return the loss of each step without faults. Raises AssertionError if the run does not end well."""
    with tempfile.TemporaryDirectory() as folder:
        step_limit = Path(folder, "step_limit")
        step_limit.write_text(str(steps))
        agent = Agent(mesh, size(mesh), place, steps, step_limit)
        try:
            assert agent.end() == 0, agent.text
        finally:
            agent.close()
    return losses(agent.lines)


def run_with_faults(
    mesh: str, storage: FaultyStorage, steps: int, faults: list[Fault], *, then: str = ""
) -> RunOutcome:
    """Run with faults. `then`: the mesh on which a killed agent restarts, if it is another one."""
    storage.committed()  # importing the client of a store takes seconds
    with tempfile.TemporaryDirectory() as folder:
        run = _FaultedRun(mesh, storage, steps, then, Path(folder, "step_limit"))
        try:
            for fault in faults:
                run.inject(fault)
            run.finish()
        finally:
            run.agent.close()
    return run.outcome


def size(mesh: str) -> int:
    """Return the number of ranks of a mesh."""
    return reduce(lambda product, part: product * int(part.partition("=")[2]), mesh.split(","), 1)


class _FaultedRun:
    def __init__(self, mesh: str, storage: FaultyStorage, steps: int, then: str, step_limit: Path) -> None:
        self.mesh, self.storage, self.steps, self.then, self.step_limit = mesh, storage, steps, then, step_limit
        self.outcome = RunOutcome()
        self._allow_steps(0)
        self.agent = self._start_agent()
        self.before: list[Line] = []
        """Lines of the previous agents."""
        self.checked = 0
        """Number of lines that were searched for loads."""
        self.damaged: dict[int, str] = {}
        """Step → damaged file, as long as the checkpoint is the same."""
        self.store_faults: dict[str, Any] = {}
        """Current faults of the store."""
        self.good = 0
        """The newest checkpoint that was complete at the last fault."""

    @property
    def lines(self) -> list[Line]:
        return [*self.before, *self.agent.lines]

    # --- sequence -------------------------------------------------------------------------------------

    def inject(self, fault: Fault) -> None:
        """Inject a fault, and wait until the run has passed its previous step."""
        # 1. wait for the step of the fault; checkpoints that are good now must survive
        self._allow_steps(fault.step + _STEPS_AHEAD)
        self._wait_for_step(fault.step)
        good = max((step for step in self.storage.committed() if step not in self.damaged), default=0)
        self._check_loads()  # a slow machine may have been taken for a hang before
        self.good = good
        # 2. inject the fault
        started_at = self._apply(fault, random.Random(fault.draw))  # noqa: S311 - a dice
        if fault.kind in WITHOUT_RECOVERY:
            self.outcome.faults.append(FaultOutcome(fault, float("nan")))
            return
        # 3. wait for the notice, and for the first new step
        self._allow_steps(_last_step(self.lines) + _STEPS_AHEAD)
        lost_s = self._wait_for_new_step(_NOTICES[fault.kind], started_at) - started_at
        self.outcome.faults.append(FaultOutcome(fault, lost_s))
        # 4. check the loads meanwhile
        self._check_loads()
        if isinstance(self.storage, Bucket):
            self.store_faults = {}
            self.storage.fail()

    def finish(self) -> None:
        """Wait for the end of the run; then read every byte of its checkpoints."""
        self._allow_steps(self.steps)
        while (code := self.agent.end()) != 0:
            self._restart_agent(f"after the last fault, with {code}")
        self._check_loads()
        self.outcome.losses = losses(self.lines)
        self.outcome.console = "\n".join(f"{line.at:.2f} {line.text}" for line in self.lines)
        self.outcome.damaged = self.storage.damaged()
        if self.steps not in self.storage.committed():
            self.outcome.lost.append(f"step {self.steps}, the last")
        unexpected = [step for step in self.outcome.damaged if step not in self.damaged]
        self.outcome.lost += [f"step {step}: damaged, although no fault changed it" for step in unexpected]

    def _check_loads(self) -> None:
        """Process new output about checkpoints."""
        lines = self.lines
        for line in lines[self.checked :]:
            if found := _PASSED.match(line.text):
                self.outcome.skipped += 1
                if int(found[1]) not in self.damaged:
                    self.outcome.lost.append(line.text)
            if found := _RESUMED.match(line.text):
                step = int(found[1])
                if step in self.damaged:
                    self.outcome.loaded.append(f"step {step} with {self.damaged[step]}")
                if step < self.good:
                    self.outcome.lost.append(f"step {self.good}; loaded was step {step}")
                # Newer checkpoints are obsolete: the next save replaces them.
                self.damaged = {each: name for each, name in self.damaged.items() if each <= step}
        self.checked = len(lines)

    # --- kinds of faults ------------------------------------------------------------------------------------

    def _apply(self, fault: Fault, rng: random.Random) -> float:
        """Inject the fault. Returns its time."""
        rank = rng.randrange(size(self.mesh))
        match fault.kind:
            case Kind.KILL | Kind.STOP | Kind.TERM:
                number = {Kind.KILL: signal.SIGKILL, Kind.STOP: signal.SIGSTOP, Kind.TERM: signal.SIGTERM}[fault.kind]
                return self._signal_rank(rank, number)
            case Kind.KILL_WRITING:
                self._wait_until(self.storage.writing)
                return self._signal_rank(rank, signal.SIGKILL)
            case Kind.KILL_AGENT | Kind.TERM_AGENT:
                return self._end_agent(signal.SIGTERM if fault.kind is Kind.TERM_AGENT else signal.SIGKILL)
            case Kind.TORN:
                return self._tear(rng)
            case Kind.FLIP:
                self._flip(rng)
            case Kind.FULL:
                return self._fill()
            case _:
                self._add_store_fault(fault)
        return time.monotonic()

    def _signal_rank(self, rank: int, number: int) -> float:
        started_at = time.monotonic()
        self.agent.kill_rank(rank, number)
        return started_at

    def _end_agent(self, number: int) -> float:
        started_at = time.monotonic()
        self.agent.process.send_signal(number)
        self.agent.end()
        return started_at

    def _tear(self, rng: random.Random) -> float:
        """End the run after its next checkpoint, and truncate the newest one. Returns the time of the end.

        Truncated before the end, it might not be the newest one any more when the run resumes.
        """
        before = self.storage.committed()
        self._wait_until(lambda: any(step not in before for step in self.storage.committed()))
        started_at = self._end_agent(signal.SIGKILL)
        step = self.storage.committed()[0]
        self.damaged[step] = damage_file(self.storage, step, torn=True, rng=rng)
        return started_at

    def _flip(self, rng: random.Random) -> None:
        """Change a bit of the next checkpoint as soon as it exists; the previous one stays intact."""
        before = self.storage.committed()

        def damaged() -> bool:
            fresh = [step for step in self.storage.committed() if step not in before]
            with contextlib.suppress(FileNotFoundError):  # removed already, if saves are faster than this
                self.damaged |= {step: damage_file(self.storage, step, torn=False, rng=rng) for step in fresh[:1]}
                return bool(fresh)
            return False

        self._wait_until(damaged)

    def _fill(self) -> float:
        """Fill the disk until the run reports it."""
        assert isinstance(self.storage, Disk)
        started_at, first, notice = time.monotonic(), len(self.agent.lines), _NOTICES[Kind.FULL]
        with self.storage.full():
            self._wait_until(lambda: any(notice in each.text for each in self.agent.lines[first:]))
        return started_at

    def _add_store_fault(self, fault: Fault) -> None:
        """Add a fault of the store, until the run has recovered from one."""
        assert isinstance(self.storage, Bucket)
        if fault.kind is Kind.S3_LAG:
            self.store_faults["hide"] = folder_of(self.storage.committed()[0])
        else:
            self.store_faults |= {**_STORE_FAULTS[fault.kind], "seed": fault.draw}
        self.storage.fail(**self.store_faults)

    # --- waits ------------------------------------------------------------------------------

    def _wait_until(self, true: Callable[[], bool]) -> None:
        until = time.monotonic() + _TIMEOUT_S
        while not true():
            assert time.monotonic() < until, self.agent.text
            assert self.agent.process.poll() is None, f"ended before the fault could be injected\n{self.agent.text}"
            self._allow_steps(_last_step(self.agent.lines) + _STEPS_AHEAD)
            time.sleep(0.002)

    def _allow_steps(self, step: int) -> None:
        """Let the run continue up to this step."""
        beside = self.step_limit.with_name("next")
        beside.write_text(str(step))
        beside.replace(self.step_limit)

    def _wait_for_step(self, step: int) -> None:
        """Wait until the agent's ranks have reached a step."""
        reached = self.agent.wait_for(lambda lines: _last_step(lines) >= step, _TIMEOUT_S)
        assert reached, f"ended before step {step}\n{self.agent.text}"

    def _wait_for_new_step(self, notice: str, started_at: float) -> float:
        """Return the time of the first new step after the notice of the fault. Agents that end are started again."""

        def noticed(lines: list[Line]) -> int:
            found = (place for place, each in enumerate(lines) if each.at >= started_at and notice in each.text)
            return next(found, len(lines))

        if notice:
            self.agent.wait_for(lambda lines: noticed(lines) < len(lines), _TIMEOUT_S)
        last = _last_step(self.lines[: len(self.before) + noticed(self.agent.lines)] if notice else self.lines)

        def later(lines: list[Line]) -> list[Line]:
            return [each for each in lines if each.at >= started_at and (step_of(each) or 0) > last]

        while not self.agent.wait_for(lambda lines: bool(later(lines)), _TIMEOUT_S):
            self._restart_agent(f"after '{notice}' with {self.agent.end()}")
        return later(self.agent.lines)[0].at

    def _restart_agent(self, why: str) -> None:
        self.before += self.agent.lines
        self.agent.close()
        self.outcome.restarts.append(why)
        assert len(self.outcome.restarts) < _MAX_RESTARTS, f"{self.outcome.restarts}\n{self.agent.text}"
        if self.then:
            self.mesh, self.then = self.then, self.mesh
        self.agent = self._start_agent()

    def _start_agent(self) -> Agent:
        return Agent(self.mesh, size(self.mesh), self.storage.text, self.steps, self.step_limit)


def _last_step(lines: list[Line]) -> int:
    return max((step for line in lines if (step := step_of(line)) is not None), default=-1)
