"""The cluster and task of a TensorFlow process."""

import json

from windlass.launch.tf_config import cluster_of, tf_config

CLUSTER = cluster_of("mnist", "team", {"worker": (2, 2222), "ps": (1, 2222), "evaluator": (1, 3333)})


def test_a_cluster_names_every_replica_evaluators_included():
    assert CLUSTER == {
        "evaluator": ["mnist-evaluator-0.team.svc:3333"],
        "ps": ["mnist-ps-0.team.svc:2222"],
        "worker": ["mnist-worker-0.team.svc:2222", "mnist-worker-1.team.svc:2222"],
    }


def test_a_cluster_domain_ends_every_name():
    assert cluster_of("mnist", "team", {"ps": (1, 1)}, "cluster.local")["ps"] == ["mnist-ps-0.team.svc.cluster.local:1"]


def test_the_variable_is_compact_json():
    assert tf_config({"worker": ["a:1", "b:1"]}, "worker", 1) == (
        '{"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":1},"environment":"cloud"}'
    )


def test_dynamic_workers_get_themselves_and_the_servers():
    assert json.loads(tf_config(CLUSTER, "worker", 1, dynamic=True)) == {
        "cluster": {"worker": {"1": "mnist-worker-1.team.svc:2222"}, "ps": ["mnist-ps-0.team.svc:2222"]},
        "task": {"type": "worker", "index": 1},
    }
    server = json.loads(tf_config(CLUSTER, "ps", 0, dynamic=True))
    assert server["cluster"] == {"worker": {}, "ps": ["mnist-ps-0.team.svc:2222"]}
