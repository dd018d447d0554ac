"""What ranks agree on at a step: the worst of what any of them says."""

import pytest
import torch.distributed as dist

from windlass.train.step.vote import Said, Vote


@pytest.fixture
def alone():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.mark.parametrize("said", [Said(), Said(stop=True, time_left=1500, save_takes=900), Said(not_finite=True)])
def test_what_one_says_is_what_all_hear(said, alone):
    vote = Vote(alone)
    vote.begin(said)
    assert vote.end() == said


def test_a_save_that_takes_longer_than_is_left_is_none():
    assert Said().can_save
    assert Said(stop=True, time_left=1500, save_takes=900).can_save
    assert not Said(stop=True, time_left=800, save_takes=900).can_save
