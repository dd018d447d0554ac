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
from windlass.train.parallel.precision import PrecisionPolicy

# Outputs go to the loss function, which does not write into them; otherwise each rank would print this warning.
warnings.filterwarnings("ignore", message=r"FSDP2-wrapped module \(.*\) returned a view tensor")


def apply_data_parallel(
    module: nn.Module, blocks: Sequence[nn.Module], mesh: Mesh, precision: PrecisionPolicy, *, pipelined: bool
) -> nn.Module:
    """Return the module to call instead. Parameters keep their names, except in DDP's wrapper, which has its own.

    `pipelined`: many micro-batches pass before the backward pass ends, so gathered parameters stay.
    """
    if mesh.degrees.parameter_degrees.fsdp > 1:
        devices = mesh.submesh("dp", "fsdp")
        for each in (*blocks, module):
            fully_shard(each, mesh=devices, mp_policy=precision.fsdp_policy(), reshard_after_forward=not pipelined)
        return module
    if mesh.degrees.parameter_degrees.dp == 1:
        return module
    # DDP does not support DTensors, and under a pipeline its first step after a start rounds differently from later
    # ones.
    if pipelined or any(isinstance(parameter, DTensor) for parameter in module.parameters()):
        for each in (*blocks, module):
            replicate(each, mesh=mesh.submesh("dp"), mp_policy=precision.fsdp_policy())
        return module
    # All ranks have built the same values, so nothing has to be sent before the first step.
    return DistributedDataParallel(
        module, process_group=mesh.group("dp"), init_sync=False, gradient_as_bucket_view=True
    )
