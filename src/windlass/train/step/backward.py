"""The backward pass of one global batch, with the same call and the same gradients on every mesh."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.pipelining import schedules
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import loss_parallel

from windlass.train.data.batch import Batch, MicroBatch
from windlass.train.errors import TrainError
from windlass.train.parallel.model import ParallelModel
from windlass.train.parallel.plan import Schedule
from windlass.train.telemetry.phase_timers import PhaseTimers

LossFunction = Callable[[Any, Any], Tensor]
"""(outputs of the model, targets) → mean loss of those samples, a scalar."""
_TORCH_SCHEDULES: Mapping[Schedule, str] = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved": "Interleaved1F1B",
    "zero-bubble": "InterleavedZeroBubble",
    "zbv": "ZBVZeroBubble",
}


class BackwardPass:
    """Computes gradients of a model for one batch after another, and keeps the pipeline schedule between steps."""

    def __init__(self, phases: PhaseTimers) -> None:
        self._phases = phases
        self._scheduled: _CachedSchedule | None = None

    def __call__(self, model: ParallelModel, batch: Batch, loss_fn: LossFunction, scale: float = 1.0) -> Tensor:
        """Add the gradients of the global batch's mean loss, times `scale`, to those of the parameters.

        Returns this rank's share of the mean loss, detached, without `scale`: the sum over the data ranks, divided by
        their number, is the mean of the batch. In a pipeline only ranks with the last stage have a share; others return
        0.
        """
        with _parallel_logits(model):
            run = self._in_stages if model.stages else self._in_one
            return run(model, batch, loss_fn, scale)

    def evaluate(self, model: ParallelModel, batch: Batch, loss_fn: LossFunction) -> Tensor:
        """Run the forward pass alone; return this rank's share of the mean loss, as a backward pass does."""
        with torch.no_grad(), _parallel_logits(model):
            if model.stages:
                return self._in_stages(model, batch, loss_fn, 1.0, learns=False)
            found = torch.zeros((), device=model.device)
            for micro in batch.micros:
                found += _full_loss(_compute_loss(model, micro, loss_fn))
            return found

    def _in_stages(
        self, model: ParallelModel, batch: Batch, loss_fn: LossFunction, scale: float, *, learns: bool = True
    ) -> Tensor:
        weight = batch.micros[0].weight * len(batch.micros) * scale
        schedule = self._schedule(model, loss_fn, len(batch.micros), weight)
        run = schedule.step if learns else schedule.eval
        inputs, targets = batch.joined()
        losses: list[Tensor] = []
        with model.casting(), self._phases.during("pipeline"):
            given = inputs if model.is_first_stage else ()
            if model.is_last_stage:
                run(*given, target=targets, losses=losses)
            else:
                run(*given)
        found = sum((_full_loss(loss) for loss in losses), torch.zeros((), device=model.device))
        return found / (len(batch.micros) * scale)

    def _in_one(self, model: ParallelModel, batch: Batch, loss_fn: LossFunction, scale: float) -> Tensor:
        found = torch.zeros((), device=model.device)
        last = len(batch.micros) - 1
        for index, micro in enumerate(batch.micros):
            with model.without_sync(skips=index < last):
                with self._phases.during("forward"):
                    loss = _compute_loss(model, micro, loss_fn)
                with self._phases.during("backward"):
                    (loss * scale).backward()
            found += _full_loss(loss)
        return found

    def _schedule(self, model: ParallelModel, loss_fn: LossFunction, micros: int, weight: float) -> Any:
        """Return the schedule for `micros` micro-batches, with the loss function and its weight set.

        A changed number, as by an evaluation between two steps, needs a new schedule: stages remember the shapes and
        gradients that they pass on, and an older schedule would reuse them.
        """
        key = (id(model), micros)
        if self._scheduled is None or self._scheduled.key != key:
            weighted = _WeightedLoss(loss_fn, weight)
            self._scheduled = _CachedSchedule(key, _build_schedule(model, micros, weighted), weighted)
        self._scheduled.loss.loss_fn, self._scheduled.loss.weight = loss_fn, weight
        return self._scheduled.schedule


class _WeightedLoss:
    """A loss function weighted by the fraction of the batch that its samples are."""

    def __init__(self, loss_fn: LossFunction, weight: float) -> None:
        self.loss_fn, self.weight = loss_fn, weight

    def __call__(self, outputs: Any, targets: Any) -> Tensor:
        return self.loss_fn(_to_fp32(outputs), targets) * self.weight


class _CachedSchedule(NamedTuple):
    """torch's schedule over the stages of this rank, kept between steps."""

    key: tuple[int, int]
    schedule: Any
    loss: _WeightedLoss


def _build_schedule(model: ParallelModel, micros: int, loss_fn: LossFunction) -> Any:
    """Return torch's schedule for `micros` micro-batches. Raises TrainError for a number that it does not support."""
    kind = schedules.get_schedule_class(_TORCH_SCHEDULES[model.plan.schedule])
    stages: Any = list(model.stages) if issubclass(kind, schedules.PipelineScheduleMulti) else model.stages[0]
    try:
        return kind(stages, n_microbatches=micros, loss_fn=loss_fn)
    except ValueError as error:
        why = " ".join(str(error).split()).rstrip(".")
        raise TrainError(
            f"pp: the schedule {model.plan.schedule} does not support {micros} micro-batches on "
            f"{model.stages[0].num_stages} stages; use another micro_batch or schedule: {why}"
        ) from error


def _compute_loss(model: ParallelModel, micro: MicroBatch, loss_fn: LossFunction) -> Tensor:
    """Return the weighted loss of one micro-batch."""
    with model.casting(), model.sequence_part(micro) as part:
        return _WeightedLoss(loss_fn, part.weight)(model(*part.inputs, **part.named), part.targets)


def _to_fp32(outputs: Any) -> Any:
    """Convert low-precision outputs to fp32: a loss in fp16 overflows with its scale, one in bf16 has coarse steps."""
    low = isinstance(outputs, Tensor) and outputs.dtype in (torch.float16, torch.bfloat16)
    return outputs.float() if low else outputs


def _parallel_logits(model: ParallelModel) -> contextlib.AbstractContextManager[object]:
    """Return torch's context for cross entropy on logits split over ranks, where the plan asks for it."""
    splits = model.plan.loss_parallel and model.mesh.degrees.tp > 1
    return loss_parallel() if splits else contextlib.nullcontext()


def mean_loss(share: Tensor, model: ParallelModel, group: dist.ProcessGroup | None) -> Tensor:
    """Return the mean loss of the global batch from every rank's share. A collective over `group`, if there is one."""
    degrees = model.mesh.degrees
    total = share.detach().clone().to("cpu", torch.float64) if group else share
    if group:
        dist.all_reduce(total, group=group)
    return total / (degrees.data_ranks * degrees.cp * degrees.tp)


def _full_loss(loss: Tensor) -> Tensor:
    """Return the value of a loss, which is a DTensor after parallel logits."""
    plain = loss.full_tensor() if isinstance(loss, DTensor) else loss
    return plain.detach().float()
