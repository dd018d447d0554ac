"""A report of one of many ranks at a step reaches all of them."""

import pytest
import torch.distributed as dist
from forked_ranks import ranks

from windlass.train.step.consensus import StepConsensus, StepReport


def exchange_reports():
    """Each rank in turn has something to report; return what this one received each time."""
    dist.init_process_group("gloo")
    rank, count = dist.get_rank(), dist.get_world_size()
    vote, heard = StepConsensus(dist.group.WORLD, gathers_losses=True), []
    for speaker in range(count):
        mine = StepReport(stop=True, time_left_ms=100 + rank, save_duration_ms=7) if rank == speaker else StepReport()
        vote.begin(mine, share=speaker - rank / 4)
        heard.append((vote.end(), vote.shares))
    dist.destroy_process_group()
    return heard


@pytest.mark.parametrize("count", [2, 3, 5])
def test_all_ranks_receive_the_report_of_each_rank(count):
    expected = [
        (
            StepReport(stop=True, time_left_ms=100 + speaker, save_duration_ms=7),
            [speaker - rank / 4 for rank in range(count)],
        )
        for speaker in range(count)
    ]
    assert ranks(count, exchange_reports) == [expected] * count
