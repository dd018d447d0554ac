"""Survivors have equal state beyond the step consensus: schedules that a script steps, rates, averages."""

from __future__ import annotations

import torch
import torch.distributed as dist
from forked_ranks import ranks
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from windlass.train.recovery.state_broadcast import broadcast_object, broadcast_small_state, elect_source


def diverge_and_broadcast():
    """Take one step in which the second rank has missed the loss that lowers the rate."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    optimizer = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=1.0)
    schedule = ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
    for loss in (1.0, float("nan") if rank else 2.0, 0.5 if rank else 2.0):
        schedule.step(loss)
    group = dist.group.WORLD
    found = elect_source(group, 7)
    apart = schedule.state_dict()["best"], optimizer.param_groups[0]["lr"]
    broadcast_small_state(group, found.rank, {"schedule": schedule}, [optimizer])
    alike = schedule.state_dict()["best"], optimizer.param_groups[0]["lr"], broadcast_object(group, found.rank, rank)
    dist.destroy_process_group()
    return found, apart, alike


def test_survivors_of_the_same_step_have_the_same_schedules_and_rates():
    (found, first, alike), (_, second, also) = ranks(2, diverge_and_broadcast)
    assert found == (0, False)
    assert first != second
    assert alike == also == (*first, 0)
