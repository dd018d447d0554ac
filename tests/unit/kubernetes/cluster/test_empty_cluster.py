"""Jobs that could never run on a cluster, even without the present pods."""

from cluster_objects import node

from windlass.backends.kubernetes.cluster.empty_cluster import snapshot_emptier
from windlass.backends.kubernetes.cluster.nodes import NodeConversion
from windlass.backends.kubernetes.cluster.nodes import node as seen
from windlass.core.explain.admission_check import admission_refusal
from windlass.core.ledger import Ledger
from windlass.core.model.job import Job, Role
from windlass.core.model.queue import Queue
from windlass.server import pending_explanation

DGX = "{cpu: '100', nvidia.com/gpu: '8', pods: '110'}"
NODES = [node("n1", DGX), node("n2", DGX)]
FULL = Ledger([seen(each, {"nvidia.com/gpu": 8}, NodeConversion()) for each in NODES], [Queue("default")]).snapshot()


def never(**role):
    job = Job("digits", (Role(**role),))
    return pending_explanation.find_impossibility(snapshot_emptier(NODES, NodeConversion())(FULL), job)


def test_foreign_pods_do_not_count_on_an_empty_cluster():
    assert admission_refusal(FULL, Job("digits", (Role(resources={"gpu": 8}),))) is not None
    assert never(replicas=2, resources={"gpu": 8}) == ""


def test_a_gang_larger_than_every_node_can_never_run():
    assert never(replicas=3, resources={"gpu": 8}).endswith("largest gang that fits: 2 replicas of 8 gpu")


def test_an_elastic_gang_needs_its_minimum():
    assert never(replicas=3, resources={"gpu": 8}, min_replicas=2, max_replicas=3) == ""


def test_the_first_job_with_anti_affinity_finds_nodes():
    assert never(replicas=2, resources={"apart/a/b": 1}) == ""
    assert never(replicas=3, resources={"hostport/80": 1}).endswith(
        "largest gang that fits: 2 replicas of 1 hostport/80"
    )
