"""One GPU for each rank, in either way of assigning them; else one clear error."""

import pytest

from windlass.train.device import describe_shared_gpus, select_gpu
from windlass.train.errors import TrainError


@pytest.mark.parametrize(
    ("visible", "local_rank", "local_size", "number"),
    [
        (0, 0, 1, None),  # no GPU at all: the CPU
        (8, 3, 8, 3),  # torchrun: every rank sees all
        (8, 1, 2, 1),
        (1, 3, 4, 0),  # --virtual-local-rank, or CUDA_VISIBLE_DEVICES for each rank: it sees its own GPU only
        (1, 0, 1, 0),
    ],
)
def test_a_rank_selects_its_own_gpu(visible, local_rank, local_size, number):
    assert select_gpu(visible, local_rank, local_size) == number


def test_fewer_gpus_than_ranks_are_refused_instead_of_training_on_the_cpu():
    with pytest.raises(TrainError, match=r"4 ranks on this machine see 2 GPUs: start 2 ranks \(--nproc-per-node 2\)"):
        select_gpu(2, 0, 4)


def test_ranks_that_share_a_gpu_are_named():
    assert describe_shared_gpus(["a", "b"]) == []
    assert describe_shared_gpus(["a", "b", "a", "c", "b"]) == [
        "ranks 0, 2 share GPU a; NCCL needs one for each rank of a machine",
        "ranks 1, 4 share GPU b; NCCL needs one for each rank of a machine",
    ]
