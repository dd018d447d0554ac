"""Checkpoints of one run: begun where the newest good one is, saved when they are due, and before all leave."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from windlass.train.checkpoint.due import due, every_of
from windlass.train.checkpoint.finding import Found, newest_good
from windlass.train.checkpoint.loading import load, restore_generators
from windlass.train.checkpoint.saver import Saver
from windlass.train.checkpoint.store.places import place_of
from windlass.train.checkpoint.store.retention import Retention
from windlass.train.checkpoint.together import all_ranks
from windlass.train.data.batch import Batch
from windlass.train.state import State
from windlass.train.step.vote import Said

if TYPE_CHECKING:
    from windlass.train.run import Run


class Checkpoints:
    """Made by `Run.checkpoint`; used as `for batch in checkpoints.resume().steps(max_steps)`."""

    def __init__(self, run: Run, place: str, state: State, every: str, keep: int) -> None:
        self._run, self._state = run, state
        self._place = place_of(place)
        self._every = every_of(every)
        self._keep = Retention(keep)
        self._ranks = all_ranks()
        self._saver: Saver | None = None
        self._saved_step, self._saved_at = 0, time.monotonic()
        run.listen(self._hear, self._wants_save, self._wait_until_staged)

    def resume(self) -> Self:
        """Go on from the newest checkpoint that is whole; begin at the beginning if there is none.

        A collective. Raises CheckpointError, on all ranks alike: for one of another model before anything is read.
        """
        found = newest_good(self._place, self._ranks, tell=self._run.say)
        if found is not None:
            self._load(found)
        after = None if found is None else found.manifest.step
        self._saver = Saver(self._place, self._ranks, after=after, keep=self._keep, who=self._who)
        self._saved_step, self._saved_at = after or 0, time.monotonic()
        return self

    def steps(self, max_steps: int) -> Iterator[Batch]:
        """Batches until so many steps are done since the first start.

        Saves when it is due, when all are asked to leave, and at the end.
        """
        if self._saver is None:
            self.resume()
        try:
            yield from self._run.steps(self._state.data, max_steps)
            self.save(blocking=True)
        finally:
            assert self._saver is not None  # noqa: S101 - resumed above
            self._saver.close()

    def save(self, *, blocking: bool = False) -> None:
        """Save now. A collective. Unless `blocking`, it goes on behind the next steps."""
        assert self._saver is not None, "resume() comes first"  # noqa: S101
        run = self._run
        self._saver.save(
            self._state.tensors(),
            run.steps_done,
            samples=self._state.data.samples,
            mesh=str(run.mesh.degrees),
            facts={"seed": run.seed},
            # The next forward pass may change them while the rest is copied.
            at_once=[f"model.{name}" for name, _ in self._state.model.module.named_buffers()],
            blocking=blocking,
        )
        self._saved_step, self._saved_at = run.steps_done, time.monotonic()

    @property
    def _who(self) -> str:
        """This rank's coordinates: its generators are for whoever has the same."""
        here = self._run.mesh.here
        return f"{here.pp}-{here.dp}-{here.fsdp}-{here.cp}-{here.tp}"

    def _load(self, found: Found) -> None:
        tensors = self._state.tensors()
        load(found, tensors, self._ranks)
        self._state.take(tensors)
        same_mesh = found.manifest.mesh == str(self._run.mesh.degrees)
        who = self._who if same_mesh else "another mesh"
        restore_generators(found, self._ranks, who, seed=self._run.seed, alike=self._run.dropout_rank)
        again = "" if same_mesh else f", saved on {found.manifest.mesh}"
        self._run.say(f"resumed after step {found.manifest.step}{again}")

    # --- at each step --------------------------------------------------------------------------------

    def _wants_save(self) -> bool:
        """The first rank's clock decides; all hear of it."""
        step = self._run.steps_done + 1
        return self._run.world.is_first and due(self._every, step, time.monotonic(), self._saved_step, self._saved_at)

    def _wait_until_staged(self) -> None:
        if self._saver is not None:
            self._saver.wait_until_staged()

    def _hear(self, agreed: Said) -> None:
        if agreed.stop or agreed.save:
            self.save(blocking=agreed.stop)
