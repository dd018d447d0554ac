"""Limits the memory of a rank, and writes what each rank holds and exchanges to runs/JOB.json.

This file needs no change.
"""

import ctypes
import hashlib
import json
import os
import resource
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.debug import CommDebugMode

MIB = 1 << 20
warnings.filterwarnings("ignore", category=UserWarning)
_M_MMAP_THRESHOLD = -3
ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 1 << 16)  # a freed tensor then leaves the process at once


def limit_memory() -> None:
    """Refuse allocations beyond MEMORY_MIB above what the process has now, as a GPU of that size does."""
    limit = int(os.environ.get("MEMORY_MIB", "0"))
    if limit:
        now = _status("VmData") * 1024
        resource.setrlimit(resource.RLIMIT_DATA, (now + limit * MIB,) * 2)


class MemoryMeasurement:
    """Bytes that one rank holds after a step, the peak of its memory, and the collectives of a step."""

    def __init__(self, parallel: str) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # begin a new peak
        self.before = _status("VmRSS")
        self.parallel, self.losses = parallel, list[float]()
        self.held: dict[str, int] = {}
        self.calls: dict[str, int] = {}
        self.start = ""
        print(f"{parallel} on {dist.get_world_size()} ranks, limit {os.environ.get('MEMORY_MIB', 'none')} MiB", flush=True)

    def begin(self, model: nn.Module) -> None:
        """Note the parameters with which the run begins."""
        self.start = _digest_of(model)

    def step(self, loss: float, model: nn.Module, optimizer: torch.optim.Optimizer, calls: CommDebugMode) -> None:
        """Note a step: its loss, the bytes that this rank holds, and the collectives of both passes."""
        self.losses.append(loss)
        parameters = [_local(parameter) for parameter in model.parameters()]
        gradients = [_local(each.grad) for each in model.parameters() if each.grad is not None]
        averages = [_local(value) for state in optimizer.state.values() for value in state.values()]
        self.held = {
            "parameters": _bytes(parameters),
            "gradients": _bytes(gradients),
            "averages": _bytes([value for value in averages if value.dim()]),
        }
        names = {str(call).split(".")[-1].strip("'>)_"): number for call, number in calls.get_comm_counts().items()}
        self.calls = {
            "gathers": sum(number for name, number in names.items() if "allgather" in name),
            "scatters": sum(number for name, number in names.items() if "reduce_scatter" in name),
        }

    def write(self, model: nn.Module) -> None:
        """Gather the reports of all ranks into one file."""
        own = {"peak_mib": round((_status("VmHWM") - self.before) / 1024, 1), **self.held}
        ranks: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(ranks, own)
        losses = torch.tensor(self.losses, dtype=torch.float64)
        dist.all_reduce(losses)
        run = {
            "parallel": self.parallel,
            "limit_mib": int(os.environ.get("MEMORY_MIB", "0")),
            "elements": sum(parameter.numel() for parameter in model.parameters()),
            "losses": (losses / len(ranks)).tolist(),
            "start": self.start,
            "end": _digest_of(model),
            "ranks": ranks,
            **self.calls,
        }
        if dist.get_rank() == 0:
            _write(run)


def _write(run: dict[str, Any]) -> None:
    text = json.dumps(run)
    name = f"runs/{os.environ.get('WINDLASS_JOB_ID', 'torchrun')}.json"
    Path("runs").mkdir(exist_ok=True)
    Path(name).write_text(text)
    for rank, each in enumerate(run["ranks"]):
        held = ", ".join(f"{name} {each[name] / MIB:.0f}" for name in ("parameters", "gradients", "averages"))
        print(f"rank {rank} holds in MiB: {held}; peak {each['peak_mib']:.0f}")
    print(f"a step: {run['gathers']} all-gathers, {run['scatters']} reduce-scatters")
    print(f"losses {' '.join(f'{loss:.6f}' for loss in run['losses'])}")
    print(f"parameters {run['start']} at the start, {run['end']} at the end")
    print(f"wrote {name} {hashlib.sha256(text.encode()).hexdigest()[:16]}")


def _digest_of(model: nn.Module) -> str:
    """Return a digest of the whole model, which every rank computes from the parts of all ranks."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        whole = parameter.full_tensor() if isinstance(parameter, DTensor) else parameter
        digest.update(whole.detach().numpy().tobytes())
    return digest.hexdigest()[:16]


def _local(value: Any) -> Any:
    return value.to_local() if isinstance(value, DTensor) else value


def _bytes(tensors: list[Any]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _status(field: str) -> int:
    """Return a field of /proc/self/status in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1])
