import pytest

from windlass import wire
from windlass.backends.local.launch_message import choose_port, cpu_share, spawn_message
from windlass.backends.local.launched_gang import new_gang
from windlass.backends.local.supervisor_start import log_limits
from windlass.backends.port import BackendError
from windlass.core.model.job import Job, Launcher, RestartPolicy, Role
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue
from windlass.core.model.status import Placement


def test_a_port_is_chosen_by_the_generation_and_avoids_ports_in_use():
    first = choose_port(("job-1", 1), [], lambda _port: True)
    assert first == choose_port(("job-1", 1), [], lambda _port: True)
    assert first != choose_port(("job-1", 2), [], lambda _port: True)
    assert choose_port(("job-1", 1), [first], lambda port: port != first + 1) == first + 2
    assert 20_000 <= first < 32_000


def test_the_environment_sets_the_kept_amount_of_a_log():
    assert log_limits({}) == (64 << 20, 4)
    assert log_limits({"WINDLASS_LOG_PART": "1Mi", "WINDLASS_LOG_PARTS": "9"}) == (1 << 20, 9)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("WINDLASS_LOG_PART", "much", "WINDLASS_LOG_PART: 'much' is no amount of memory"),
        ("WINDLASS_LOG_PART", "0", "WINDLASS_LOG_PART=0: a part of a log needs a size"),
        ("WINDLASS_LOG_PARTS", "-1", "WINDLASS_LOG_PARTS=-1: expected a number from 1"),
    ],
)
def test_an_invalid_amount_of_a_log_is_an_error_with_the_variable(name, value, message):
    with pytest.raises(BackendError, match=message):
        log_limits({name: value})


def test_a_machine_without_a_free_port_is_an_error():
    with pytest.raises(OSError, match="no port is free between 20000 and 32000"):
        choose_port(("job-1", 1), [], lambda _port: False)


@pytest.mark.parametrize(("gpus", "share"), [({"gpu": 2}, 4_000), ({}, 8_000), ({"gpu": 99}, 16_000)])
def test_a_replica_gets_its_share_of_the_cpu(gpus, share):
    node = Node("n1", {"cpu": 16_000, "gpu": 8})
    assert cpu_share({"worker": ("n1", "n1", "n2")}, Role(resources=gpus), node) == share


def test_agents_get_the_backoff_of_their_job(tmp_path):
    policy = RestartPolicy(backoff_base=2_500, backoff_max=60_000, healthy_after=30_000)
    job = Job("job", (Role(command=("train",)),), launcher=Launcher.AGENT, restart=policy)
    gang = new_gang(("job-1", 1), job, Placement({"worker": ("n1",)}))
    message = spawn_message(gang, nodes={}, logs=tmp_path, inherited={}, state_id="abc")
    [agent] = message["ranks"]
    budget = wire.RestartBudget.from_json(agent["env"][wire.RESTART_BUDGET])
    assert (budget.backoff_base, budget.backoff_max, budget.healthy_after) == (2.5, 60, 30)


@pytest.mark.parametrize(
    ("of_job", "of_queue", "inherited", "settings"),
    [
        (None, None, {}, "keep_alive_interval=1,keep_alive_max_attempt=300"),
        (None, 20_000, {}, "keep_alive_interval=1,keep_alive_max_attempt=20"),
        (5_000, 20_000, {}, "keep_alive_interval=1,keep_alive_max_attempt=5"),
        (0, None, {}, "keep_alive_interval=1,keep_alive_max_attempt=3"),
        (5_000, None, {"PET_RDZV_CONF": "keep_alive_interval=9"}, None),
    ],
)
def test_an_agent_may_be_silent_for_the_unreachable_grace(tmp_path, of_job, of_queue, inherited, settings):
    job = Job("job", (Role(command=("train",)),), launcher=Launcher.AGENT, unreachable_grace=of_job)
    gang = new_gang(("job-1", 1), job, Placement({"worker": ("n1",)}))
    queue = Queue("default", unreachable_grace=of_queue)
    message = spawn_message(gang, nodes={}, logs=tmp_path, inherited=inherited, state_id="abc", queue=queue)
    assert message["ranks"][0]["env"].get("PET_RDZV_CONF") == settings


def test_a_spawn_message_has_commands_environments_and_the_log_folder(tmp_path):
    job = Job("job", (Role(procs=2, command=("train", "--lr", "1")),), workdir="/data")
    gang = new_gang(("job-1", 1), job, Placement({"worker": ("n1",)}))
    gang.port = 29_500
    nodes = {"n1": Node("n1", {"cpu": 4_000})}
    message = spawn_message(
        gang, nodes=nodes, logs=tmp_path, inherited={"PATH": "/bin"}, state_id="abc", owner="7:99:b"
    )
    ranks = message.pop("ranks")
    assert len(message["env"].pop("WINDLASS_GANG_SECRET")) == 64
    assert message == {
        "do": "spawn",
        "repeated": False,
        "job": "job-1",
        "generation": 1,
        "logs": str(tmp_path),
        "cwd": "/data",
        "env": {"PATH": "/bin", "WINDLASS_STATE_ID": "abc", "WINDLASS_CHECKPOINTS": "checkpoints/abc/job-1"},
        "owner": [7, 99],
    }
    assert [rank["argv"] for rank in ranks] == [["train", "--lr", "1"]] * 2
    assert [rank["env"]["RANK"] for rank in ranks] == ["0", "1"]
    assert ranks[0]["env"]["MASTER_PORT"] == "29500"
    assert ranks[0]["env"]["OMP_NUM_THREADS"] == "2"
