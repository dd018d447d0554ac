"""A model on a mesh: the module that has the parameters, and what is called to run it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed._composable.replicate_with_fsdp import ReplicateModule
from torch.distributed.fsdp import FSDPModule
from torch.nn.parallel import DistributedDataParallel

from windlass.train.data.batch import MicroBatch
from windlass.train.errors import TrainError
from windlass.train.mesh.device_mesh import Mesh
from windlass.train.parallel.plan import Plan
from windlass.train.parallel.precision import Numbers
from windlass.train.parallel.sequence import Sequences
from windlass.train.parallel.shares import shared
from windlass.train.parallel.stages import Stage


@dataclass(eq=False, slots=True)
class ParallelModel:
    """What `Run.parallelize` gives. Calling it runs the forward pass, unless it is in stages.

    It stays the same object where a run goes on with other ranks: then `runs` and `mesh` are others.
    """

    module: nn.Module
    """The parameters of this rank, by the names that the whole model has."""
    runs: tuple[nn.Module, ...]
    """What is called: the module itself, its data-parallel wrapper, or one for each stage of this rank."""
    stages: tuple[Stage, ...]
    """Of a pipeline, in the order of `runs`."""
    mesh: Mesh
    plan: Plan
    numbers: Numbers
    device: torch.device
    sequences: Sequences | None = None
    """Of `cp`: how they are cut."""

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """The forward pass. Raises TrainError for one in stages: no rank has all of it."""
        if self.stages:
            raise TrainError("a model in pipeline stages cannot be called: use Run.backward and Run.evaluate")
        with self.casting():
            return self.runs[0](*inputs, **named)

    @property
    def is_last_stage(self) -> bool:
        """Whether this rank has the outputs and so the loss."""
        return not self.stages or any(stage.is_last for stage in self.stages)

    @property
    def is_first_stage(self) -> bool:
        """Whether this rank takes the inputs."""
        return not self.stages or any(stage.is_first for stage in self.stages)

    def casting(self) -> contextlib.AbstractContextManager[object]:
        """Low precision where FSDP2 does not see to it."""
        if all(isinstance(each, FSDPModule) for each in self.runs):
            return contextlib.nullcontext()
        return self.numbers.autocast(self.device)

    @contextlib.contextmanager
    def part_of(self, micro: MicroBatch) -> Iterator[MicroBatch]:
        """What this rank has of the sequences of a micro-batch: all of them, unless over `cp`.

        Raises TrainError if targets are none, or if the model does not attend to the whole of them.
        """
        if self.sequences is None:
            yield micro
            return
        if not isinstance(micro.targets, Tensor) or micro.targets.dim() < 2:
            raise TrainError("cp: targets have no sequence; they need one along dimension 1, as inputs do")
        length, attended = micro.targets.shape[1], self.sequences.attended
        self.sequences.refuse_unnamed(self.module, self.plan.positions, length)
        with self.sequences.cut(length, self.device) as cut:
            yield MicroBatch(cut(micro.inputs), cut(micro.named), cut(micro.targets), micro.weight)
        if self.sequences.attended == attended:
            raise TrainError(
                f"cp: {type(self.module).__name__} does not attend by torch's scaled_dot_product_attention: each "
                "rank would see its part of a sequence alone"
            )

    @contextlib.contextmanager
    def without_sync(self, *, skips: bool) -> Iterator[None]:
        """Within it replicas do not average their gradients, if `skips`: for all micro-batches but the last.

        Shards are reduced each time all the same, as no rank may have room for whole gradients.
        """
        with contextlib.ExitStack() as stack:
            for each in self.runs:
                if isinstance(each, ReplicateModule):
                    each.set_requires_gradient_sync(not skips)
                elif isinstance(each, FSDPModule):
                    each.set_requires_all_reduce(not skips)
                elif skips and isinstance(each, DistributedDataParallel):
                    stack.enter_context(each.no_sync())
            yield

    def let_go(self) -> None:
        """The ranks that it was replicated on are gone."""
        for each in self.runs:
            if isinstance(each, DistributedDataParallel):
                each._remove_autograd_hooks()  # type: ignore[no-untyped-call]  # noqa: SLF001 - else they go on calling
        self.runs = (self.module,)

    def join(self, mesh: Mesh) -> None:
        """Be replicated on these ranks, which have the same values."""
        self.mesh = mesh
        self.runs = (shared(self.module, (), mesh, self.numbers, pipelined=False),)

    def train(self, mode: bool = True) -> None:  # noqa: FBT001, FBT002 - as nn.Module's
        """Dropout and the like on; with False off."""
        for each in (self.module, *self.runs):
            each.train(mode)

    def parameters(self) -> Iterator[nn.Parameter]:
        """Those of this rank."""
        return self.module.parameters()


Builder = Callable[[], nn.Module]
