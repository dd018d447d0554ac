"""The variables of a PyTorchJob's pods."""

import pytest

from windlass.launch.pytorchjob import Elastic, PyTorchGang, environment

MASTER_AND_TWO = PyTorchGang("digits", pods=3, master_port=23456, nproc_per_node="auto")


@pytest.mark.parametrize(("role", "index", "rank"), [("master", 0, "0"), ("worker", 0, "1"), ("worker", 1, "2")])
def test_with_a_master_every_pod_has_a_rank(role, index, rank):
    assert environment(MASTER_AND_TWO, role, index) == {
        "PYTHONUNBUFFERED": "1",
        "MASTER_PORT": "23456",
        "PET_MASTER_PORT": "23456",
        "MASTER_ADDR": "digits-master-0",
        "PET_MASTER_ADDR": "digits-master-0",
        "WORLD_SIZE": "3",
        "RANK": rank,
        "PET_NODE_RANK": rank,
        "PET_NPROC_PER_NODE": "auto",
        "PET_NNODES": "3",
    }


@pytest.mark.parametrize(("nproc", "world_size"), [("4", "12"), ("gpu", "3"), ("cpu", "3"), ("٣", "3")])
def test_the_world_counts_processes_where_their_number_is_known(nproc, world_size):
    gang = PyTorchGang("digits", pods=3, master_port=1, nproc_per_node=nproc)
    assert environment(gang, "worker", 0)["WORLD_SIZE"] == world_size


def test_workers_without_a_master_get_no_rank():
    variables = environment(PyTorchGang("digits", pods=2, nproc_per_node="2"), "worker", 1)
    assert variables == {"PYTHONUNBUFFERED": "1", "PET_NPROC_PER_NODE": "2", "PET_NNODES": "2"}


def test_an_elastic_job_meets_at_worker_0():
    policy = Elastic(1, 4, "digits-worker-0:23456", max_restarts=100, nproc_per_node=2)
    assert environment(PyTorchGang("digits", pods=2, elastic=policy), "worker", 1) == {
        "PYTHONUNBUFFERED": "1",
        "PET_RDZV_ENDPOINT": "digits-worker-0:23456",
        "PET_RDZV_BACKEND": "c10d",
        "PET_NNODES": "1:4",
        "PET_MAX_RESTARTS": "100",
        "PET_NPROC_PER_NODE": "2",
    }


def test_every_rendezvous_option_becomes_a_variable():
    conf = (("timeout", "300"), ("is_host", "1"))
    policy = Elastic(1, 2, "etcd:2379", backend="etcd-v2", rdzv_id="7", rdzv_conf=conf, standalone=True)
    variables = environment(PyTorchGang("digits", pods=2, nproc_per_node="auto", elastic=policy), "worker", 0)
    assert variables["PET_RDZV_BACKEND"] == "etcd-v2"
    assert variables["PET_RDZV_ID"] == "7"
    assert variables["PET_RDZV_CONF"] == "timeout=300,is_host=1"
    assert variables["PET_STANDALONE"] == ""  # torchrun takes its presence for yes
