"""Pods of others that name our scheduler."""

import pytest
import yaml
from cluster_objects import claim, pod, volume

from windlass.core.job import Job, Match, Role
from windlass.jobs.kubernetes.reading import Refused
from windlass.worlds.kubernetes.cluster.picture import Picture
from windlass.worlds.kubernetes.cluster.standing import asks, of_their_kind, terms
from windlass.worlds.kubernetes.cluster.volumes import Stock

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
    picture = Picture()
    picture.put_pod(pod("web-1", ONE_A_NODE, labels={"app": "web"}), ours=False)
    assert picture.others.taken("n1")["apart/default/app=web"] == 1


def test_volumes_draw_pods_to_nodes():
    mounts = pod("db-0", "{containers: [{name: a}], volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}")
    with pytest.raises(Refused, match="there is no PersistentVolumeClaim data"):
        terms(mounts, Stock())
    there = Stock({("default", "data"): claim("data", "{volumeName: pv-1}")}, {"pv-1": volume("pv-1", {"zone": ["a"]})})
    assert terms(mounts, there) == ((Match("zone", "In", ("a",)),),)


def test_roles_go_where_their_kind_of_gpu_is():
    amd = NVIDIA.replace("nvidia", "amd")
    job = Job(
        "j", (Role("a", 2, resources={"gpu": 2}), Role("b", resources={"gpu": 2}), Role("c", resources={"cpu": 1}))
    )
    fitted = of_their_kind(job, [pod("0", NVIDIA), pod("1", NVIDIA), pod("2", amd), pod("3", "{containers: []}")])
    assert [dict(role.node_selector) for role in fitted.roles] == [
        {"windlass.dev/gpu": "nvidia.com/gpu"},
        {"windlass.dev/gpu": "amd.com/gpu"},
        {},
    ]
