"""What can never run on a cluster."""

import pytest
from cluster_objects import node

from windlass.core.job import Job, Role
from windlass.core.queue import Queue
from windlass.worlds.kubernetes.cluster.nodes import View
from windlass.worlds.kubernetes.cluster.prospects import prospects

DGX = "{cpu: '100', nvidia.com/gpu: '8', pods: '110'}"
HERE = prospects(
    [node("n1", DGX), node("n2", DGX, "{zone: b}", ready="False"), node("n3", "{cpu: '4', pods: '1'}")],
    [Queue("default"), Queue("small", {"gpu": 4})],
    View(),
)


def a_job(queue="default", **role):
    return Job("digits", (Role(**role),), queue=queue)


@pytest.mark.parametrize(
    "job",
    [
        a_job(replicas=2, resources={"gpu": 8, "pods": 1}),
        a_job(resources={"gpu": 8}, node_selector={"zone": "b"}),
        a_job(replicas=3, resources={"cpu": 1, "hostport/80": 1}),
    ],
)
def test_what_fits_on_empty_nodes_may_run_some_day(job):
    assert HERE.never(job) == ""


def test_that_a_replica_is_a_pod_goes_without_saying():
    assert HERE.never(a_job(replicas=3, resources={"gpu": 8, "pods": 1})).endswith("2 replicas of 8 gpu")


@pytest.mark.parametrize(
    ("job", "said"),
    [
        (a_job(replicas=3, resources={"gpu": 8, "pods": 1}), "largest gang that fits: 2 replicas of 8 gpu"),
        (a_job(resources={"rdma/hca": 1}), "no node could take a replica"),
        (a_job(node_selector={"zone": "c"}, resources={"gpu": 1}), "3 nodes lost to label zone=c"),
        (
            a_job(node_selector={"windlass.dev/gpu": "amd.com/gpu"}, resources={"gpu": 1}),
            "label windlass.dev/gpu=amd.com/gpu",
        ),
        (a_job("small", resources={"gpu": 8}), "4"),
        (a_job("vision", resources={"gpu": 8}), "there is no queue vision"),
        (a_job(replicas=4, resources={"apart/a/b": 1}), "largest gang that fits: 3 replicas"),
    ],
)
def test_what_never_could_is_told_with_what_could(job, said):
    assert HERE.never(job).startswith("could never run on the nodes that there are: ")
    assert said in HERE.never(job)
