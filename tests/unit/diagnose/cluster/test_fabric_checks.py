"""The network of node pools: devices that machine types have and no plugin offers, and huge pages for EFA."""

import pytest
from checked_objects import check, node

from windlass.diagnose.steps import State


def gpu_node(name="n1", instance="p5.48xlarge", **offered):
    made = node(name, 8, labels={"node.kubernetes.io/instance-type": instance})
    made["status"]["allocatable"] |= {key.replace("__", "/"): value for key, value in offered.items()}
    return made


def steps_of(*nodes):
    return {name.partition(":")[0]: step for name, step in check(nodes=list(nodes), pods=[]).items() if ":a" in name}


EFA = {"vpc.amazonaws.com/efa": "32", "hugepages-2Mi": "10256Mi"}


def test_a_pool_with_all_adapters_and_huge_pages_is_ok():
    steps = steps_of(gpu_node(**EFA))
    assert (steps["pool.fabric"].state, steps["pool.fabric"].text) == (State.OK, "vpc.amazonaws.com/efa")
    assert steps["pool.huge_pages"].state is State.OK


@pytest.mark.parametrize(
    ("instance", "offered", "line", "fix"),
    [
        ("p5.48xlarge", {}, "n1: p5.48xlarge has efa, and no plugin offers it", "aws-efa-k8s-device-plugin"),
        (
            "p5.48xlarge",
            {**EFA, "vpc.amazonaws.com/efa": "4"},
            "n1: p5.48xlarge has 32 adapters, 4 are offered",
            "aws-efa-k8s-device-plugin",
        ),
        (
            "Standard_ND96isr_H100_v5",
            {},
            "n1: ND96isr_H100_v5 has infiniband, and no plugin offers it",
            "RDMA shared device plugin",
        ),
    ],
)
def test_a_fabric_that_pods_cannot_use_is_a_warning(instance, offered, line, fix):
    step = steps_of(gpu_node(instance=instance, **offered))["pool.fabric"]
    assert (step.state, step.evidence) == (State.WARNING, (line,))
    assert fix in step.fix


def test_efa_without_huge_pages_is_a_warning_with_two_fixes():
    step = steps_of(gpu_node(**{**EFA, "hugepages-2Mi": "0"}))["pool.huge_pages"]
    assert (step.state, step.evidence) == (State.WARNING, ("n1",))
    assert "hugepages=0" in step.fix


def test_machines_without_a_fabric_lack_nothing():
    steps = steps_of(gpu_node(instance="a2-highgpu-8g"))
    assert steps["pool.fabric"].state is State.ABSENT
    assert "pool.huge_pages" not in steps
