"""Checkpoints of one run: begun where the newest good one is, saved when they are due, and before all leave."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

from windlass import wire
from windlass.train.checkpoint.copies.memory import Memory, opened, steps_of
from windlass.train.checkpoint.due import every_of
from windlass.train.checkpoint.finding import Found, newest_good
from windlass.train.checkpoint.history import begun
from windlass.train.checkpoint.loading import load, restore_generators
from windlass.train.checkpoint.pace import Pace
from windlass.train.checkpoint.saver import Saver
from windlass.train.checkpoint.store.errors import CheckpointError
from windlass.train.checkpoint.store.places import place_of
from windlass.train.checkpoint.store.retention import Retention
from windlass.train.checkpoint.store.survey import newest_whole
from windlass.train.checkpoint.together import all_ranks, by_first
from windlass.train.checkpoint.trying import Trying
from windlass.train.data.batch import Batch
from windlass.train.data.loader import Data
from windlass.train.data.stream import Stream
from windlass.train.errors import TrainError
from windlass.train.health.spike import Recent
from windlass.train.mesh.device_mesh import Mesh
from windlass.train.process import World
from windlass.train.reform.gang import Companion
from windlass.train.state import State
from windlass.train.step.vote import Said
from windlass.train.telemetry.phases import Phase

_LOSSES = "losses"
"""In a manifest's facts: those of the last steps, with which the next is compared."""


class CheckpointedRun(Protocol):
    """The part of a `Run` that its checkpoints read, restore and report to."""

    seed: int
    steps_done: int
    skipped: int
    recent: Recent
    go_back: str
    world: World

    @property
    def mesh(self) -> Mesh:
        """The mesh that the run trains on."""

    @property
    def dropout_rank(self) -> int:
        """Index of the random stream of this rank: ranks that hold the same activations share one."""

    @property
    def joins(self) -> bool:
        """Whether this rank receives its state from running ranks instead of a checkpoint."""

    def steps(self, data: Data | Stream, max_steps: int) -> Iterator[Batch]:
        """Yield batches until `max_steps` steps are done."""

    def listen(
        self,
        hear: Callable[[Said], None],
        wants_save: Callable[[], bool],
        save_takes: Callable[[], float],
        before_moving: Callable[[], None],
    ) -> None:
        """Register the callbacks of each step."""

    def accompany(self, companion: Companion) -> None:
        """Register a hook for in-place recovery."""

    def unless_void(self, work: Callable[[], None]) -> None:
        """Run `work` unless the step is aborted."""

    def connecting(self) -> contextlib.AbstractContextManager[None]:
        """Context in which process groups are created."""

    def during(self, phase: Phase) -> contextlib.AbstractContextManager[None]:
        """Context that counts as `phase` of the step."""

    def say(self, text: str, *, stream: Literal["stdout", "stderr"] = "stdout") -> None:
        """Print a line on the first rank."""


