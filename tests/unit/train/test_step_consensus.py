"""The step consensus: the worst report of any rank."""

import pytest
import torch.distributed as dist

from windlass.train.step.consensus import StepConsensus, StepReport


@pytest.fixture
def alone():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.mark.parametrize(
    "report",
    [StepReport(), StepReport(stop=True, time_left_ms=1500, save_duration_ms=900), StepReport(not_finite=True)],
)
def test_a_report_of_one_rank_is_the_result_of_all(report, alone):
    vote = StepConsensus(alone)
    vote.begin(report)
    assert vote.end() == report


def test_a_save_longer_than_the_time_left_is_impossible():
    assert StepReport().can_save
    assert StepReport(stop=True, time_left_ms=1500, save_duration_ms=900).can_save
    assert not StepReport(stop=True, time_left_ms=800, save_duration_ms=900).can_save
