"""Pods of jobs with a network profile: of our own kind by a field, of Kubeflow's kinds by an annotation."""

import pytest

from windlass.diagnose.lint.engine import lint_texts
from windlass.hardware.network.automatic import NodeFabric
from windlass.hardware.network.request import parse_defaults
from windlass.jobs.kubernetes.kinds import registry
from windlass.jobs.kubernetes.manifest_reader import Fault
from windlass.jobs.kubernetes.manifests.manifest_file import as_yaml
from windlass.jobs.kubernetes.pods.network_pods import NO_NODES
from windlass.jobs.kubernetes.settings import Settings
from windlass.jobs.syntax.text import Text

P5 = NodeFabric({"node.kubernetes.io/instance-type": "p5.48xlarge"}, {"vpc.amazonaws.com/efa": 32}, 8)


def training_job(network, **spec):
    fields = {"image": "train:1", "command": "torchrun train.py", "gpus": 8, "nodes": 2, "network": network}
    return {
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "train"},
        "spec": {**fields, **spec},
    }


def pytorch_job(network, **container):
    main = {"name": "pytorch", "image": "train:1", "resources": {"limits": {"nvidia.com/gpu": 8}}, **container}
    template = {"spec": {"containers": [main]}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train", "annotations": {"windlass.dev/network": network}},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": template}}},
    }


def in_a_cluster(*nodes, network=""):
    return Settings(nodes=lambda: nodes, networks=parse_defaults(network))


def pods_of(manifest, settings):
    parsed = registry.read(manifest, settings)
    assert not isinstance(parsed, Fault), parsed
    return [member.pod for member in registry.members(parsed, 1)]


def limits_of(pod):
    return pod["spec"]["containers"][0]["resources"]["limits"]


@pytest.mark.parametrize("manifest", [training_job, pytorch_job])
def test_efa_adds_adapters_and_huge_pages(manifest):
    for pod in pods_of(manifest("efa"), in_a_cluster(P5)):
        assert limits_of(pod) == {
            "nvidia.com/gpu": pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
        } | {
            "vpc.amazonaws.com/efa": "32",
            "hugepages-2Mi": "5120Mi",
        }
        assert pod["spec"]["containers"][0]["resources"]["requests"] == {"memory": "1Gi"}


@pytest.mark.parametrize("manifest", [training_job, pytorch_job])
def test_the_scheduler_counts_what_the_pods_request(manifest):
    parsed = registry.read(manifest("efa"), in_a_cluster(P5))
    assert parsed.job.roles[0].resources == {
        "gpu": 8,
        "vpc.amazonaws.com/efa": 32,
        "hugepages-2Mi": 5120 * 2**20,
        "memory": 2**30,
    }


def test_auto_names_its_choice_and_the_reason_on_the_pods():
    pods = pods_of(training_job("auto"), in_a_cluster(P5, P5))
    reason = "efa: nodes offer vpc.amazonaws.com/efa, on 2 of 2 nodes"
    assert [pod["metadata"]["annotations"]["windlass.dev/network"] for pod in pods] == [reason] * 2


def test_auto_waits_until_nodes_are_known():
    found = registry.read(training_job("auto"), in_a_cluster())
    assert (found.reason, found.path) == (NO_NODES, ("spec", "network"))


def test_networks_of_the_operator_count_where_the_job_has_none():
    settings = in_a_cluster(P5, network="roce-sriov,networks=rdma/rail0+rdma/rail1,interface=net1")
    (pod, _) = pods_of(training_job("roce-sriov"), settings)
    assert pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"] == "rdma/rail0, rdma/rail1"
    assert limits_of(pod)["nvidia.com/sriov_resource"] == "2"
    assert pod["spec"]["containers"][0]["securityContext"] == {"capabilities": {"add": ["IPC_LOCK"]}}
    env = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
    assert (env["NCCL_SOCKET_IFNAME"], env["GLOO_SOCKET_IFNAME"]) == ("=net1", "net1")


def test_a_missing_parameter_is_refused_in_a_cluster_and_a_warning_without_one():
    found = registry.read(training_job("roce"), in_a_cluster(P5))
    assert "networks=NAME" in found.message
    (warning,) = registry.read(training_job("roce")).warnings
    assert "networks=NAME" in warning


def test_fields_of_a_template_stay():
    own = {
        "resources": {"limits": {"nvidia.com/gpu": 8, "vpc.amazonaws.com/efa": 4}, "requests": {"cpu": "8"}},
        "securityContext": {"capabilities": {"add": ["SYS_PTRACE"]}},
        "env": [{"name": "NCCL_IB_HCA", "value": "mlx5_9"}],
    }
    (pod, _) = pods_of(pytorch_job("efa", **own), in_a_cluster(P5))
    assert limits_of(pod)["vpc.amazonaws.com/efa"] == 4
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "8"}
    (pod, _) = pods_of(pytorch_job("infiniband,hca=mlx5_0", **own), in_a_cluster(P5))
    assert pod["spec"]["containers"][0]["securityContext"]["capabilities"]["add"] == ["SYS_PTRACE", "IPC_LOCK"]
    assert [each["value"] for each in pod["spec"]["containers"][0]["env"] if each["name"] == "NCCL_IB_HCA"] == [
        "mlx5_9"
    ]


def test_variables_of_the_job_win():
    (pod, _) = pods_of(training_job("tcp", env={"NCCL_NET": "IB"}), Settings())
    assert [each["value"] for each in pod["spec"]["containers"][0]["env"] if each["name"] == "NCCL_NET"] == ["IB"]


def test_the_launcher_of_an_mpijob_gets_nothing():
    container = [{"name": "mpi", "image": "train:1"}]
    specs = {
        "Launcher": {"template": {"spec": {"containers": container}}},
        "Worker": {"replicas": 2, "template": {"spec": {"containers": container}}},
    }
    manifest = {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "train", "annotations": {"windlass.dev/network": "infiniband"}},
        "spec": {"mpiReplicaSpecs": specs},
    }
    parsed = registry.read(manifest)
    assert {role.name: role.resources for role in parsed.job.roles} == {
        "launcher": {},
        "worker": {"rdma/rdma_shared_device_a": 1},
    }


def test_an_annotation_that_cannot_be_read_is_one_clear_fault():
    found = registry.read(pytorch_job("efa,adapters=4"))
    assert found.path == ("metadata", "annotations", "windlass.dev/network")
    assert "has no parameter 'adapters=4'" in found.message


@pytest.mark.parametrize(
    "network", ["efa", "infiniband,hca=mlx5_0", "roce,networks=rdma/a", "roce-sriov,networks=a+b", "tcp,interface=eth0"]
)
@pytest.mark.parametrize("manifest", [training_job, pytorch_job])
def test_pods_of_every_profile_pass_lint(manifest, network):
    pods = pods_of(manifest(network), in_a_cluster(P5))
    assert [str(each) for each in lint_texts([Text("pods.yaml", as_yaml(pods))])] == []
