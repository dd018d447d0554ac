"""Network profiles: what a pod gets for a fabric, which profile nodes show, and settings that are obsolete."""

import pytest

from windlass.hardware.errors import PlanError
from windlass.hardware.network.addition import addition_of, environment_of
from windlass.hardware.network.automatic import (
    NodeFabric,
    choose_for_devices,
    choose_for_nodes,
    usable_nodes,
)
from windlass.hardware.network.profiles import PROFILES, is_rdma_resource, profile_page
from windlass.hardware.network.request import NetworkRequest, format_network, parse_defaults, parse_network
from windlass.hardware.network.variables import OBSOLETE, obsolete_settings

P5 = {"node.kubernetes.io/instance-type": "p5.48xlarge"}


def node(gpus=8, instance="", **devices):
    labels = {"node.kubernetes.io/instance-type": instance} if instance else {}
    return NodeFabric(labels, {name.replace("__", "/"): count for name, count in devices.items()}, gpus)


def chosen(nodes, text="auto", **defaults):
    known = {name.replace("_", "-"): parse_network(value) for name, value in defaults.items()}
    return choose_for_nodes(nodes, known, parse_network(text))


@pytest.mark.parametrize(
    "text",
    [
        "efa",
        "tcp,interface=eth0",
        "roce-sriov,resource=nvidia.com/rail0+nvidia.com/rail1,networks=team/rail0+rail1@net1,hca=mlx5_0:1",
        "auto,nccl=2.20,plugin=1.6",
    ],
)
def test_a_request_is_written_as_it_was_read(text):
    assert format_network(parse_network(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ib", "expects efa, infiniband, roce, roce-sriov, tcp, auto, not 'ib'"),
        ("infinband", "did you mean infiniband"),
        ("efa,adapters=4", "has no parameter 'adapters=4'"),
        ("efa,count=0", "expects count= with a value such as 32, not '0'"),
        ("tcp,interface=eth0;reboot", "expects interface= with a value such as net1"),
        ("tcp,interface=eth0,interface=eth1", "has interface twice"),
        ("roce,networks=a++b", "expects networks="),
        ("efa" + ",count=1" * 500, "at most 2000 characters"),
    ],
)
def test_a_request_that_cannot_be_read_names_what_is_expected(text, message):
    with pytest.raises(ValueError, match=r".") as error:
        parse_network(text)
    assert message in str(error.value)


def test_a_cluster_has_parameters_for_several_profiles():
    found = parse_defaults("roce-sriov,networks=rail0+rail1; efa,hugepages=0")
    assert found["roce-sriov"].networks == ("rail0", "rail1")
    assert parse_network("efa,count=2").over(found["efa"]) == NetworkRequest("efa", count="2", hugepages="0")
    with pytest.raises(ValueError, match="each profile once"):
        parse_defaults("efa;efa")


def test_adapters_of_a_pod_are_its_share_of_the_instance():
    assert addition_of(parse_network("efa"), 8, P5).limits == {
        "vpc.amazonaws.com/efa": "32",
        "hugepages-2Mi": "5120Mi",
    }
    assert addition_of(parse_network("efa"), 2, P5).limits == {
        "vpc.amazonaws.com/efa": "8",
        "hugepages-2Mi": "1280Mi",
    }
    fixed = addition_of(parse_network("efa,count=4,hugepages=1Gi"), 2, {})
    assert fixed.limits == {"vpc.amazonaws.com/efa": "4", "hugepages-2Mi": "1Gi"}
    assert (
        addition_of(parse_network("efa"), 1, {}, [node(8, vpc__x=1), efa_node(4)]).limits["vpc.amazonaws.com/efa"]
        == "1"
    )


def efa_node(adapters, gpus=8):
    return NodeFabric({}, {"vpc.amazonaws.com/efa": adapters}, gpus)


def test_efa_without_a_machine_type_names_the_two_fixes():
    with pytest.raises(PlanError, match=r"selector: .*count=32"):
        addition_of(parse_network("efa"), 8, {})


def test_roce_needs_its_networks():
    with pytest.raises(PlanError, match="networks=NAME"):
        addition_of(parse_network("roce"), 8, {})


