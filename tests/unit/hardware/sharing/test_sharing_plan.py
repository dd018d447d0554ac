"""Choices of a sharing plan on small clusters, with the reasons against the other uses."""

import pytest

from windlass.hardware.facts.gpus import find_gpu
from windlass.hardware.sharing.modes import Mode
from windlass.hardware.sharing.options import find_options
from windlass.hardware.sharing.plan import plan_sharing
from windlass.hardware.sharing.rejection import Cause
from windlass.hardware.sharing.report import markdown_sharing_plan, text_sharing_plan
from windlass.hardware.sharing.request import Arrivals, Isolation, Pool, SharingRequest, Workload, WorkloadKind

GB = 10**9
A100, A100_40, L4 = find_gpu("A100-80GB"), find_gpu("A100-40GB"), find_gpu("L4")


def inference(name="chat", number=4, memory=8, **more):
    settings = {"compute": 0.2, "latency_s": 0.2, "slowdown": 2.0, "arrivals": Arrivals(number * 5.0), **more}
    return Workload(name, WorkloadKind.INFERENCE, number, memory * GB, 0.04, **settings)


def training(name="train", number=1, gpus=8, memory=70, **more):
    return Workload(name, WorkloadKind.TRAINING, number, memory * GB, 86_400, gpus=gpus, **more)


def notebooks(number=24, memory=8, **more):
    return Workload(
        "notebooks", WorkloadKind.NOTEBOOK, number, memory * GB, 15, slowdown=2, arrivals=Arrivals(number / 600), **more
    )


def planned(*workloads, gpu=A100, gpus=8, nodes=2):
    return plan_sharing(SharingRequest((Pool("a", gpu, gpus, nodes),), workloads))


def uses(plan, name):
    return [str(pods.use) for each in plan.workloads if each.workload.name == name for pods in each.pods]


def causes(plan, name):
    found = next(each for each in plan.workloads if each.workload.name == name)
    return {(no.use.split(" × ")[0], no.cause) for no in found.rejections}


def test_a_job_of_several_gpus_gets_whole_ones():
    plan = planned(training())
    assert uses(plan, "train") == ["whole"]
    assert {(mode, Cause.MULTI_GPU) for mode in ("mig", "mps", "time-slicing")} <= causes(plan, "train")


def test_a_gang_of_two_nodes_takes_both():
    plan = planned(training(gpus=16))
    assert [(group.nodes, group.mode) for group in plan.pools[0].groups] == [(2, Mode.WHOLE)]
    assert plan.workloads[0].refused == 0


def test_isolation_of_faults_excludes_mps_and_time_slicing():
    plan = planned(inference(isolation=Isolation.FAULT))
    assert uses(plan, "chat") == ["mig 1g.10gb"]
    assert {("mps", Cause.ISOLATION), ("time-slicing", Cause.ISOLATION)} <= causes(plan, "chat")


def test_isolation_of_memory_allows_mps_where_there_is_no_mig():
    plan = planned(inference(memory=4, isolation=Isolation.MEMORY), gpu=L4, gpus=2, nodes=2)
    assert uses(plan, "chat") == ["mps × 4"]
    assert {("mig", Cause.NO_MIG), ("time-slicing", Cause.ISOLATION)} <= causes(plan, "chat")


def test_the_smallest_profile_that_is_fast_enough_is_chosen():
    plan = planned(inference(memory=8, compute=0.5, isolation=Isolation.FAULT, latency_s=0.12))
    assert uses(plan, "chat") == ["mig 3g.40gb"]
    assert {("mig 1g.10gb", Cause.LATENCY), ("mig 2g.20gb", Cause.LATENCY)} <= causes(plan, "chat")


def test_a_profile_with_too_little_memory_is_refused_with_both_amounts():
    plan = planned(inference(memory=18, isolation=Isolation.FAULT))
    no = next(no for no in plan.workloads[0].rejections if no.use == "mig 1g.10gb")
    assert (no.cause, no.text) == (Cause.MEMORY, "needs 18 GB, has 9.5 GB")


def test_notebooks_share_time_slices_because_static_parts_are_slow():
    plan = planned(notebooks())
    assert uses(plan, "notebooks") == ["time-slicing × 9"]
    assert ("mps", Cause.SLOWDOWN) in causes(plan, "notebooks")


def test_busy_jobs_do_not_share_time_slices():
    plan = planned(training(number=4, gpus=1, memory=20))
    assert uses(plan, "train") == ["whole"]
    assert ("time-slicing", Cause.SLOWDOWN) in causes(plan, "train")


def test_jobs_that_use_the_gpu_for_a_third_of_their_time_share_it():
    plan = planned(training(number=9, gpus=1, memory=20, activity=0.3), gpus=1, nodes=3)
    assert uses(plan, "train") == ["time-slicing × 3"]


def test_too_few_pods_are_refused_with_the_number_that_suffices():
    plan = planned(inference(number=2, arrivals=Arrivals(100.0)))
    assert plan.workloads[0].refused == 2
    texts = {no.text for no in plan.workloads[0].rejections if no.cause is Cause.OVERLOAD and no.use == "whole"}
    assert texts == {"arrivals keep 4 pods busy and there are 2; number: 5 suffices"}


def test_pods_without_room_are_refused_by_their_number():
    plan = planned(training(number=3), nodes=2)
    assert plan.workloads[0].refused == 1
    assert ("whole", Cause.CAPACITY) in causes(plan, "train")


