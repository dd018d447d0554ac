"""Which device a rank computes on, of those that it sees."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from windlass.train.errors import TrainError


def device_of(local_rank: int, local_size: int) -> torch.device:
    """The GPU that is this rank's, made the current one; else the CPU. Raises TrainError as `gpu_of`."""
    number = gpu_of(torch.cuda.device_count() if torch.cuda.is_available() else 0, local_rank, local_size)
    if number is None:
        return torch.device("cpu")
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def gpu_of(visible: int, local_rank: int, local_size: int) -> int | None:
    """The GPU of one rank among those of its machine, as the rank numbers them; None where there is none at all. Pure.

    One that is all that a rank sees (`--virtual-local-rank`, CUDA_VISIBLE_DEVICES for each rank) is its own: number 0.
    Raises TrainError for GPUs that are neither one for each rank nor one alone.
    """
    if not visible:
        return None
    if visible >= local_size:
        return local_rank
    if visible == 1:
        return 0
    raise TrainError(
        f"{local_size} ranks on this machine see {visible} GPUs: start {visible} ranks (--nproc-per-node {visible}), "
        "give each rank a GPU that it sees alone, or train on the CPU with CUDA_VISIBLE_DEVICES="
    )


def identity_of(device: torch.device) -> str:
    """The same for two ranks that compute on one GPU."""
    return str(torch.cuda.get_device_properties(device).uuid)


def shared(gpus: Sequence[str]) -> list[str]:
    """A remark for each GPU that several ranks compute on, by the GPU of each rank. Pure."""
    found = []
    for gpu in dict.fromkeys(gpus):
        ranks = [str(rank) for rank, each in enumerate(gpus) if each == gpu]
        if len(ranks) > 1:
            found.append(f"ranks {', '.join(ranks)} share GPU {gpu}; NCCL wants one for each rank of a machine")
    return found
