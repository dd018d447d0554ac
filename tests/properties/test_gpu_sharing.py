"""Properties of sharing plans, over generated requests."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windlass.core.model.mig import GEOMETRIES
from windlass.hardware.facts.gpus import GPUS, find_gpu
from windlass.hardware.sharing.layouts import count_profiles, layout_faults, pack_instances
from windlass.hardware.sharing.modes import Mode, Use
from windlass.hardware.sharing.plan import plan_sharing
from windlass.hardware.sharing.report import plain_sharing_plan
from windlass.hardware.sharing.request import Arrivals, Isolation, Pool, SharingRequest, Workload, WorkloadKind

GB = 10**9
MODELS = ("A100-80GB", "A100-40GB", "A30-24GB", "H200-141GB", "B300-269GB", "L4", "T4")


@st.composite
def workloads(draw, number):
    kind = draw(st.sampled_from(WorkloadKind))
    duration = draw(st.sampled_from((0.02, 5.0, 3600.0)))
    pods = draw(st.integers(1, 9))
    load = draw(st.sampled_from((0.05, 0.4, 0.8)))
    arrivals = Arrivals(load * pods / duration, draw(st.sampled_from((1.0, 2.0))), 0.5)
    return Workload(
        name=f"w{number}",
        kind=kind,
        number=pods,
        memory=draw(st.integers(1, 90)) * GB,
        duration_s=duration,
        gpus=1 if kind.is_service else draw(st.sampled_from((1, 2, 4, 12))),
        isolation=draw(st.sampled_from(Isolation)),
        compute=draw(st.sampled_from((0.1, 0.3, 1.0))),
        activity=1.0 if kind.is_service else draw(st.sampled_from((0.2, 1.0))),
        latency_s=draw(st.sampled_from((None, 4 * duration))) if kind.is_service else None,
        slowdown=2.0 if kind.is_service else 1.2,
        arrivals=arrivals if kind.is_service else draw(st.sampled_from((None, arrivals))),
    )


@st.composite
def requests(draw):
    pools = [
        Pool(f"p{number}", find_gpu(draw(st.sampled_from(MODELS))), draw(st.sampled_from((1, 4, 8))), nodes)
        for number, nodes in enumerate(draw(st.lists(st.integers(0, 3), min_size=1, max_size=2)))
    ]
    count = draw(st.integers(1, 4))
    return SharingRequest(tuple(pools), tuple(draw(workloads(number)) for number in range(count)))


@given(requests())
@settings(max_examples=60, deadline=None)
def test_each_pod_is_placed_or_refused_with_a_reason(request):
    for each in plan_sharing(request).workloads:
        placed = sum(pods.number for pods in each.pods)
        assert placed + each.refused == each.workload.number
        assert not each.refused or each.rejections


@given(requests())
@settings(max_examples=60, deadline=None)
def test_layouts_are_valid_and_hold_exactly_the_placed_instances(request):
    plan = plan_sharing(request)
    for pool in plan.pools:
        layouts = [layout for group in pool.groups for layout in group.layouts * group.nodes]
        for layout in layouts:
            assert not layout_faults(pool.pool.gpu.geometry, layout)
        placed = Counter()
        for pods in (pods for each in plan.workloads for pods in each.pods if pods.use.profile):
            if request.pools[pods.option.pool] is pool.pool:
                placed[pods.use.profile.name] += pods.number
        assert count_profiles(layouts) == placed


@given(requests())
@settings(max_examples=60, deadline=None)
def test_no_gpu_and_no_memory_is_given_twice(request):
    plan = plan_sharing(request)
    for pool in plan.pools:
        assert sum(group.nodes for group in pool.groups) == pool.pool.nodes
        assert pool.forecast.gpus_in_use <= pool.pool.nodes * pool.pool.gpus
        for group in pool.groups:
            without_mig = pool.pool.gpus - len(group.layouts)
            members = {each.workload.name: each.workload for each in plan.workloads}
            if group.mode in (Mode.MPS, Mode.TIME_SLICING):
                assert sum(count for _, count in group.workloads) <= without_mig * group.replicas * group.nodes
                share = Use(group.mode, group.replicas).memory(pool.pool)
                assert all(members[name].memory <= share for name, _ in group.workloads)
            assert group.mode is not Mode.MPS or not group.layouts
    for each in plan.workloads:
        for pods in each.pods:
            assert each.workload.memory <= pods.use.memory(request.pools[pods.option.pool])
            order = list(Isolation)
            assert order.index(pods.use.mode.isolation) >= order.index(each.workload.isolation)


@given(requests())
@settings(max_examples=20, deadline=None)
def test_the_same_request_has_the_same_plan(request):
    assert plain_sharing_plan(plan_sharing(request)) == plain_sharing_plan(plan_sharing(request))


@given(requests(), st.integers(0, 1))
@settings(max_examples=80, deadline=None)
def test_a_further_node_makes_no_plan_worse(request, which):
    number = which % len(request.pools)
    pools = list(request.pools)
    pools[number] = replace(pools[number], nodes=pools[number].nodes + 1)
    before, after = plan_sharing(request), plan_sharing(replace(request, pools=tuple(pools)))
    assert _placed(after) >= _placed(before)


def _placed(plan):
    return tuple(each.workload.number - each.refused for each in plan.workloads)


@given(st.sampled_from(sorted(GEOMETRIES)), st.data())
@settings(max_examples=200, deadline=None)
def test_instances_are_packed_onto_as_few_gpus_as_possible(model, data):
    geometry = GEOMETRIES[model]
    counts = {profile.name: data.draw(st.integers(0, 3)) for profile in geometry.profiles[1:]}
    layouts = pack_instances(geometry, counts)
    assert count_profiles(layouts) == {name: count for name, count in counts.items() if count}
    assert not [fault for layout in layouts for fault in layout_faults(geometry, layout)]
    assert len(layouts) == fewest_gpus(model, tuple(counts.values()))


@cache
def one_gpu(model):
    """All sets of instances that one GPU holds, the maximal ones alone."""
    geometry = GEOMETRIES[model]
    places = [
        (index, profile.bits(start)) for index, profile in enumerate(geometry.profiles[1:]) for start in profile.starts
    ]
    found = {((0,) * (len(geometry.profiles) - 1))}
    frontier = {(geometry.whole, next(iter(found)))}
    while frontier:
        frontier = {
            (mask - bits, tuple(count + (index == number) for number, count in enumerate(held)))
            for mask, held in frontier
            for index, bits in places
            if mask & bits == bits
        }
        found |= {held for _, held in frontier}
    return [a for a in found if not any(a != b and all(x <= y for x, y in zip(a, b, strict=True)) for b in found)]


@cache
def fewest_gpus(model, counts):
    if not any(counts):
        return 0
    rest = {tuple(max(0, want - has) for want, has in zip(counts, held, strict=True)) for held in one_gpu(model)}
    rest -= {counts}
    minimal = [a for a in rest if not any(a != b and all(y <= x for x, y in zip(a, b, strict=True)) for b in rest)]
    return 1 + min(fewest_gpus(model, each) for each in minimal)


@pytest.mark.parametrize("gpu", sorted(GPUS))
def test_a_mig_instance_has_no_more_memory_than_its_part_of_the_gpu(gpu):
    pool = Pool("p", GPUS[gpu], 1, 1)
    for profile in pool.gpu.geometry.profiles if pool.gpu.geometry else ():
        assert (
            Use(Mode.MIG, profile=profile).memory(pool) * pool.gpu.geometry.slices <= pool.gpu.memory * profile.slices
        )


def test_all_pairs_of_places_that_overlap_are_faults():
    geometry = GEOMETRIES["A100-80GB"]
    places = [(profile.name, start) for profile in geometry.profiles for start in profile.starts]
    bits = {(profile.name, start): profile.bits(start) for profile in geometry.profiles for start in profile.starts}
    for one, other in itertools.combinations(places, 2):
        assert bool(layout_faults(geometry, (one, other))) == bool(bits[one] & bits[other])