def test_an_earlier_workload_goes_first():
    first, second = training("first"), training("second")
    assert [each.refused for each in planned(first, second, nodes=1).workloads] == [0, 1]


def test_a_further_node_keeps_the_place_of_a_later_workload():
    """In order of workloads, the first one would move to the weaker GPUs of the new node, where the gangs are."""
    h200, a30 = find_gpu("H200-141GB"), find_gpu("A30-24GB")
    fault = training("first", number=9, gpus=1, memory=22, isolation=Isolation.FAULT, compute=0.2, activity=0.4)
    gangs = training("second", number=3, gpus=4, memory=8)

    def refused(nodes):
        pools = (Pool("h200", h200, 1, 3), Pool("a30", a30, 8, nodes))
        return [each.refused for each in plan_sharing(SharingRequest(pools, (fault, gangs))).workloads]

    assert refused(1) == refused(2) == [0, 1]
    assert refused(3) == [0, 0]


def test_whole_gpus_and_mig_share_a_node():
    plan = planned(training(gpus=4), inference(isolation=Isolation.FAULT), nodes=1)
    (group,) = plan.pools[0].groups
    assert (group.mode, len(group.layouts)) == (Mode.WHOLE, 1)


def test_mps_and_mig_do_not_share_a_node():
    pool = Pool("a", A100_40, 8, 1)
    mps = inference("mps", number=8, memory=4, compute=0.1)
    request = SharingRequest((pool,), (mps, inference("mig", memory=18, isolation=Isolation.FAULT)))
    options, _ = find_options(request, frozenset({Mode.MPS, Mode.MIG}))
    assert {option.use.mode for option in options[0]} == {Mode.MPS, Mode.MIG}
    assert all(group.mode is not Mode.MPS or not group.layouts for group in plan_sharing(request).pools[0].groups)


def test_a_workload_goes_to_the_weaker_gpu_that_suffices():
    pools = (Pool("strong", A100, 1, 4), Pool("weak", L4, 1, 4))
    job = training(number=2, gpus=1, memory=20, compute=0.12, measured_on=A100)
    plan = plan_sharing(SharingRequest(pools, (job,)))
    assert {pods.option.pool for pods in plan.workloads[0].pods} == {1}


def test_a_gpu_that_is_weaker_than_the_measured_one_is_too_slow():
    pools = (Pool("weak", L4, 1, 4),)
    plan = plan_sharing(SharingRequest(pools, (training(gpus=1, memory=10, measured_on=A100),)))
    assert ("whole", Cause.SLOWDOWN) in causes(plan, "train")


def test_utilisation_is_the_compute_of_the_gpus_in_use():
    plan = planned(training(gpus=4, compute=0.5), nodes=1)
    forecast = plan.pools[0].forecast
    assert (forecast.gpus_in_use, forecast.utilisation, forecast.utilisation_of_all) == (4, 0.5, 0.25)


def test_reports_name_each_workload_group_and_assumption():
    plan = planned(training(gpus=4), notebooks())
    for lines in (text_sharing_plan(plan), markdown_sharing_plan(plan)):
        text = "\n".join(lines)
        for part in ("a-whole", "a-time-slicing-9", "24 notebooks", "NCCL does not connect", "no figure was compared"):
            assert part in text


@pytest.mark.parametrize(
    "name", ["A100-80GB", "A800", "H100-80GB", "H100-PCIe", "H200-141GB", "B200-180GB", "A30-24GB"]
)
def test_all_gpus_with_mig_serve_small_pods_by_mig(name):
    plan = planned(inference(number=3, memory=4, isolation=Isolation.FAULT, compute=0.1), gpu=find_gpu(name))
    assert plan.workloads[0].pods[0].use.mode is Mode.MIG


def chosen(use, **more):
    settings = {"isolation": Isolation.FAULT, "compute": 0.3, "latency_s": 0.25, "slowdown": 2.0, **more}
    arrivals = Arrivals(40.0, 3.0, 0.2, 300.0)
    workload = Workload("chat", WorkloadKind.INFERENCE, 8, 16 * 2**30, 0.04, arrivals=arrivals, use=use, **settings)
    pool = Pool("a100", find_gpu("A100-80GB"), 4, 3)
    (planned,) = plan_sharing(SharingRequest((pool,), (workload,))).workloads
    return planned


def test_a_chosen_use_that_meets_every_limit_is_planned_as_it_is():
    planned = chosen("mig:3g.40gb")
    assert [str(pods.use) for pods in planned.pods] == ["mig 3g.40gb"]
    assert not planned.refused
    assert not planned.rejections


def test_a_chosen_use_that_breaks_limits_is_placed_and_judged():
    planned = chosen("time-slicing:4")
    assert not planned.refused
    assert [each.cause for each in planned.broken] == [Cause.ISOLATION, Cause.LATENCY]


@pytest.mark.parametrize(
    ("use", "cause"), [("mig:1g.10gb", Cause.MEMORY), ("mig:5g.99gb", Cause.NO_MIG), ("mps:12", Cause.MEMORY)]
)
def test_a_chosen_use_that_cannot_run_is_refused(use, cause):
    planned = chosen(use)
    assert planned.refused == 8
    assert cause in {each.cause for each in planned.rejections}
    assert not planned.broken