def test_every_network_takes_a_virtual_function_of_its_own():
    shared = addition_of(parse_network("roce-sriov,networks=a+b"), 8, {})
    assert shared.limits == {"nvidia.com/sriov_resource": "2"}
    assert shared.capabilities == ("IPC_LOCK",)
    rails = addition_of(parse_network("roce-sriov,networks=a+b,resource=nvidia.com/rail0+nvidia.com/rail1"), 8, {})
    assert rails.limits == {"nvidia.com/rail0": "1", "nvidia.com/rail1": "1"}


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("efa", {}),
        ("efa,hugepages=0", {"FI_EFA_USE_HUGE_PAGE": "0"}),
        ("efa,plugin=1.6", {"FI_EFA_USE_DEVICE_RDMA": "1"}),
        ("efa,plugin=1.5.0", {"FI_EFA_USE_DEVICE_RDMA": "1", "FI_PROVIDER": "efa", "NCCL_PROTO": "simple"}),
        ("efa,plugin=1.14", {}),
        ("infiniband,hca=mlx5_0+mlx5_1", {"NCCL_IB_HCA": "=mlx5_0,mlx5_1"}),
        ("roce,networks=a,nccl=2.20", {"NCCL_IB_GID_INDEX": "3"}),
        ("roce,networks=a,nccl=2.27.3", {}),
        ("tcp,interface=eth0", {"NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "=eth0", "GLOO_SOCKET_IFNAME": "eth0"}),
    ],
)
def test_variables_are_those_that_the_versions_need(text, variables):
    assert environment_of(parse_network(text)) == variables


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_for_current_versions_sets_nothing_obsolete(profile):
    current = NetworkRequest(profile, networks=("a",), interface=("net1",), hca=("mlx5_0",), nccl="2.27", plugin="1.16")
    assert list(obsolete_settings(environment_of(current))) == []


@pytest.mark.parametrize(
    ("nodes", "profile", "reason"),
    [
        ([efa_node(32), efa_node(32)], "efa", "nodes offer vpc.amazonaws.com/efa, on 2 of 2 nodes"),
        ([node(instance="p5.48xlarge")], "tcp", "p5.48xlarge has efa, but no device plugin offers it"),
        ([node(instance="Standard_ND96isr_H100_v5", rdma__x=1)], "infiniband", "nodes offer rdma/x"),
        ([node(rdma__ib=8)], "infiniband", "nodes offer rdma/ib"),
        ([node(rdma__hca=8)], "tcp", "no networks are named for it"),
        ([node()], "tcp", "nodes offer no RDMA device"),
        ([efa_node(32), node()], "tcp", "differ: 1 × efa, 1 × tcp"),
        ([], "tcp", "no node that the job may use is known"),
    ],
)
def test_auto_is_what_all_nodes_show(nodes, profile, reason):
    choice = chosen(nodes)
    assert (choice.profile, reason in choice.reason) == (profile, True), choice


def test_auto_takes_sriov_where_networks_are_configured():
    assert chosen([node(nvidia__x=1), node(nvidia__x=1)]).profile == "tcp"
    offered = NodeFabric({}, {"nvidia.com/sriov_rail": 8}, 8)
    assert chosen([offered], "auto,networks=a").profile == "roce-sriov"
    choice = chosen([offered], roce_sriov="roce-sriov,resource=nvidia.com/sriov_rail,networks=a")
    assert (choice.profile, choice.reason) == (
        "roce-sriov",
        "nodes offer nvidia.com/sriov_rail, configured for roce-sriov, on 1 of 1 nodes",
    )


def test_nodes_without_gpus_do_not_decide_for_a_job_with_gpus():
    assert usable_nodes([node(0), efa_node(4)], {}, 8) == [efa_node(4)]
    assert usable_nodes([node(8), node(8, "p5.48xlarge")], P5, 8) == [node(8, "p5.48xlarge")]


def test_devices_of_a_machine_choose_the_fastest_fabric():
    assert choose_for_devices(["roce", "efa"]).profile == "efa"
    assert choose_for_devices(["roce"]).profile == "roce"
    assert choose_for_devices([]).reason == "no active RDMA port in /sys/class/infiniband"


def test_obsolete_settings_are_found_by_name_or_by_value():
    env = {
        "FI_PROVIDER": "tcp",
        "NCCL_PROTO": "Simple",
        "NCCL_NET": "Socket",
        "RDMAV_FORK_SAFE": "1",
        "NCCL_TIMEOUT": "1",
    }
    assert {each.name for each in obsolete_settings(env)} == {"NCCL_PROTO", "RDMAV_FORK_SAFE", "NCCL_TIMEOUT"}
    assert all(each.source.startswith("https://") for each in OBSOLETE)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_states_its_sources(profile):
    page = profile_page(profile)
    assert PROFILES[profile].source.startswith("https://")
    assert all(each.name in page and each.source.startswith("https://") for each in PROFILES[profile].variables)


def test_rdma_resources_are_told_from_others():
    rdma = ["rdma/hca", "nvidia.com/sriov_resource", "openshift.io/rdma0", "mellanox.com/x"]
    assert [is_rdma_resource(name) for name in (*rdma, "nvidia.com/gpu", "vpc.amazonaws.com/efa")] == [True] * 4 + [
        False
    ] * 2
