"""The network profile of a job on this machine: variables only, below those of the job."""

import pytest

from windlass.cli.job_submission import with_network
from windlass.cli.local_network import local_request
from windlass.jobs.description.job_file import loads


def device(root, name, driver, link_layer, state="4: ACTIVE"):
    port = root / "sys/class/infiniband" / name / "ports/1"
    port.mkdir(parents=True)
    (port / "state").write_text(state)
    (port / "link_layer").write_text(link_layer)
    (root / "drivers" / driver).mkdir(parents=True, exist_ok=True)
    place = root / "sys/class/infiniband" / name / "device"
    place.mkdir()
    (place / "driver").symlink_to(root / "drivers" / driver)


@pytest.mark.parametrize(
    ("driver", "link_layer", "profile"),
    [("mlx5_core", "InfiniBand", "infiniband"), ("mlx5_core", "Ethernet", "roce"), ("efa", "Unspecified", "efa")],
)
def test_auto_is_what_the_devices_are(tmp_path, driver, link_layer, profile):
    device(tmp_path, "rdma0", driver, link_layer)
    request, note = local_request("auto,nccl=2.18", tmp_path)
    assert (request.profile, request.nccl) == (profile, "2.18")
    assert note == f"network auto is {profile}: 1 active {profile} ports in /sys/class/infiniband"


def test_a_port_that_is_down_does_not_count(tmp_path):
    device(tmp_path, "rdma0", "mlx5_core", "InfiniBand", "1: DOWN")
    assert local_request("auto", tmp_path)[0].profile == "tcp"


def test_variables_of_the_job_win():
    (submission,) = loads(
        "command: python a.py\nnetwork: tcp,interface=eth0\nenv: {GLOO_SOCKET_IFNAME: eth1}\n", base="/srv"
    )
    env = with_network(submission).job.roles[0].env
    assert env == {"NCCL_NET": "Socket", "NCCL_SOCKET_IFNAME": "=eth0", "GLOO_SOCKET_IFNAME": "eth1"}


def test_a_role_may_have_a_network_of_its_own():
    text = "network: tcp\nroles: {ps: {command: a}, worker: {command: b, network: 'infiniband,hca=mlx5_0'}}\n"
    (submission,) = loads(text, base="/srv")
    assert [role.network for role in submission.job.roles] == ["tcp", "infiniband,hca=mlx5_0"]
    assert with_network(submission).job.roles[1].env == {"NCCL_IB_HCA": "=mlx5_0"}
