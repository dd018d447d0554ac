"""Rendered files: `windlass lint` finds nothing in them, and Windlass's own readers take them."""

import subprocess

import pytest
import yaml

from windlass.backends.kubernetes.cluster.cluster_settings import read_settings
from windlass.diagnose.lint.engine import lint_paths
from windlass.hardware.facts.gpus import find_gpu
from windlass.hardware.sharing.plan import plan_sharing
from windlass.hardware.sharing.render.files import rendered_files
from windlass.hardware.sharing.request import Arrivals, Isolation, Pool, SharingRequest, Workload, WorkloadKind
from windlass.jobs.cluster.cluster_file import load_cluster

GB = 10**9
CHAT = Workload(
    "chat",
    WorkloadKind.INFERENCE,
    9,
    8 * GB,
    0.04,
    isolation=Isolation.FAULT,
    compute=0.2,
    latency_s=0.3,
    arrivals=Arrivals(20.0),
)
EMBED = Workload(
    "embed",
    WorkloadKind.INFERENCE,
    30,
    4 * GB,
    0.01,
    isolation=Isolation.MEMORY,
    compute=0.1,
    latency_s=0.1,
    arrivals=Arrivals(60.0),
)
NOTEBOOKS = Workload("notebooks", WorkloadKind.NOTEBOOK, 30, 7 * GB, 15, slowdown=2, arrivals=Arrivals(0.05))
TRAIN = Workload("train", WorkloadKind.TRAINING, 1, 30 * GB, 86_400, gpus=12)
PLANS = {
    "mig": ("A100-80GB", 8, 1, (CHAT,)),
    "mps": ("L4", 4, 2, (EMBED,)),
    "time-slicing": ("L4", 4, 6, (NOTEBOOKS,)),
    "whole": ("L40S", 8, 2, (TRAIN,)),
    "all": ("A100-80GB", 8, 5, (TRAIN, CHAT, NOTEBOOKS)),
    "slices and notebooks on one node": ("A100-80GB", 8, 1, (NOTEBOOKS, CHAT)),
    "a model with the places of another": ("A800", 8, 1, (CHAT,)),
    "nothing": ("L4", 1, 1, (TRAIN,)),
}


def files_of(name):
    gpu, gpus, nodes, workloads = PLANS[name]
    return rendered_files(plan_sharing(SharingRequest((Pool("p", find_gpu(gpu), gpus, nodes, "pool=p"),), workloads)))


def documents(files, name):
    return list(yaml.safe_load_all(files[name]))


@pytest.mark.parametrize("name", PLANS)
def test_lint_finds_nothing_in_the_files(name, tmp_path):
    for file, text in files_of(name).items():
        (tmp_path / file).write_text(text)
    assert not lint_paths([str(tmp_path)])


@pytest.mark.parametrize("name", sorted(PLANS.keys() - {"nothing"}))
def test_the_cluster_file_has_the_nodes_and_queues_of_the_plan(name, tmp_path):
    files = files_of(name)
    (tmp_path / "cluster.yaml").write_text(files["cluster.yaml"])
    cluster = load_cluster(str(tmp_path / "cluster.yaml"))
    assert {queue.name for queue in cluster.queues} == {"default", *(each.name for each in PLANS[name][3])}
    assert sum(node.capacity["gpu"] for node in cluster.nodes) <= PLANS[name][1] * PLANS[name][2]


@pytest.mark.parametrize("name", PLANS)
def test_the_shell_takes_the_script(name):
    ran = subprocess.run(
        ["sh", "-n"], input=files_of(name)["label-nodes.sh"], text=True, capture_output=True, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_node_with_mig_gets_its_layouts_and_the_mixed_strategy():
    files = files_of("mig")
    (config,) = documents(files, "mig-parted-config.yaml")
    configs = yaml.safe_load(config["data"]["config.yaml"])["mig-configs"]
    assert configs["p-mig"] == [
        {"devices": [0], "mig-enabled": True, "mig-devices": {"1g.10gb": 7}},
        {"devices": [1], "mig-enabled": True, "mig-devices": {"1g.10gb": 2}},
        {"devices": [2, 3, 4, 5, 6, 7], "mig-enabled": False},
    ]
    (policy,) = documents(files, "cluster-policy.yaml")
    assert policy["spec"]["mig"] == {"strategy": "mixed"}
    assert policy["spec"]["migManager"]["config"]["name"] == config["metadata"]["name"]
    assert "nvidia.com/mig.config=p-mig" in files["label-nodes.sh"]


@pytest.mark.parametrize(("name", "way", "replicas"), [("mps", "mps", 5), ("time-slicing", "timeSlicing", 3)])
def test_a_node_with_shared_gpus_gets_replicas_of_another_name(name, way, replicas):
    (config,) = documents(files_of(name), "device-plugin-config.yaml")
    sharing = yaml.safe_load(config["data"][f"p-{name}-{replicas}"])["sharing"]
    assert sharing == {
        way: {
            "renameByDefault": True,
            "failRequestsGreaterThanOne": True,
            "resources": [{"name": "nvidia.com/gpu", "replicas": replicas}],
        }
    }


def test_pods_that_share_a_gpu_have_one_claim_and_others_a_template():
    shared = [each for each in documents(files_of("mps"), "dra.yaml") if each["kind"] != "DeviceClass"]
    assert [each["kind"] for each in shared] == ["ResourceClaim"] * 6
    config = shared[0]["spec"]["devices"]["config"][0]["opaque"]["parameters"]["sharing"]
    assert config == {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 20}}
    own = [each for each in documents(files_of("mig"), "dra.yaml") if each["kind"] != "DeviceClass"]
    assert [each["kind"] for each in own] == ["ResourceClaimTemplate"]


def test_a_claim_of_a_gang_has_the_gpus_of_one_node():
    (_, template) = documents(files_of("whole"), "dra.yaml")
    assert template["spec"]["spec"]["devices"]["requests"][0]["exactly"] == {
        "deviceClassName": "windlass-gpu",
        "count": 8,
    }


@pytest.mark.parametrize("name", PLANS)
def test_the_operator_takes_the_queues(name):
    settings = read_settings(documents(files_of(name), "queues.yaml"), (), (), ())
    assert not settings.faults
    assert {queue.name for queue in settings.queues} >= {"default"}
