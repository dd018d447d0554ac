"""`Run`: the one object of a training script."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, Self
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from windlass import wire
from windlass.train import process
from windlass.train.asked import Asked
from windlass.train.checkpoint import rng
from windlass.train.checkpoints import Checkpoints
from windlass.train.data.batch import Batch
from windlass.train.data.loader import Data, Indexed, is_indexed
from windlass.train.data.order import Order
from windlass.train.data.reading import Reading
from windlass.train.data.slices import Cut, cut
from windlass.train.data.stream import Stream
from windlass.train.ending import fail, in_good_order
from windlass.train.errors import TrainError
from windlass.train.health.signals import Requests
from windlass.train.health.spike import Recent, Spike
from windlass.train.mesh.choose import chosen
from windlass.train.mesh.degrees import Degrees
from windlass.train.mesh.device_mesh import Mesh, mesh_of
from windlass.train.mesh.machine import count_parameters, degrees_asked, machine_of
from windlass.train.parallel.model import Builder, ParallelModel
from windlass.train.parallel.parallelize import parallelize
from windlass.train.parallel.plan import Plan
from windlass.train.parallel.precision import Numbers
from windlass.train.reform.connections import Connections
from windlass.train.reform.gang import Companion, Gang
from windlass.train.reform.survival import Survival
from windlass.train.state import State, Stateful
from windlass.train.step.backward import Backward, LossFunction, mean_loss
from windlass.train.step.finite import Trouble
from windlass.train.step.optimizer import NO_SCALING, Groups, LossScale, measured, moved, optimizer_of, parameters_of
from windlass.train.step.vote import Said, Vote
from windlass.train.telemetry.heart import Heart
from windlass.train.telemetry.line import line, values_of
from windlass.train.telemetry.own import Own
from windlass.train.telemetry.phases import Phase, Phases
from windlass.train.telemetry.report import Progress, Reporter
from windlass.train.telemetry.trackers import run_name
from windlass.train.telemetry.tracking import Tracking

_PATIENCE = 30.0
"""Seconds for trackers at the end, and half of what is left where somebody is going to be killed."""
_SKIPPED_IN_A_ROW = 20
"""Steps without a number after which nothing better is to be expected."""


class Run:
    """One training run on this rank. Use it in `with`: at its end process groups are given back.

    An error inside ends all ranks, and is told once. The exit code says whether starting again would help.
    """

    def __init__(
        self, world: process.World, connections: Connections, degrees: Degrees | None, low: Numbers, asked: Asked
    ) -> None:
        """`connections`: of the process groups. `degrees`: None until the model is known. A collective."""
        self.world, self._connections = world, connections
        self.seed = asked.seed
        self.steps_done = 0
        self.skipped = 0
        """Steps in a row that were not taken, as their gradients were no numbers."""
        self._low, self._asked = low, asked
        self._scale = LossScale() if low.needs_scaling else NO_SCALING
        self._heart = Heart(world.rank)
        self._heart.when_told(connections.cut)
        self._requests = Requests()
        self._survival = Survival(self._heart, self._requests)
        self._gang = Gang(self, self._heart, self._survival, connections)
        self._phases = Phases(world.device, self._heart.beat)
        self._backward = Backward(self._phases)
        self._mesh: Mesh | None = None
        self._be_on(degrees)
        self._micro_batches: WeakKeyDictionary[Data | Stream, int | None] = WeakKeyDictionary()
        self._own = Own(self._phases, world.device)
        self._tracking = Tracking(asked.trackers if world.is_first else (), run_name())
        self._used_by_step: Data | Stream | None = None
        """Whose batch the next step uses up."""
        self._told: dict[str, float] = {}
        self._planned = self._samples = 0
        self.recent = Recent()
        """Losses that the next one is compared with, where spikes are looked for."""
        self.go_back = ""
        """Why all are to go back to a checkpoint after this step."""
        self._agreed = Said()
        self._hearers: list[Callable[[Said], None]] = []
        self._wants_save: Callable[[], bool] = bool
        self._save_takes: Callable[[], float] = float
        self._before_moving: Callable[[], None] = _nothing

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._requests.close()
        left = self._requests.time_left()
        self._tracking.close(_PATIENCE if left is None else min(_PATIENCE, left / 2000))
        self._own.close()
        self._heart.close()
        try:
            if isinstance(error, Exception):
                fail(error, self.world.rank)
        finally:
            if error is not None and not in_good_order(error):
                self._connections.cut()  # what waits for others would hold up the end of this process
            process.leave()

    @property
    def mesh(self) -> Mesh:
        """Which rank does what. Raises TrainError before `parallelize` if it is to be chosen by the model."""
        if self._mesh is None:
            raise TrainError('mesh="auto" is chosen by the model: call run.parallelize before anything else')
        return self._mesh

    @property
    def dropout_rank(self) -> int:
        """Which ranks draw alike: those that differ only in `tp` and hold copies of the same activations."""
        here, degrees = self.mesh.here, self.mesh.degrees
        return self.mesh.data_rank + degrees.data_ranks * (here.cp + degrees.cp * here.pp)

    # --- what is trained -----------------------------------------------------------------------------

    def parallelize(
        self,
        build: Builder,
        plan: Plan | None = None,
        optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW,
        *,
        groups: Groups | None = None,
        **options: Any,
    ) -> tuple[ParallelModel, torch.optim.Optimizer]:
        """A model on the mesh, and its optimizer. Every rank builds it whole, on the CPU, with the same numbers.

        `groups`: from the model to parameter groups; the default is one of all. `options` go to the optimizer.
        Raises TrainError if the model cannot be split so.
        """
        if self._mesh is None:
            choice = chosen(count_parameters(build), machine_of(self.world))
            with self.connecting():
                self._mesh = mesh_of(choice.degrees, self.world.rank, self.world.device)
            self.say(f"mesh {choice.degrees}: {choice.why}")
        model = parallelize(build, plan or Plan(), self.mesh, self._low, self._asked.ac, self.seed, self.world.device)
        # From here on each data rank draws its own dropout, and each stage too.
        torch.manual_seed(self.seed + 1 + self.dropout_rank)
        made = optimizer_of(optimizer, model.module, groups, options)
        self._gang.models.append(model)
        self._gang.optimizers.append(made)
        return model, made

    def data(
        self,
        dataset: Indexed | Iterable[Any],
        global_batch: int,
        *,
        micro_batch: int | None = None,
        shuffles: bool = True,
        workers: int = 0,
        collate: Callable[[list[Any]], Any] | None = None,
    ) -> Data | Stream:
        """Batches of `global_batch` samples in all, the same ones in the same order on any number of ranks.

        `micro_batch`: how many samples go through the model at once at most; the gradients of the rest are added up.
        In a pipeline all micro-batches have the same size, so it divides. Raises TrainError if the numbers do not fit.
        """
        degrees = self.mesh.degrees
        size = len(dataset) if isinstance(dataset, Sized) else None
        cuts = self._cut(global_batch, micro_batch, size)
        if degrees.pp > 1 and global_batch % (degrees.data_ranks * cuts.micros):
            raise TrainError(
                f"pp: a batch of {global_batch} on {degrees.data_ranks} data ranks does not make {cuts.micros} "
                f"micro-batches of one size; a global_batch that {degrees.data_ranks * cuts.micros} divides"
            )
        reading = Reading(self.world.device, workers, collate)
        if is_indexed(dataset):
            order = Order(len(dataset), self.seed, shuffles)
            made: Data | Stream = Data(dataset, order, cuts, self.mesh.data_rank, reading)
        else:
            assert isinstance(dataset, Iterable)  # noqa: S101 - what is neither has been refused
            made = Stream(dataset, cuts, self.mesh.data_rank, reading, self.seed)
        self._micro_batches[made] = micro_batch
        return made

    def _cut(self, global_batch: int, micro_batch: int | None, size: int | None) -> Cut:
        return cut(global_batch, self.mesh.degrees.data_ranks, self._micro(global_batch, micro_batch), size)

    def _micro(self, global_batch: int, asked: int | None) -> int | None:
        """In a pipeline twice as many micro-batches as stages, if nobody says and there are samples for that."""
        degrees = self.mesh.degrees
        if asked is not None or degrees.pp == 1:
            return asked
        here = global_batch // degrees.data_ranks
        counts = [count for count in range(1, here + 1) if here % count == 0]
        enough = [count for count in counts if count >= 2 * degrees.pp]
        return here // (enough or counts or [1])[0 if enough else -1]

    # --- one step ------------------------------------------------------------------------------------

    def steps(self, data: Data | Stream, max_steps: int) -> Iterator[Batch]:
        """Batches until so many steps are done. When somebody is asked to leave, all leave together after a step.

        Leaving is by SystemExit with the code of a job that was preempted, which is started again at no cost.
        A step during which ranks were lost, and that no rank has finished, comes again on those that are there then.
        """
        self._planned, self._samples = max_steps, data.global_batch
        self._gang.begin(data)
        batches = data.batches()
        try:
            while self.steps_done < max_steps:
                before = self.steps_done
                with self._phases.during("data"):
                    batch = next(batches)
                # What is drawn in a step depends on its place, not on what this process has drawn before.
                rng.seed_anew(self.seed, self.dropout_rank, before)
                self._gang.keep()
                self._used_by_step = data
                yield batch
                done = self.steps_done != before
                goes_straight_on = self._finish(data, before)
                if self._survival.is_void:
                    self._gang.go_on(data, again=not done)
                if not goes_straight_on:  # what was read ahead is of another place
                    batches = data.batches()
                elif self._agreed.stop:
                    self.say(f"asked to leave: all ranks leave after step {self.steps_done}", stream="stderr")
                    sys.exit(wire.RankExitCode.PREEMPTED)
        finally:
            self._survival.end()

    def _finish(self, data: Data | Stream, before: int) -> bool:
        """What there is to do when a step is done. Returns whether the next batch is the one behind it."""
        if self.steps_done == before and not self._survival.is_void:
            raise TrainError("the loop took no step: call run.step(optimizer) once for each batch")
        if self._survival.is_void:
            return False
        used = data.samples
        # Half of a checkpoint that all go back to is nothing to go on with.
        with contextlib.nullcontext() if self.go_back else self._survival.survived():
            for hear in self._hearers:
                hear(self._agreed)
        if self.go_back:
            raise TrainError(f"{self.go_back}; to go back, keep checkpoints: run.checkpoint(…).resume().steps(…)")
        return not self._survival.is_void and data.samples == used and before < self.steps_done

    def backward(self, model: ParallelModel, batch: Batch, loss_fn: LossFunction) -> Tensor:
        """Add up the gradients of a batch. Returns this rank's share of its mean loss, a scalar on the device.

        `loss_fn`: (outputs, targets) → the mean loss of those samples. The same call in a pipeline, where each rank
        runs its stages. Where ranks are lost meanwhile the share is NaN, and the step comes again.
        """
        if not self._survival.is_void:
            with self._survival.survived():
                return self._backward(model, batch, loss_fn, self._scale.factor)
        return torch.full((), torch.nan, device=model.device)

    def step(self, optimizer: torch.optim.Optimizer, *, clip: float | None = None, loss: Tensor | None = None) -> None:
        """Agree with all ranks, clip the gradients' norm to `clip`, step, and forget the gradients."""
        if not self._survival.is_void:
            with self._survival.survived():
                self._step(optimizer, clip, loss)

    def _step(self, optimizer: torch.optim.Optimizer, clip: float | None, loss: Tensor | None) -> None:
        # 1. say what this rank has to say, while gradients are completed
        left = self._requests.time_left()
        measures = clip is not None or self._low.needs_scaling
        trouble = Trouble(loss, () if measures else parameters_of(optimizer), self.world.device)
        takes = int(self._save_takes() * 1000)
        said = Said(bool(self._requests.asked), self._wants_save(), not_finite=trouble.known, save_takes=takes)
        share = float(loss) if loss is not None and self._asked.spike else 0.0
        self._vote.begin(said if left is None else replace(said, time_left=left), share)
        with self._phases.during("optimizer"):
            trouble.spread()
            norm = measured(optimizer, self.mesh.group("pp"), self._scale.factor) if measures else None
        # 2. hear what the others say
        with self._phases.during("agree"):
            heard = self._vote.end()
        bad = heard.not_finite or trouble.known_late() or (norm is not None and not bool(torch.isfinite(norm)))
        self._agreed, finite = replace(heard, not_finite=bad), not bad
        spike = self._spike(loss) if finite else None
        # 3. move, or not
        with self.during("save"):
            self._before_moving()
        with self._phases.during("optimizer"):
            if finite and spike is None:
                moved(optimizer, norm, clip, self._scale.factor)
                self.skipped = 0
            else:
                self._refuse(norm, spike)
            optimizer.zero_grad(set_to_none=True)
        self._scale = self._scale.after(finite=finite) if self._low.needs_scaling else self._scale
        self.steps_done += 1
        if self._used_by_step is not None:  # now, as a script may save before its batch ends
            self._used_by_step.advance()
            self._used_by_step = None
        # 4. tell
        self._tell(loss)

    def evaluate(
        self, model: ParallelModel, dataset: Indexed, loss_fn: LossFunction, *, global_batch: int, batches: int = 0
    ) -> float:
        """The mean loss over a dataset in its own order, without dropout and gradients. A collective.

        `batches`: how many at most; 0: as many whole ones as there are. Raises TrainError if there is not one.
        NaN where ranks are lost meanwhile.
        """
        data = self.data(dataset, global_batch, shuffles=False)
        count = min(batches or len(dataset), len(dataset) // global_batch)
        model.train(mode=False)
        try:
            with self.during("evaluate"):
                found = [self._evaluated(model, batch, loss_fn) for batch in itertools.islice(data.batches(), count)]
        finally:
            model.train()
        return sum(found) / len(found)

    def _evaluated(self, model: ParallelModel, batch: Batch, loss_fn: LossFunction) -> float:
        if not self._survival.is_void:
            with self._survival.survived():
                return self.mean_loss(model, self._backward.evaluate(model, batch, loss_fn))
        return math.nan

    # --- what is kept --------------------------------------------------------------------------------

    def state(
        self, model: ParallelModel, optimizer: torch.optim.Optimizer, data: Data | Stream, **more: Stateful
    ) -> State:
        """All that a checkpoint has: these, this run's own, and what else has `state_dict` and `load_state_dict`."""
        self._gang.more = more
        return State(model, optimizer, data, {"run": self, **more})

    def checkpoint(
        self, place: str = "", state: State | None = None, *, every: str = "10m", keep: int = 3, copies: str = ""
    ) -> Checkpoints:
        """Checkpoints of a state at a place: a folder, or a bucket as s3://bucket/run.

        `place`: "" is what the job says, else the folder `checkpoints`. `every`: a time such as 10m, "500 steps", or
        "auto": by what saves are measured to cost, and how often something fails.
        `keep`: how many of the newest stay. `copies`: as "10 steps", how often each rank's state
        is copied into the memory of its node and of another one, to go on from when ranks or a node are lost; under
        windlass agent. A collective. Raises CheckpointError.
        """
        if state is None:
            raise TrainError("checkpoint(place, state): state=run.state(model, optimizer, data) is missing")
        where = place or os.environ.get(wire.CHECKPOINTS, "checkpoints")
        return Checkpoints(self, where, state, every, keep, copies)

    def listen(
        self,
        hear: Callable[[Said], None],
        wants_save: Callable[[], bool],
        save_takes: Callable[[], float],
        before_moving: Callable[[], None],
    ) -> None:
        """Have these called at each step: after it, two for the vote, and before parameters change."""
        self._hearers.append(hear)
        self._wants_save, self._save_takes, self._before_moving = wants_save, save_takes, before_moving

    def state_dict(self) -> dict[str, Any]:
        """How far this run is."""
        return {"steps_done": self.steps_done, "scale": self._scale.factor, "scale_steps": self._scale.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self._heart.step = self.steps_done = int(state["steps_done"])
        self._scale = LossScale(float(state["scale"]), int(state["scale_steps"]))

    def mean_loss(self, model: ParallelModel, share: Tensor) -> float:
        """The mean loss of the global batch from every rank's share. A collective: all ranks call it.

        NaN where a rank was lost with its share.
        """
        if not self._survival.is_void:
            with self._survival.survived():
                return float(mean_loss(share, model, self.world.control))
        return math.nan

    def _tell(self, loss: Tensor | None) -> None:
        """The console and trackers when a line is due; the agent then, and once in a second of this rank alone."""
        self._heart.step = self.steps_done
        self._reporter.count()
        is_new, every = self._own.count(), self._asked.tells_every
        if loss is not None and every and self.steps_done % every == 0:
            progress = Progress(self.steps_done, self._planned, self._samples, self._asked.flops)
            told = self._reporter.told(loss, progress, self.mesh.degrees)
            self._told, is_new = values_of(told), True
            self._heart.reported(self._told)
            self._tracking.log(self._told | self._own.values, self.steps_done)
            if self._asked.report_every:
                self.say(line(told))
        if is_new:
            self._heart.measured(self._told | self._own.values)

    def _spike(self, loss: Tensor | None) -> Spike | None:
        """Whether the mean loss of the batch is one: all ranks have heard of the same shares."""
        if loss is None or not self._asked.spike:
            return None
        degrees = self.mesh.degrees
        return self.recent.judged(sum(self._vote.shares) / (degrees.data_ranks * degrees.cp * degrees.tp))

    def _refuse(self, norm: Tensor | None, spike: Spike | None) -> None:
        """A step that is not taken: in fp16 that is how the scale is found. Raises TrainError."""
        self.skipped += 1
        norms = "its loss or a gradient" if norm is None else f"its gradients' norm is {float(norm)}, or its loss"
        what = f"{norms} is no number" if spike is None else str(spike)
        policy = self._asked.spike if spike else self._asked.not_finite
        if spike is None and self._low.needs_scaling and self.skipped <= _SKIPPED_IN_A_ROW:
            return
        if policy == "skip" and self.skipped <= _SKIPPED_IN_A_ROW:
            self.say(f"step {self.steps_done} is left out: {what}", stream="stderr")
            return
        if policy == "rollback":
            self.go_back = f"step {self.steps_done}: {what}"
            return
        raise TrainError(
            f"step {self.steps_done}: {what}; a lower learning rate, clip=1.0, bf16 instead of fp16, "
            f'or {"spike" if spike else "not_finite"}="skip" for single bad batches, or "rollback"'
        )

    # --- when ranks are lost -------------------------------------------------------------------------

    @property
    def joins(self) -> bool:
        """Whether this rank has been started beside others that go on, and has not got their state yet."""
        return self._survival.joins

    def unless_void(self, work: Callable[[], None]) -> None:
        """Do it with all ranks, unless some are lost: then, and where they are lost meanwhile, the step comes again."""
        if not self._survival.is_void:
            with self._survival.survived():
                work()

    def connecting(self) -> contextlib.AbstractContextManager[None]:
        """Process groups of all ranks are made within it, so that they can be cut when ranks are lost."""
        return self._connections.noted()

    def accompany(self, companion: Companion) -> None:
        """Have this brought along when this rank goes on with others."""
        self._gang.companions.append(companion)

    def join(self) -> None:
        """Be one of the ranks that the variables name now, each with all of the model. A collective."""
        was_first = self.world.is_first
        with self.connecting():
            self.world = process.join()
        if self.world.is_first and not was_first:
            self._tracking = Tracking(self._asked.trackers, run_name())
        self._be_on(degrees_asked(self._asked.mesh) or Degrees(dp=self.world.size))

    def _be_on(self, degrees: Degrees | None) -> None:
        with self.connecting():
            self._mesh = None if degrees is None else mesh_of(degrees, self.world.rank, self.world.device)
        self._vote = Vote(self.world.control, hears_losses=bool(self._asked.spike))
        self._reporter = Reporter(self.world.control, self._phases, self.world.device)

    def cut_anew(self, data: Data | Stream) -> None:
        """Let it read what is this rank's on the mesh as it is now."""
        data.read(self._cut(data.global_batch, self._micro_batches[data], None), self.mesh.data_rank)

    # --- words ---------------------------------------------------------------------------------------

    def during(self, phase: Phase) -> contextlib.AbstractContextManager[None]:
        """Within it this rank is in that phase, for the time of a step and for the agent's verdict on hangs."""
        return self._phases.during(phase)

    def say(self, text: str, *, stream: Literal["stdout", "stderr"] = "stdout") -> None:
        """Print a line, on the first rank alone."""
        if self.world.is_first:
            print(text, file=sys.stderr if stream == "stderr" else sys.stdout, flush=True)


def _nothing() -> None:
    """Nobody has to be waited for."""
