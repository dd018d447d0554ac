"""The variables of pods of the training operator's smaller kinds."""

from windlass.launch import jaxjob, paddlejob, xgboostjob
from windlass.launch.xgboostjob import XGBoostGang


def test_jax_processes_meet_at_worker_0():
    assert jaxjob.environment("sum", pods=2, port=6666, index=1) == {
        "PYTHONUNBUFFERED": "1",
        "COORDINATOR_PORT": "6666",
        "COORDINATOR_ADDRESS": "sum-worker-0",
        "NUM_PROCESSES": "2",
        "PROCESS_ID": "1",
    }


def test_xgboost_workers_rank_behind_the_master():
    gang = XGBoostGang("iris", workers=2, master_port=9991, worker_port=9992)
    assert xgboostjob.environment(gang, "master", 0)["RANK"] == "0"
    assert xgboostjob.environment(gang, "worker", 1) == {
        "MASTER_PORT": "9991",
        "MASTER_ADDR": "iris-master-0",
        "WORLD_SIZE": "3",
        "RANK": "2",
        "PYTHONUNBUFFERED": "1",
        "WORKER_PORT": "9992",
        "WORKER_ADDRS": "iris-worker-0,iris-worker-1",
    }


def test_a_single_xgboost_master_gets_no_worker_variables():
    variables = xgboostjob.environment(XGBoostGang("iris", 0, 9991, 9992), "master", 0)
    assert not {"WORKER_PORT", "WORKER_ADDRS"} & set(variables)


def test_paddle_workers_meet_at_the_first_of_them():
    first, second = (paddlejob.environment("p", "worker", i, pods=2, port=36543, has_master=False) for i in (0, 1))
    assert first == {
        "PYTHONUNBUFFERED": "1",
        "PADDLE_JOB_ID": "p",
        "PADDLE_NNODES": "2",
        "PADDLE_MASTER": "$(POD_IP_DUMMY):36543",
    }
    assert second["PADDLE_MASTER"] == "p-worker-0:36543"


def test_paddle_servers_and_trainers_meet_at_the_master():
    server = paddlejob.environment("p", "master", 0, pods=3, port=1, has_master=True)
    trainer = paddlejob.environment("p", "worker", 0, pods=3, port=1, has_master=True)
    assert (server["PADDLE_MASTER"], server["PADDLE_SERVER_NUM"]) == ("$(POD_IP_DUMMY):1", "1")
    assert (trainer["PADDLE_MASTER"], trainer["PADDLE_TRAINER_NUM"]) == ("p-master-0:1", "1")
