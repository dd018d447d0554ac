"""Schedules are drawn from their seeds alone, and many of them contain every fault and every kind of load."""

from __future__ import annotations

from collections import Counter

from .faults import FAULTS
from .load import gang
from .schedule import FAULTS as NAMES
from .schedule import LOADS, SPAN_S, draw_schedule


def test_equal_seeds_give_equal_schedules() -> None:
    assert draw_schedule(7) == draw_schedule(7)
    assert len({draw_schedule(seed) for seed in range(100)}) == 100


def test_two_hundred_schedules_contain_every_fault_and_every_load_many_times() -> None:
    drawn = [draw_schedule(seed) for seed in range(200)]
    faults = Counter(each.name for schedule in drawn for each in schedule.faults)
    loads = Counter(each.load for schedule in drawn for each in schedule.arrivals)
    assert faults.keys() == FAULTS.keys() == set(NAMES)
    assert loads.keys() == set(LOADS)
    assert min(faults.values()) >= 30
    assert min(loads.values()) >= 60
    assert all(0 <= each.at <= SPAN_S for schedule in drawn for each in (*schedule.faults, *schedule.arrivals))


def test_a_lane_draws_only_the_faults_that_it_can_carry_out() -> None:
    names = {each.name for seed in range(20) for each in draw_schedule(seed, ("etcd_full", "clock_step")).faults}
    assert names == {"etcd_full", "clock_step"}


def test_every_load_says_its_size_and_its_end() -> None:
    for schedule in map(draw_schedule, range(20)):
        for arrival in schedule.arrivals:
            annotations = [each["metadata"].get("annotations", {}) for each in gang("job", arrival)]
            assert any({"campaign.example/size", "campaign.example/ends"} <= each.keys() for each in annotations)