class Checkpoints:
    """Made by `Run.checkpoint`; used as `for batch in checkpoints.resume().steps(max_steps)`."""

    def __init__(self, run: CheckpointedRun, place: str, state: State, every: str, keep: int, copies: str) -> None:
        self._run, self._state = run, state
        self._place = place_of(place)
        self._every = every_of(every)
        self._keep = Retention(keep)
        often = "as often as costs least" if self._every.by_cost else f"every {every.strip()}"
        self._ways = f"checkpoints in {self._place.text}, {often}, the newest {keep} kept"
        self._copy_every = steps_of(copies)
        self.join()
        self._trying: Trying | None = None
        self._memory: Memory | None = None
        self._rollbacks = Rollbacks()
        self._leaves = False
        """This run is about to end in good order."""
        run.accompany(self)
        run.listen(self._hear, self._wants_save, self._save_takes, self._wait_until_staged)

    def resume(self) -> Self:
        """Go on from the newest checkpoint that is whole; begin at the beginning if there is none.

        A collective. Raises CheckpointError, on all ranks alike: for one of another model before anything is read.
        A rank that joins others which go on has their state instead, when the loop begins.
        """
        if not self._run.joins:
            self._run.say(self._ways)
            self._open_memory()
            after, facts = self._from_memory() or self._from_place()
            self._run.recent = Recent(facts.get(_LOSSES, ()))
            self._go_on_from(after, facts)
        return self

    def _open_memory(self) -> None:
        if self._copy_every is not None:
            with self._run.connecting():
                self._memory = opened(self._place.text, str(self._run.mesh.degrees), self._run.say)

    def _go_on_from(self, after: int | None, facts: Mapping[str, Any]) -> None:
        saver = Saver(self._place, self._ranks, after=after, keep=self._keep, who=self._who)
        history = begun(facts, int(os.environ.get(wire.GENERATION, "1")))
        self._trying = Trying(saver, Pace(self._every, history, self._run.say), self._ranks, self._warn, begun=after)

    def steps(self, max_steps: int) -> Iterator[Batch]:
        """Batches until so many steps are done since the first start.

        Saves when it is due, when all are asked to leave, and at the end. A save that fails is told and tried again;
        raises CheckpointError when they go on failing.
        """
        if self._trying is None:
            self.resume()
        try:
            yield from self._run.steps(self._state.data, max_steps)
            self._leaves = True
            self._save(blocking=True)
        finally:
            self._close()

    def save(self, *, blocking: bool = False) -> None:
        """Save now. A collective. Unless `blocking`, it goes on behind the next steps.

        Nothing is saved where ranks are lost meanwhile: the step comes again.
        """
        self._run.unless_void(lambda: self._save(blocking=blocking))

    def _save(self, *, blocking: bool = False) -> None:
        trying = self._resumed
        with self._run.during("save") if blocking or trying.is_busy else contextlib.nullcontext():
            if blocking:
                trying.insist(self._begin, self._run.steps_done)
            else:
                trying.save(self._begin, self._run.steps_done)

    @property
    def _resumed(self) -> Trying:
        assert self._trying is not None, "resume() comes first"  # noqa: S101
        return self._trying

    @property
    def _who(self) -> str:
        """This rank's coordinates: its generators are for whoever has the same."""
        here = self._run.mesh.here
        return f"{here.pp}-{here.dp}-{here.fsdp}-{here.cp}-{here.tp}"

    def _begin(self, blocking: bool) -> None:  # noqa: FBT001 - as `Begin` says
        run = self._run
        self._resumed.saver.save(
            self._state.tensors(),
            run.steps_done,
            samples=self._state.data.samples,
            mesh=str(run.mesh.degrees),
            facts=self._facts(),
            at_once=self._buffers(),
            blocking=blocking,
        )

    def _copy(self) -> None:
        """A copy in memory, where one is due."""
        step = self._run.steps_done
        if self._memory is not None and self._copy_every is not None and step % self._copy_every == 0:
            self._memory.begin(self._state.tensors(), step, {"facts": self._facts()}, self._buffers())

    def _facts(self) -> dict[str, Any]:
        losses = list(self._run.recent.losses)
        told = {_LOSSES: losses} if losses else {}
        return {"seed": self._run.seed, **told, **self._resumed.pace.facts(leaves=self._leaves)}

    def _buffers(self) -> list[str]:
        """The next forward pass may change them while the rest is copied."""
        return [f"model.{name}" for name, _ in self._state.model.module.named_buffers()]

    def _from_place(self) -> tuple[int | None, Mapping[str, Any]]:
        """(the step of the newest checkpoint that is whole, its facts); it is loaded."""
        found = newest_good(self._place, self._ranks, tell=self._run.say)
        if found is not None:
            self._load(found)
        if self._memory is not None:
            self._memory.only(None)
        return (None, {}) if found is None else (found.manifest.step, found.manifest.facts)

    def _from_memory(self) -> tuple[int | None, Mapping[str, Any]] | None:
        """The same from copies in memory, where they are not older than what the place has; its newest step."""
        if self._memory is None:
            return None
        began = time.monotonic()
        newest, _ = by_first(self._ranks, lambda: newest_whole(self._place))
        taken = self._memory.take(self._state.tensors, least=newest or 1)
        if taken is None:
            return None
        told, tensors = taken
        self._state.take(tensors)
        self._memory.only(self._run.steps_done)
        took = time.monotonic() - began
        self._run.say(f"resumed after step {self._run.steps_done}, from copies in memory in {took:.2f} s")
        return newest, told["facts"]

    def _load(self, found: Found) -> None:
        self._take(found)
        mesh = found.manifest.mesh
        again = "" if mesh == str(self._run.mesh.degrees) else f", saved on {mesh}"
        self._run.say(f"resumed after step {found.manifest.step}{again}")

    def _take(self, found: Found) -> None:
        tensors = self._state.tensors()
        load(found, tensors, self._ranks)
        self._state.take(tensors)
        same_mesh = found.manifest.mesh == str(self._run.mesh.degrees)
        who = self._who if same_mesh else "another mesh"
        restore_generators(found, self._ranks, who, seed=self._run.seed, alike=self._run.dropout_rank)

    # --- when ranks are lost (reform.companion) ------------------------------------------------------

    def let_go(self) -> None:
        """What is in flight will never be good."""
        if self._trying is not None:
            self._trying.saver.abandon()
            self._trying = None
        if self._memory is not None:
            with contextlib.suppress(CheckpointError):
                self._memory.close()
            self._memory = None

    def join(self) -> None:
        """A group of all ranks for saves. A collective."""
        with self._run.connecting():
            self._ranks = all_ranks()

    def met(self) -> None:
        """Save on after the newest checkpoint that is there. A collective."""
        self._rollbacks = Rollbacks()  # the same on all ranks, of which some have seen none
        self._open_memory()
        self._go_on_from(*by_first(self._ranks, lambda: newest_whole(self._place, self._run.steps_done)))

    # --- at each step --------------------------------------------------------------------------------

    def _wants_save(self) -> bool:
        """The first rank's clock decides; all hear of it."""
        run = self._run
        return self._trying is not None and run.world.is_first and self._trying.wants(run.steps_done + 1)

    def _save_takes(self) -> float:
        """Seconds, as far as this rank knows."""
        cost = self._trying.saver.cost if self._trying is not None else None
        return cost.duration if cost is not None else 0.0

    def _wait_until_staged(self) -> None:
        if self._trying is not None:
            self._trying.saver.wait_until_staged()
        if self._memory is not None:
            self._memory.wait_until_staged()

    def _hear(self, agreed: Said) -> None:
        why, self._run.go_back = self._run.go_back, ""
        if why and not agreed.stop:
            with self._run.during("save"):
                self._go_back(why)
            return
        if agreed.stop and not agreed.can_save:
            takes, left = agreed.save_takes / 1000, agreed.time_left / 1000
            last = f"the newest good one is of step {self._resumed.good}"
            self._warn(f"leaving without a checkpoint: it takes {takes:.1f} s, and {left:.1f} s are left; {last}")
        elif agreed.stop:
            self._save_and_leave(agreed.time_left / 1000)
        elif agreed.save:
            self._save()
        if not agreed.stop:
            self._copy()

    def _go_back(self, why: str) -> None:
        """To the newest good checkpoint, and on behind the batch that went wrong. Raises TrainError if it is no use."""
        run, trying, data = self._run, self._resumed, self._state.data
        trying.settle()
        step, used, newest = run.steps_done, data.samples, trying.good
        found = newest_good(self._place, self._ranks, tell=run.say, before=self._rollbacks.before(newest))
        if found is None:
            raise TrainError(f"{why}; there is no checkpoint to go back to")
        back = found.manifest.step
        self._rollbacks = self._rollbacks.after(newest, back)
        if self._rollbacks.count > ROLLBACKS:
            raise TrainError(f"{why}; all went back {ROLLBACKS} times in a row, each time further, and it came again")
        self._take(found)
        skipped, data.samples = (used - data.samples) // data.global_batch, used
        run.skipped, run.recent = 0, Recent(found.manifest.facts.get(_LOSSES, ()))
        trying.went_back(back)
        if self._memory is not None:
            self._memory.only(None)
        count = f"rollback {self._rollbacks.count} of at most {ROLLBACKS} in a row"
        self._warn(
            f"{why}\nall go back from step {step} to the checkpoint of step {back}, and on from sample {used:,}: "
            f"{skipped} batches are left out ({count})"
        )

    def _save_and_leave(self, seconds: float) -> None:
        """Raises CheckpointError where what was trained is lost: it is not to look like an end in good order."""
        step, self._leaves = self._run.steps_done, True
        try:
            with self._run.during("save"):
                self._resumed.insist(self._begin, step, seconds=seconds)
        except CheckpointError as error:
            good = self._resumed.good
            raise CheckpointError(
                f"the save before leaving has failed: {error}\n"
                f"the newest good checkpoint is of step {good}: {step - good} steps will be trained again"
            ) from error

    def _close(self) -> None:
        """What is still in flight when a loop is left early or by an error: that error is not to be hidden."""
        if self._trying is None:
            return
        try:
            with self._run.during("save"):
                if self._memory is not None:
                    self._memory.close()
                self._resumed.saver.close()
        except CheckpointError as error:
            self._warn(f"the last checkpoint was not saved: {error}")

    def _warn(self, text: str) -> None:
        self._run.say(f"windlass: {text}", stream="stderr")


ROLLBACKS = 3
"""So often in a row, each to an older checkpoint than the last, before there is a newer good one."""


@dataclass(frozen=True, slots=True)
class Rollbacks:
    """Those since the last good checkpoint was made."""

    count: int = 0
    step: int = 0
    """Where the last one went to."""

    def before(self, newest: int) -> int | None:
        """The newest step that the next one may go back to; None: any. `newest`: of the checkpoints there are.

        A checkpoint that has led into trouble is not taken twice: the trouble may be in it already.
        """
        return self.step - 1 if self.count and newest <= self.step else None

    def after(self, newest: int, step: int) -> Rollbacks:
        """This one counted, which goes to `step`; the first again where training had come further meanwhile."""
        return Rollbacks(self.count + 1 if self.count and newest <= self.step else 1, step)
