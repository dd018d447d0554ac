"""Data parallelism of one module: replicas that average gradients, shards of everything, or both."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from torch import nn
from torch.distributed._composable.replicate_with_fsdp import replicate
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from windlass.train.mesh.device_mesh import Mesh
from windlass.train.parallel.precision import Numbers

# Outputs go to the loss function, which has no reason to write into them; each rank would warn of it otherwise.
warnings.filterwarnings("ignore", message=r"FSDP2-wrapped module \(.*\) returned a view tensor")


def shared(
    module: nn.Module, blocks: Sequence[nn.Module], mesh: Mesh, numbers: Numbers, *, pipelined: bool
) -> nn.Module:
    """What to call instead of the module. Parameters keep their names, but DDP's wrapper has its own.

    `pipelined`: many micro-batches pass before the backward pass ends, so gathered parameters stay.
    """
    if mesh.degrees.sharing.fsdp > 1:
        devices = mesh.part("dp", "fsdp")
        for each in (*blocks, module):
            fully_shard(each, mesh=devices, mp_policy=numbers.sharded(), reshard_after_forward=not pipelined)
        return module
    if mesh.degrees.sharing.dp == 1:
        return module
    # DDP knows no DTensors, and under a pipeline its first step after a start rounds otherwise than its later ones.
    if pipelined or any(isinstance(parameter, DTensor) for parameter in module.parameters()):
        for each in (*blocks, module):
            replicate(each, mesh=mesh.part("dp"), mp_policy=numbers.sharded())
        return module
    # All ranks have built the same values, so nothing has to be sent before the first step.
    return DistributedDataParallel(
        module, process_group=mesh.group("dp"), init_sync=False, gradient_as_bucket_view=True
    )
