"""The backward pass of one global batch, on whatever mesh: the same call, the same gradients."""

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
from windlass.train.parallel.model import ParallelModel
from windlass.train.parallel.plan import Schedule
from windlass.train.telemetry.phases import Phases

LossFunction = Callable[[Any, Any], Tensor]
"""(outputs of the model, targets) → mean loss of those samples, a scalar."""
_SCHEDULES: Mapping[Schedule, str] = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved": "Interleaved1F1B",
    "zero-bubble": "InterleavedZeroBubble",
    "zbv": "ZBVZeroBubble",
}


class Backward:
    """Gradients of a model for one batch after another. It keeps a pipeline's schedule from step to step."""

    def __init__(self, phases: Phases) -> None:
        self._phases = phases
        self._scheduled: _Scheduled | None = None

    def __call__(self, model: ParallelModel, batch: Batch, loss_fn: LossFunction, scale: float = 1.0) -> Tensor:
        """Add the gradients of the global batch's mean loss to the parameters', times `scale`.

        Returns this rank's share of the mean loss, detached, without `scale`: the sum over the data ranks, divided by
        their number, is the mean of the batch. In a pipeline only ranks with the last stage have a share; else 0.
        """
        with _parallel_logits(model):
            run = self._in_stages if model.stages else self._in_one
            return run(model, batch, loss_fn, scale)

    def evaluate(self, model: ParallelModel, batch: Batch, loss_fn: LossFunction) -> Tensor:
        """The forward pass alone: this rank's share of the mean loss, as of a backward pass."""
        with torch.no_grad(), _parallel_logits(model):
            if model.stages:
                return self._in_stages(model, batch, loss_fn, 1.0, learns=False)
            found = torch.zeros((), device=model.device)
            for micro in batch.micros:
                found += _whole(_loss(model, micro, loss_fn))
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
        found = sum((_whole(loss) for loss in losses), torch.zeros((), device=model.device))
        return found / (len(batch.micros) * scale)

    def _in_one(self, model: ParallelModel, batch: Batch, loss_fn: LossFunction, scale: float) -> Tensor:
        found = torch.zeros((), device=model.device)
        last = len(batch.micros) - 1
        for place, micro in enumerate(batch.micros):
            with model.without_sync(skips=place < last):
                with self._phases.during("forward"):
                    loss = _loss(model, micro, loss_fn)
                with self._phases.during("backward"):
                    (loss * scale).backward()
            found += _whole(loss)
        return found

    def _schedule(self, model: ParallelModel, loss_fn: LossFunction, micros: int, weight: float) -> Any:
        """The one for so many micro-batches, the loss and its weight laid into it.

        It is made anew when the number changes, as by an evaluation between two steps: stages remember the shapes and
        the gradients that they pass on, and a schedule that was made before would take them for its own.
        """
        key = (id(model), micros)
        if self._scheduled is None or self._scheduled.key != key:
            kind = schedules.get_schedule_class(_SCHEDULES[model.plan.schedule])
            stages: Any = list(model.stages) if issubclass(kind, schedules.PipelineScheduleMulti) else model.stages[0]
            weighted = _Weighted(loss_fn, weight)
            self._scheduled = _Scheduled(key, kind(stages, n_microbatches=micros, loss_fn=weighted), weighted)
        self._scheduled.loss.loss_fn, self._scheduled.loss.weight = loss_fn, weight
        return self._scheduled.schedule


class _Weighted:
    """A loss that counts for what its samples are of the batch."""

    def __init__(self, loss_fn: LossFunction, weight: float) -> None:
        self.loss_fn, self.weight = loss_fn, weight

    def __call__(self, outputs: Any, targets: Any) -> Tensor:
        return self.loss_fn(_wide(outputs), targets) * self.weight


class _Scheduled(NamedTuple):
    """torch's schedule over the stages of this rank."""

    key: tuple[int, int]
    schedule: Any
    loss: _Weighted


def _loss(model: ParallelModel, micro: MicroBatch, loss_fn: LossFunction) -> Tensor:
    """Of one micro-batch, counting for what it is of the batch."""
    with model.casting(), model.part_of(micro) as part:
        return _Weighted(loss_fn, part.weight)(model(*part.inputs, **part.named), part.targets)


def _wide(outputs: Any) -> Any:
    """Outputs of low precision in fp32: a loss in fp16 overflows with its scale, and one in bf16 moves in steps."""
    low = isinstance(outputs, Tensor) and outputs.dtype in (torch.float16, torch.bfloat16)
    return outputs.float() if low else outputs


def _parallel_logits(model: ParallelModel) -> contextlib.AbstractContextManager[object]:
    """Cross entropy on logits of which each rank has a part, where the plan says so."""
    splits = model.plan.loss_parallel and model.mesh.degrees.tp > 1
    return loss_parallel() if splits else contextlib.nullcontext()


def mean_loss(share: Tensor, model: ParallelModel, group: dist.ProcessGroup | None) -> Tensor:
    """The mean loss of the global batch from every rank's share: a collective over the group (None: alone)."""
    degrees = model.mesh.degrees
    total = share.detach().clone().to("cpu", torch.float64) if group else share
    if group:
        dist.all_reduce(total, group=group)
    return total / (degrees.data_ranks * degrees.cp * degrees.tp)


def _whole(loss: Tensor) -> Tensor:
    """The number of a loss, which after parallel logits is a DTensor."""
    plain = loss.full_tensor() if isinstance(loss, DTensor) else loss
    return plain.detach().float()
