"""Demands of existing foreign pods."""

import yaml
from cluster_objects import pod

from windlass.backends.kubernetes.cluster.cluster_view import ClusterView
from windlass.backends.kubernetes.cluster.job_resolution import requests_of
from windlass.backends.kubernetes.cluster.object_faults import ObjectFaults

NVIDIA = "{containers: [{name: a, resources: {limits: {nvidia.com/gpu: '2', cpu: '1'}}}]}"
TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
ANTI = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}
ONE_A_NODE = yaml.safe_dump({"containers": [{"name": "a"}], "affinity": ANTI, "nodeName": "n1"})


def test_an_existing_pod_has_requests_in_names_of_the_core():
    assert requests_of(pod("web", NVIDIA)) == {"gpu": 2, "cpu": 1000, "pods": 1}


def test_a_pod_with_anti_affinity_to_equal_pods_excludes_them_from_its_node():
    assert requests_of(pod("web-1", ONE_A_NODE, labels={"app": "web"})) == {"pods": 1, "apart/default/app=web": 1}
    assert requests_of(pod("web-1", ONE_A_NODE, labels={"app": "db"})) == {"pods": 1}


def test_a_pod_of_another_scheduler_excludes_equal_pods_from_its_node():
    picture = ClusterView(ObjectFaults(lambda: 0))
    picture.put_pod(pod("web-1", ONE_A_NODE, labels={"app": "web"}), None)
    assert picture.others.taken("n1")["apart/default/app=web"] == 1
