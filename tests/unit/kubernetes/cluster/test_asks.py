"""Pods that exist already, made by others."""

import yaml
from cluster_objects import pod

from windlass.backends.kubernetes.cluster.cluster_view import ClusterView
from windlass.backends.kubernetes.cluster.job_resolution import asks

NVIDIA = "{containers: [{name: a, resources: {limits: {nvidia.com/gpu: '2', cpu: '1'}}}]}"
TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
ANTI = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}
ONE_A_NODE = yaml.safe_dump({"containers": [{"name": "a"}], "affinity": ANTI, "nodeName": "n1"})


def test_what_a_pod_that_exists_asks_for():
    assert asks(pod("web", NVIDIA)) == {"gpu": 2, "cpu": 1000, "pods": 1}


def test_a_pod_that_avoids_its_own_like_has_its_node_to_itself_among_them():
    assert asks(pod("web-1", ONE_A_NODE, labels={"app": "web"})) == {"pods": 1, "apart/default/app=web": 1}
    assert asks(pod("web-1", ONE_A_NODE, labels={"app": "db"})) == {"pods": 1}


def test_one_that_another_scheduler_has_placed_keeps_its_like_away():
    picture = ClusterView()
    picture.put_pod(pod("web-1", ONE_A_NODE, labels={"app": "web"}), ours=False)
    assert picture.others.taken("n1")["apart/default/app=web"] == 1
