"""The run of a training script: its mesh, model, data, steps and checkpoints behind one object. `start` creates it."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from types import TracebackType
from typing import Any, Literal, Self
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from windlass import wire
from windlass.train import process_group
from windlass.train.checkpoint import rng_state
from windlass.train.data.batch import Batch
from windlass.train.data.indexed_loader import IndexedDataset
from windlass.train.data.loader import Loader, build_loader, plan_split
from windlass.train.data.sample_reader import SampleReader
from windlass.train.errors import TrainError
from windlass.train.health.stop_signals import StopRequests
from windlass.train.mesh.auto_mesh import choose_mesh
from windlass.train.mesh.degrees import Degrees
from windlass.train.mesh.device_mesh import Mesh, build_mesh
from windlass.train.mesh.hardware import count_parameters, detect_hardware, requested_degrees
from windlass.train.options import RunOptions
from windlass.train.parallel.model import Builder, ParallelModel
from windlass.train.parallel.parallelization import parallelize
from windlass.train.parallel.plan import Plan
from windlass.train.parallel.precision import PrecisionPolicy
from windlass.train.rank_exit import bound_end, exit_with_error, is_clean_exit
from windlass.train.recovery.connections import GroupConnections
from windlass.train.recovery.in_place import InPlaceRecovery, ReinitHook
from windlass.train.recovery.peer_loss import PeerLossGuard
from windlass.train.run_checkpoints import RunCheckpoints
from windlass.train.run_reports import RunReports
from windlass.train.step.backward import BackwardPass, LossFunction, mean_loss
from windlass.train.step.bad_steps import BadSteps
from windlass.train.step.consensus import StepConsensus, StepReport
from windlass.train.step.optimizer import GroupBuilder, LossScale, build_optimizer
from windlass.train.step.optimizer_step import OptimizerStep
from windlass.train.telemetry.compile_marks import CompileMarks
from windlass.train.telemetry.heartbeat import HeartbeatSender
from windlass.train.telemetry.phase_timers import Phase, PhaseTimers
from windlass.train.training_state import Stateful, TrainingState


class Run:
    """One training run on this rank, used as a context manager that destroys process groups at its end.

    An error inside ends all ranks and is reported once. The exit code says whether a restart can help.
    """

    def __init__(
        self,
        world: process_group.World,
        connections: GroupConnections,
        degrees: Degrees | None,
        precision: PrecisionPolicy,
        options: RunOptions,
        heartbeat: HeartbeatSender,
    ) -> None:
        """`connections`: of the process groups. `degrees`: None until the model is known. A collective."""
        self.world, self._connections = world, connections
        self.seed = options.seed
        self.steps_done = 0
        self._precision, self._options = precision, options
        self.bad_steps = BadSteps(options, needs_scaling=precision.needs_scaling)
        self._heartbeat = heartbeat
        self._heartbeat.on_membership(connections.shut_down)
        self._requests = StopRequests()
        self._peer_loss = PeerLossGuard(self._heartbeat, self._requests)
        self._recovery = InPlaceRecovery(self, self._heartbeat, self._peer_loss, connections)
        self._timers = PhaseTimers(world.device, self._heartbeat.beat, self._heartbeat.mark)
        self._compile_marks = CompileMarks(self._timers)
        self._backward = BackwardPass(self._timers)
        self._optimizer_step = OptimizerStep(
            precision,
            self.bad_steps,
            self._requests,
            self._timers,
            world.device,
            functools.partial(self.print, stream="stderr"),
        )
        self._reports = RunReports(options, world, self._timers, self._heartbeat)
        self._mesh: Mesh | None = None
        self._set_mesh(degrees)
        self._micro_batches: WeakKeyDictionary[Loader, int | None] = WeakKeyDictionary()
        self._pending_loader: Loader | None = None
        """The loader whose batch the next step uses."""
        self._outcome = StepReport()
        self._step_listeners: list[Callable[[StepReport], None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._requests.close()
        self._compile_marks.remove()
        self._reports.close(self._requests.time_left_ms())
        self._heartbeat.close()
        with bound_end(error, self.world):
            try:
                if isinstance(error, Exception):
                    exit_with_error(error, self.world.rank)
            finally:
                if error is not None and not is_clean_exit(error):
                    self._connections.shut_down()  # threads that wait for peers would block the exit
                process_group.leave()

    @property
    def mesh(self) -> Mesh:
        """The assignment of ranks to work. Raises TrainError before `parallelize` if the model decides on it."""
        if self._mesh is None:
            raise TrainError('mesh="auto" depends on the model: call run.parallelize before anything else')
        return self._mesh

    @property
    def dropout_rank(self) -> int:
        """Index of this rank's random stream, equal on ranks that differ only in `tp`, with the same activations."""
        here, degrees = self.mesh.coordinates, self.mesh.degrees
        return self.mesh.data_rank + degrees.data_ranks * (here.cp + degrees.cp * here.pp)

    # --- model and data ------------------------------------------------------------------------------

    def parallelize(
        self,
        build: Builder,
        plan: Plan | None = None,
        optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW,
        *,
        groups: GroupBuilder | None = None,
        **options: Any,
    ) -> tuple[ParallelModel, torch.optim.Optimizer]:
        """Build a model on the mesh, and its optimizer. Every rank builds the whole model on the CPU with equal values.

        `groups`: function from the model to parameter groups. `options` go to the optimizer. Raises TrainError.
        """
        if self._mesh is None:
            choice = choose_mesh(count_parameters(build), detect_hardware(self.world))
            with self.creating_groups():
                self._mesh = build_mesh(choice.degrees, self.world.rank, self.world.device)
            self.print(f"mesh {choice.degrees}: {choice.why}")
        model = parallelize(
            build, plan or Plan(), self.mesh, self._precision, self._options.ac, self.seed, self.world.device
        )
        # From here on each data rank and each stage draws its own dropout.
        torch.manual_seed(self.seed + 1 + self.dropout_rank)
        made = build_optimizer(optimizer, model.module, groups, options)
        self._compile_marks.register()
        self._recovery.models.append(model)
        self._recovery.optimizers.append(made)
        return model, made

    def data(
        self,
        dataset: IndexedDataset | Iterable[Any],
        global_batch: int,
        *,
        micro_batch: int | None = None,
        shuffles: bool = True,
        workers: int = 0,
        collate: Callable[[list[Any]], Any] | None = None,
    ) -> Loader:
        """Return batches of `global_batch` samples over all ranks: the same samples and order on any number of ranks.

        `micro_batch`: maximum number of samples in one forward pass; gradients are accumulated over micro-batches.
        In a pipeline all micro-batches have the same size. Raises TrainError if the numbers do not fit.
        """
        size = len(dataset) if isinstance(dataset, Sized) else None
        split = plan_split(global_batch, micro_batch, self.mesh.degrees, size)
        reader = SampleReader(self.world.device, workers, collate)
        loader = build_loader(dataset, split, self.mesh.data_rank, reader, seed=self.seed, shuffles=shuffles)
        self._micro_batches[loader] = micro_batch
        return loader

    # --- steps ---------------------------------------------------------------------------------------

    def steps(self, data: Loader, max_steps: int) -> Iterator[Batch]:
        """Yield batches until `max_steps` steps are done. After a stop signal to any rank, all ranks stop after a step.

        They stop by SystemExit with the code of a preempted job, whose restart is free. A step during which ranks were
        lost, and which no rank has finished, is repeated after recovery.
        """
        self._reports.planned_steps, self._reports.samples_per_step = max_steps, data.global_batch
        self._recovery.start(data)
        batches = data.batches()
        try:
            while self.steps_done < max_steps:
                before = self.steps_done
                with self._timers.during("data"):
                    batch = next(batches)
                # Random numbers of a step depend on its index, not on earlier draws of this process.
                rng_state.reseed(self.seed, self.dropout_rank, before)
                self._recovery.take_snapshot()
                self._pending_loader = data
                yield batch
                done = self.steps_done != before
                is_consecutive = self._finish_step(data, before)
                if self._peer_loss.is_aborted:
                    self._recovery.recover(data, is_aborted=not done)
                if not is_consecutive:  # prefetched batches belong to another position
                    batches = data.batches()
                elif self._outcome.stop:
                    self.print(f"stop requested: all ranks stop after step {self.steps_done}", stream="stderr")
                    sys.exit(wire.RankExitCode.PREEMPTED)
        finally:
            self._peer_loss.disable()

    def _finish_step(self, data: Loader, before: int) -> bool:
        """Run the listeners of a finished step. Returns whether the next batch follows directly."""
        if self.steps_done == before and not self._peer_loss.is_aborted:
            raise TrainError("the loop took no step: call run.step(optimizer) once for each batch")
        if self._peer_loss.is_aborted:
            return False
        used = data.samples
        # A rollback that was interrupted by a lost rank has no complete state to recover.
        with contextlib.nullcontext() if self.bad_steps.rollback_reason else self._peer_loss.catch():
            for on_step in self._step_listeners:
                on_step(self._outcome)
        if self.bad_steps.rollback_reason:
            raise TrainError(
                f"{self.bad_steps.rollback_reason}; a rollback needs checkpoints: run.checkpoint(…).resume().steps(…)"
            )
        return not self._peer_loss.is_aborted and data.samples == used and before < self.steps_done

    def backward(self, model: ParallelModel, batch: Batch, loss_fn: LossFunction) -> Tensor:
        """Add the gradients of a batch. Returns this rank's share of its mean loss, a scalar on the device.

        `loss_fn`: (outputs, targets) → the mean loss of those samples. In a pipeline it runs this rank's stages.
        If ranks are lost meanwhile, the share is NaN and the step is repeated.
        """
        if not self._peer_loss.is_aborted:
            with self._peer_loss.catch():
                return self._backward(model, batch, loss_fn, self._optimizer_step.scale.factor)
        return torch.full((), torch.nan, device=model.device)

    def step(self, optimizer: torch.optim.Optimizer, *, clip: float | None = None, loss: Tensor | None = None) -> None:
        """Reach consensus with all ranks, clip the gradient norm to `clip`, step the optimizer, and drop gradients."""
        if not self._peer_loss.is_aborted:
            with self._peer_loss.catch():
                self._step(optimizer, clip, loss)

    def _step(self, optimizer: torch.optim.Optimizer, clip: float | None, loss: Tensor | None) -> None:
        self._outcome = self._optimizer_step.take(
            optimizer, self.mesh, self._consensus, self.steps_done, clip=clip, loss=loss
        )
        self.steps_done += 1
        if self._pending_loader is not None:  # before the next batch, because a script may save now
            self._pending_loader.advance()
            self._pending_loader = None
        line = self._reports.report(loss, self.steps_done, self.mesh.degrees)
        if line:
            self.print(line)

    def evaluate(
        self,
        model: ParallelModel,
        dataset: IndexedDataset,
        loss_fn: LossFunction,
        *,
        global_batch: int,
        batches: int = 0,
    ) -> float:
        """Return the mean loss over a dataset in its own order, without dropout and gradients. A collective.

        `batches`: maximum number of batches; 0 for all complete ones. Raises TrainError if there is none.
        NaN if ranks are lost meanwhile.
        """
        data = self.data(dataset, global_batch, shuffles=False)
        count = min(batches or len(dataset), len(dataset) // global_batch)
        model.train(mode=False)
        try:
            with self.during("evaluate"):
                found = [
                    self._evaluate_batch(model, batch, loss_fn) for batch in itertools.islice(data.batches(), count)
                ]
        finally:
            model.train()
        return sum(found) / len(found)

    def _evaluate_batch(self, model: ParallelModel, batch: Batch, loss_fn: LossFunction) -> float:
        if not self._peer_loss.is_aborted:
            with self._peer_loss.catch():
                return self.mean_loss(model, self._backward.evaluate(model, batch, loss_fn))
        return math.nan

    # --- checkpoints ---------------------------------------------------------------------------------

    def state(
        self,
        model: ParallelModel,
        optimizer: torch.optim.Optimizer,
        data: Loader,
        **more: Stateful,
    ) -> TrainingState:
        """Return the state to save: the arguments, and the run itself.

        `more`: objects with `state_dict` and `load_state_dict`.
        """
        self._recovery.extra_state = more
        return TrainingState(model, optimizer, data, {"run": self, **more})

    def checkpoint(
        self,
        location: str = "",
        state: TrainingState | None = None,
        *,
        every: str = "10m",
        keep: int = 3,
        replicas: str = "",
    ) -> RunCheckpoints:
        """Return the checkpoints of a state at a location: a folder, or a bucket as s3://bucket/run.

        `location`: "" is that of the job, else the folder `checkpoints`. `every`: a time such as 10m, "500 steps", or
        "auto": from measured save costs and the failure rate. `keep`: number of newest checkpoints to keep.
        `replicas`: as "10 steps", how often each rank's state is copied into the memory of its node and of another
        one, to resume from after a loss; needs windlass agent. A collective. Raises CheckpointError.
        """
        if state is None:
            raise TrainError("checkpoint(location, state): state=run.state(model, optimizer, data) is missing")
        where = location or os.environ.get(wire.CHECKPOINTS, "checkpoints")
        return RunCheckpoints(self, where, state, every, keep, replicas)

    def add_step_listener(
        self,
        on_step: Callable[[StepReport], None],
        wants_save: Callable[[], bool],
        save_duration: Callable[[], float],
        before_update: Callable[[], None],
    ) -> None:
        """Register callbacks of each step: one after it, two for its report, and one before parameters change."""
        self._step_listeners.append(on_step)
        step = self._optimizer_step
        step.wants_save, step.save_duration, step.before_update = wants_save, save_duration, before_update

    def report_checkpoint_age(self, age: Callable[[], float | None]) -> None:
        """Report the age of the newest checkpoint, in seconds, with the metrics of each step."""
        self._reports.checkpoint_age = age

    def state_dict(self) -> dict[str, Any]:
        """Return the progress of this run."""
        scale = self._optimizer_step.scale
        return {"steps_done": self.steps_done, "scale": scale.factor, "scale_steps": scale.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the progress."""
        self._heartbeat.step = self.steps_done = int(state["steps_done"])
        self._optimizer_step.scale = LossScale(float(state["scale"]), int(state["scale_steps"]))

    def mean_loss(self, model: ParallelModel, share: Tensor) -> float:
        """Return the mean loss of the global batch from every rank's share. A collective: all ranks call it.

        NaN if a rank was lost with its share.
        """
        if not self._peer_loss.is_aborted:
            with self._peer_loss.catch():
                with self._timers.reporting("device"):
                    on_host = share.detach().cpu()
                with self._timers.reporting("agree"):
                    return float(mean_loss(on_host, model, self.world.control))
        return math.nan

    # --- in-place recovery ---------------------------------------------------------------------------

    @property
    def is_joining(self) -> bool:
        """Whether this rank was started beside running ranks and has not received their state yet."""
        return self._peer_loss.is_joining

    def run_unless_aborted(self, work: Callable[[], None]) -> None:
        """Run `work` on all ranks, unless the step is aborted. Where ranks are lost meanwhile, the step is repeated."""
        if not self._peer_loss.is_aborted:
            with self._peer_loss.catch():
                work()

    def creating_groups(self) -> contextlib.AbstractContextManager[None]:
        """Track the process groups that are created inside, so that they can be shut down after the loss of ranks."""
        return self._connections.tracking()

    def add_reinit_hook(self, hook: ReinitHook) -> None:
        """Register a part of the run that has process groups of its own."""
        self._recovery.reinit_hooks.append(hook)

    def rejoin(self) -> None:
        """Join the ranks of the current environment, each of which has the whole model. A collective."""
        with self.creating_groups():
            self.world = process_group.join()
        self._reports.join(self.world)
        self._set_mesh(requested_degrees(self._options.mesh) or Degrees(dp=self.world.size))

    def _set_mesh(self, degrees: Degrees | None) -> None:
        with self.creating_groups():
            self._mesh = None if degrees is None else build_mesh(degrees, self.world.rank, self.world.device)
        self._consensus = StepConsensus(self.world.control, gathers_losses=self.bad_steps.detects_spikes)

    def reassign_data(self, data: Loader) -> None:
        """Assign this rank's slices on the current mesh to a loader."""
        split = plan_split(data.global_batch, self._micro_batches[data], self.mesh.degrees, None)
        data.assign(split, self.mesh.data_rank)

    # --- output --------------------------------------------------------------------------------------

    def during(self, phase: Phase) -> contextlib.AbstractContextManager[None]:
        """Count the block as `phase`, for the step's times and the agent's hang verdicts."""
        return self._timers.during(phase)

    def print(self, text: str, *, stream: Literal["stdout", "stderr"] = "stdout") -> None:
        """Print a line, on the first rank alone."""
        if self.world.is_first:
            print(text, file=sys.stderr if stream == "stderr" else sys.stdout, flush=True)
