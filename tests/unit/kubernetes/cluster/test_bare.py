"""What can ever run on a cluster, whoever is on it just now."""

from cluster_objects import node

from windlass.backends.kubernetes.cluster.empty_cluster import bare
from windlass.backends.kubernetes.cluster.nodes import View
from windlass.backends.kubernetes.cluster.nodes import node as seen
from windlass.core.explain.admission_check import admission_refusal
from windlass.core.ledger import Ledger
from windlass.core.model.job import Job, Role
from windlass.core.model.queue import Queue
from windlass.server import pending_explanation

DGX = "{cpu: '100', nvidia.com/gpu: '8', pods: '110'}"
NODES = [node("n1", DGX), node("n2", DGX)]
FULL = Ledger([seen(each, {"nvidia.com/gpu": 8}, View()) for each in NODES], [Queue("default")]).snapshot()


def never(**role):
    job = Job("digits", (Role(**role),))
    return pending_explanation.find_impossibility(bare(NODES, View())(FULL), job)


def test_pods_of_others_may_go():
    assert admission_refusal(FULL, Job("digits", (Role(resources={"gpu": 8}),))) is not None
    assert never(replicas=2, resources={"gpu": 8}) == ""


def test_nodes_do_not_grow():
    assert never(replicas=3, resources={"gpu": 8}).endswith("largest gang that fits: 2 replicas of 8 gpu")


def test_an_elastic_gang_is_asked_for_its_least():
    assert never(replicas=3, resources={"gpu": 8}, min_replicas=2, max_replicas=3) == ""


def test_the_first_job_that_wants_a_host_of_its_own_for_each_pod_finds_some():
    assert never(replicas=2, resources={"apart/a/b": 1}) == ""
    assert never(replicas=3, resources={"hostport/80": 1}).endswith(
        "largest gang that fits: 2 replicas of 1 hostport/80"
    )
