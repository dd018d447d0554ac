"""A stack of feed-forward blocks under DDP, or under FSDP once `shard` is written."""

import argparse

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from measure import MemoryMeasurement, limit_memory
from model import WIDTH, BlockStack
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.tensor.debug import CommDebugMode
from torch.nn.parallel import DistributedDataParallel

GLOBAL_BATCH = 32
STEPS = 4
CHECKPOINT = "checkpoint"


def shard(model: nn.Module, reshard: bool) -> nn.Module:
    """Return the model with its parameters sharded over all ranks.

    `reshard`: whether a block gives its gathered parameters away after the forward pass.
    """
    raise SystemExit("shard in train.py is not written yet: step 2 of the text says how")


def main() -> None:
    args = arguments()
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    limit_memory()
    torch.manual_seed(1)
    measured = MemoryMeasurement(args.parallel)
    model: nn.Module = BlockStack()
    model = shard(model, args.reshard) if args.parallel == "fsdp" else DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    if args.resume:
        load(model, optimizer)
    measured.begin(model)

    rank, world = dist.get_rank(), dist.get_world_size()
    for step in range(STEPS):
        inputs = batch(step + (STEPS if args.resume else 0))[rank::world]
        optimizer.zero_grad()
        with CommDebugMode() as calls:
            loss = nn.functional.mse_loss(model(inputs), inputs.flip(1))
            loss.backward()
        optimizer.step()
        measured.step(loss.item(), model, optimizer, calls)
    measured.write(model)
    if args.save:
        save(model, optimizer)
    dist.destroy_process_group()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--parallel", choices=["ddp", "fsdp"], default="ddp")
    parser.add_argument("--no-reshard", dest="reshard", action="store_false")
    parser.add_argument("--save", action="store_true", help="write a checkpoint at the end")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    return parser.parse_args()


def batch(step: int) -> Tensor:
    """Return all samples of a step. They are the same on every rank."""
    return torch.randn(GLOBAL_BATCH, WIDTH, generator=torch.Generator().manual_seed(step))


def save(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write the state: every rank writes the parts that it holds."""
    parameters, averages = get_state_dict(model, optimizer)
    dcp.save({"model": parameters, "optimizer": averages}, checkpoint_id=CHECKPOINT)


def load(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Read the state: every rank reads the parts that it needs now, whichever ranks wrote them."""
    parameters, averages = get_state_dict(model, optimizer)
    state = {"model": parameters, "optimizer": averages}
    dcp.load(state, checkpoint_id=CHECKPOINT)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])


if __name__ == "__main__":
    main()
