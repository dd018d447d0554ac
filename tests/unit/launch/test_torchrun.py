"""The variables of a rank."""

import pytest

from windlass.core.model.job import ArrayMember, Job, Launcher, RestartPolicy, Role
from windlass.launch.ranks import ranks_of
from windlass.launch.threads import threads_of
from windlass.launch.torchrun import StoreAddress, environment

GANG = (Role("ps", replicas=1, procs=1), Role("worker", replicas=2, procs=2))
OPTIONS = {
    "PET_NNODES": "3",
    "PET_NPROC_PER_NODE": "2",
    "PET_NODE_RANK": "2",
    "PET_MASTER_ADDR": "10.0.0.1",
    "PET_MASTER_PORT": "20001",
    "PET_RDZV_BACKEND": "static",
    "PET_RDZV_ID": "j-7.3",
    "PET_ROLE": "worker",
}


def environments(job, **more):
    facts = {"job_id": "j-7", "generation": 3, "node": "n1", "store": StoreAddress("10.0.0.1", 20_001), **more}
    return [environment(job, rank, **facts) for rank in ranks_of(job)]


def test_a_plain_rank_gets_the_variables_of_torchruns_workers():
    last = environments(Job("j", GANG, restart=RestartPolicy(user_limit=5)))[4]
    assert last == {
        "RANK": "4",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "5",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "2",
        "GROUP_WORLD_SIZE": "3",
        "ROLE_NAME": "worker",
        "ROLE_RANK": "3",
        "ROLE_WORLD_SIZE": "4",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "20001",
        "TORCHELASTIC_RUN_ID": "j-7",
        "TORCHELASTIC_RESTART_COUNT": "2",
        "TORCHELASTIC_MAX_RESTARTS": "5",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        "WINDLASS_JOB_ID": "j-7",
        "WINDLASS_JOB_NAME": "j",
        "WINDLASS_GENERATION": "3",
        "WINDLASS_GRACE": "10",
        "WINDLASS_NODE": "n1",
        "WINDLASS_ROLE": "worker",
        "WINDLASS_REPLICA": "1",
        **OPTIONS,
    }


def test_torchrun_gets_its_options_as_variables():
    last = environments(Job("j", GANG, launcher=Launcher.TORCHRUN))[2]
    assert {name: value for name, value in last.items() if name.startswith("PET_")} == OPTIONS
    assert "RANK" not in last  # it is no rank; its children are


def test_all_ranks_of_a_replica_see_its_devices():
    first, second = environments(Job("j", (Role(procs=2),)), devices=("2", "5"))
    assert first["CUDA_VISIBLE_DEVICES"] == second["CUDA_VISIBLE_DEVICES"] == "2,5"


def test_an_array_member_gets_its_index():
    (variables,) = environments(Job("j", (Role(),), array=ArrayMember("j-7", 4)))
    assert variables["JOB_COMPLETION_INDEX"] == "4"


def test_the_jobs_env_overrides_defaults_and_not_identity():
    env = {"OMP_NUM_THREADS": "3", "PYTHONUNBUFFERED": "0", "RANK": "9", "CUDA_VISIBLE_DEVICES": "0", "MINE": "x"}
    (variables,) = environments(Job("j", (Role(env=env),)))
    assert (variables["OMP_NUM_THREADS"], variables["PYTHONUNBUFFERED"], variables["MINE"]) == ("3", "0", "x")
    assert (variables["RANK"], variables["CUDA_VISIBLE_DEVICES"]) == ("0", "")


def test_variables_that_are_set_already_are_kept():
    (variables,) = environments(Job("j", (Role(),)), inherited={"OMP_NUM_THREADS": "8", "PYTHONUNBUFFERED": ""})
    assert "OMP_NUM_THREADS" not in variables
    assert "PYTHONUNBUFFERED" not in variables


@pytest.mark.parametrize(
    ("role", "share", "count", "why"),
    [
        (Role(procs=2, resources={"cpu": 8000}), 1000, 4, "OMP_NUM_THREADS=4 (8 CPUs for 2 ranks)"),
        (Role(procs=2, resources={"cpu": 1500}), 64_000, 1, "OMP_NUM_THREADS=1 (1.5 CPUs for 2 ranks)"),
        (Role(procs=4), 16_000, 4, "OMP_NUM_THREADS=4 (16 CPUs as this replica's share of the node for 4 ranks)"),
        (Role(), 0, 1, "OMP_NUM_THREADS=1 (0 CPUs as this replica's share of the node for 1 rank)"),
        (Role(env={"OMP_NUM_THREADS": "7"}), 1000, None, "OMP_NUM_THREADS=7 (set by the job)"),
    ],
)
def test_threads_of_a_rank_are_its_part_of_the_requested_cpus(role, share, count, why):
    threads = threads_of(role, cpu_share=share)
    assert (threads.count, threads.why) == (count, why)
