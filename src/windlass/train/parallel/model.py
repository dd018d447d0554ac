"""A model on a mesh: the module with the parameters, and the modules that are called to run it."""

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
from windlass.train.parallel.context_parallel import ContextParallel
from windlass.train.parallel.data_parallel import apply_data_parallel
from windlass.train.parallel.pipeline import DeterministicStage
from windlass.train.parallel.plan import Plan
from windlass.train.parallel.precision import PrecisionPolicy


@dataclass(eq=False, slots=True)
class ParallelModel:
    """The result of `Run.parallelize`. Calling it runs the forward pass, except for pipeline stages.

    It stays the same object through in-place recovery, which replaces `runs` and `mesh`.
    """

    module: nn.Module
    """The parameters of this rank, under the names of the whole model."""
    runs: tuple[nn.Module, ...]
    """The modules to call: the module itself, its data-parallel wrapper, or one for each stage of this rank."""
    stages: tuple[DeterministicStage, ...]
    """The pipeline stages of this rank, in the order of `runs`."""
    mesh: Mesh
    plan: Plan
    precision: PrecisionPolicy
    device: torch.device
    context: ContextParallel | None = None
    """Context parallelism over `cp`; None if it is 1."""

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Run the forward pass. Raises TrainError for pipeline stages, because no rank has the whole model."""
        if self.stages:
            raise TrainError("a model in pipeline stages cannot be called: use Run.backward and Run.evaluate")
        with self.casting():
            return self.runs[0](*inputs, **named)

    @property
    def is_last_stage(self) -> bool:
        """Whether this rank computes the outputs and therefore the loss."""
        return not self.stages or any(stage.is_last for stage in self.stages)

    @property
    def is_first_stage(self) -> bool:
        """Whether this rank takes the inputs."""
        return not self.stages or any(stage.is_first for stage in self.stages)

    def casting(self) -> contextlib.AbstractContextManager[object]:
        """Context of low precision, where FSDP2 does not provide it."""
        if all(isinstance(each, FSDPModule) for each in self.runs):
            return contextlib.nullcontext()
        return self.precision.autocast(self.device)

    @contextlib.contextmanager
    def sequence_part(self, micro: MicroBatch) -> Iterator[MicroBatch]:
        """Yield this rank's part of the sequences of a micro-batch: all of it without `cp`.

        Raises TrainError if targets have no sequence, or if the model does not attend over the whole sequence.
        """
        if self.context is None:
            yield micro
            return
        if not isinstance(micro.targets, Tensor) or micro.targets.dim() < 2:
            raise TrainError("cp: targets have no sequence; they need one along dimension 1, as inputs do")
        length, attention_count = micro.targets.shape[1], self.context.attention_count
        self.context.refuse_unnamed(self.module, self.plan.positions, length)
        with self.context.shard(length, self.device) as cut:
            yield MicroBatch(cut(micro.inputs), cut(micro.named), cut(micro.targets), micro.weight)
        if self.context.attention_count == attention_count:
            raise TrainError(
                f"cp: {type(self.module).__name__} does not use torch's scaled_dot_product_attention: each "
                "rank would see only its part of a sequence"
            )

    @contextlib.contextmanager
    def without_sync(self, *, skips: bool) -> Iterator[None]:
        """Skip averaging of gradients over replicas inside, if `skips`: for all micro-batches but the last.

        Shards are reduced each time, because no rank may have memory for whole gradients.
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

    def release_groups(self) -> None:
        """Release the replication groups, whose ranks are gone."""
        for each in self.runs:
            if isinstance(each, DistributedDataParallel):
                each._remove_autograd_hooks()  # type: ignore[no-untyped-call]  # noqa: SLF001 - else they go on calling
        self.runs = (self.module,)

    def replicate_on(self, mesh: Mesh) -> None:
        """Replicate on the ranks of `mesh`, which have the same values."""
        self.mesh = mesh
        self.runs = (apply_data_parallel(self.module, (), mesh, self.precision, pipelined=False),)

    def train(self, mode: bool = True) -> None:  # noqa: FBT001, FBT002 - the signature of nn.Module
        """Set training mode; with False evaluation mode."""
        for each in (self.module, *self.runs):
            each.train(mode)

    def parameters(self) -> Iterator[nn.Parameter]:
        """Return the parameters of this rank."""
        return self.module.parameters()


Builder = Callable[[], nn.Module]
