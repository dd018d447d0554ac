"""Selects the device that a rank computes on, among those that it sees."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from windlass.train.errors import TrainError


def select_device(local_rank: int, local_size: int) -> torch.device:
    """Select the GPU of this rank as the current device; without GPUs the CPU. Raises TrainError as `select_gpu`."""
    number = select_gpu(torch.cuda.device_count() if torch.cuda.is_available() else 0, local_rank, local_size)
    if number is None:
        return torch.device("cpu")
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def select_gpu(visible: int, local_rank: int, local_size: int) -> int | None:
    """Return the GPU index of a rank on its machine, in the rank's own numbering; None where it sees no GPU. Pure.

    A rank that sees exactly one GPU (`--virtual-local-rank`, CUDA_VISIBLE_DEVICES for each rank) uses number 0. Raises
    TrainError for a number of GPUs that is neither one for each rank nor one alone.
    """
    if not visible:
        return None
    if visible >= local_size:
        return local_rank
    if visible == 1:
        return 0
    raise TrainError(
        f"{local_size} ranks on this machine see {visible} GPUs: start {visible} ranks (--nproc-per-node {visible}), "
        "make one GPU visible to each rank, or train on the CPU with CUDA_VISIBLE_DEVICES="
    )


def gpu_uuid(device: torch.device) -> str:
    """Return an identifier that is equal for two ranks on one GPU."""
    return str(torch.cuda.get_device_properties(device).uuid)


def describe_shared_gpus(gpus: Sequence[str]) -> list[str]:
    """Return a warning for each GPU that several ranks compute on. `gpus`: the identifier of each rank's GPU. Pure."""
    found = []
    for gpu in dict.fromkeys(gpus):
        ranks = [str(rank) for rank, each in enumerate(gpus) if each == gpu]
        if len(ranks) > 1:
            found.append(f"ranks {', '.join(ranks)} share GPU {gpu}; NCCL needs one for each rank of a machine")
    return found
