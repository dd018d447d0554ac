"""The agent reads torchrun's command line."""

import pytest

from windlass.agent import options
from windlass.agent.agent import rendezvous_rules
from windlass.agent.options import Streams
from windlass.agent.rendezvous import sockets


def read(line, **environment):
    return options.parse_options(line.split(), environment)


def refusal(line, **environment):
    with pytest.raises(options.CommandLineError) as refused:
        read(line, **environment)
    return str(refused.value)


def test_a_script_and_its_arguments():
    options = read("train.py --nnodes 7 -x")
    assert (options.argv, options.how, options.procs, options.nodes) == (
        ("train.py", "--nnodes", "7", "-x"),
        "script",
        "1",
        (1, 1),
    )
    assert (options.rendezvous, options.max_restarts, options.shutdown_timeout) == (None, 0, 30.0)


@pytest.mark.parametrize(
    ("line", "how"), [("-m pkg.train a", "module"), ("--no-python ./train a", "exec"), ("--run-path /t.py a", "script")]
)
def test_modules_and_programs(line, how):
    assert read(line).how == how


@pytest.mark.parametrize("line", ["--nproc_per_node=4 t.py", "--nproc-per-node 4 t.py"])
def test_both_spellings(line):
    assert read(line).procs == "4"


def test_agents_meet_at_the_endpoint():
    options = read("--nnodes 1:3 --rdzv-backend c10d --rdzv-endpoint h:29400 --rdzv-id r1 --max-restarts 3 t.py")
    assert options.nodes == (1, 3)
    assert (options.rendezvous.host, options.rendezvous.port, options.rendezvous.id, options.rendezvous.static) == (
        "h",
        29400,
        "r1",
        False,
    )
    assert (options.node_rank, options.max_restarts) == (-1, 3)


def test_static_rendezvous_takes_its_endpoint_from_the_master():
    options = read("--nnodes 2 --node-rank 1 --master-addr 10.0.0.1 --master-port 1234 t.py")
    assert (options.rendezvous.host, options.rendezvous.port, options.rendezvous.is_host, options.node_rank) == (
        "10.0.0.1",
        1234,
        False,
        1,
    )
    assert read("--nnodes 2 --master-addr 10.0.0.1 t.py").rendezvous.port == 29500


@pytest.mark.parametrize("line", ["--standalone --nnodes 1 t.py", "--nnodes 1 --rdzv-endpoint h:1 t.py"])
def test_a_run_on_one_node_has_no_rendezvous(line):
    assert read(line).rendezvous is None


def test_rdzv_conf_sets_the_timeouts():
    conf = "timeout=90,last_call_timeout=7,keep_alive_interval=2,keep_alive_max_attempt=5,is_host=true,other=1"
    options = read(f"--nnodes 1:2 --rdzv-backend c10d --rdzv-endpoint [::1]:5 --rdzv-conf {conf} t.py").rendezvous
    assert (options.host, options.port, options.is_host) == ("::1", 5, True)
    assert (options.join_timeout, options.last_call, options.interval, options.attempts) == (90.0, 7.0, 2.0, 5)


def test_options_override_their_variables():
    variables = {"PET_NNODES": "2:4", "PET_NPROC_PER_NODE": "8", "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "h:1"}
    options = read("--nproc-per-node 3 t.py", **variables, PET_MAX_RESTARTS="5", PET_STANDALONE="0")
    assert (options.nodes, options.procs, options.max_restarts, options.rendezvous.host) == ((2, 4), "3", 5, "h")


def test_a_variable_takes_the_same_choices_as_its_option(capsys):
    with pytest.raises(SystemExit):
        read("t.py", PET_START_METHOD="bogus")
    assert "PET_START_METHOD=bogus: one of spawn, fork, forkserver is expected" in capsys.readouterr().err
    assert read("t.py", PET_START_METHOD="fork").argv == ("t.py",)


def test_streams_of_all_ranks_or_of_some():
    options = read("-r 3 -t 0:1,2:3 t.py")
    assert options.redirects == Streams(3)
    assert [options.tee.of(rank) for rank in range(3)] == [1, 0, 3]
    assert read("--local-ranks-filter 0,2 t.py").shown == {0, 2}


def test_an_option_without_effect_is_accepted_with_a_note():
    assert read("--monitor-interval 5 --start-method fork --numa-binding node t.py").notes == (
        "--monitor-interval: ends of ranks are reported at once, without polling",
        "--start-method: ranks are always forked from a process that has imported torch",
        "--numa-binding: ranks are not bound to CPUs; `numactl` in front of the agent binds all of them",
    )
    assert read("t.py").notes == ()


def test_hang_limits_are_parsed():
    options = read("--hang factor=3,silence=60 t.py").limits
    assert (options.factor, options.silence, options.floor) == (3.0, 60.0, 120.0)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--nnodes 3:2 t.py", "--nnodes 3:2: MIN is at least 1, and at most MAX"),
        ("--nnodes x t.py", "--nnodes x: a number, or MIN:MAX as in 1:4"),
        ("--nnodes 2 --rdzv-backend etcd-v2 t.py", "--rdzv-backend etcd-v2: agents meet each other here"),
        ("--nnodes 2 --rdzv-backend c10d t.py", "--rdzv-endpoint '': more than one node takes HOST:PORT"),
        ("--nnodes 1:2 t.py", "an elastic run takes --rdzv-backend c10d"),
        ("--nnodes 2 --node-rank 2 t.py", "--node-rank 2: from 0 to 1"),
        ("--no-python -m t", "contradict"),
        ("-r 4 t.py", "--redirects 4: 0 to 3"),
        ("--logs-specs x t.py", "plugin of torchrun"),
        ("--max-restarts -1 t.py", "--max-restarts -1: 0 or more"),
        ("--signals-to-handle SIGKILL t.py", "SIGKILL is no signal that a process may handle"),
        ("--hang speed=1 t.py", "there is factor, floor, initial, communication, start, silence, not speed"),
        ("--nnodes 2 --rdzv-conf a t.py", "'a' has no value"),
    ],
)
def test_a_wrong_option_is_refused_with_a_remedy(line, message):
    assert message in refusal(line)


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, 30.0),
        ({"WINDLASS_GRACE": "300"}, 298.0),
        ({"WINDLASS_GRACE": "0.5"}, 1.0),
        ({"WINDLASS_GRACE": "300", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "7"}, 7.0),
    ],
)
def test_ranks_get_the_grace_that_the_agent_has(environment, seconds):
    assert read("train.py", **environment).shutdown_timeout == seconds


@pytest.mark.parametrize("variable", ["WINDLASS_GRACE", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"])
def test_a_shutdown_timeout_that_is_no_number_is_refused_by_the_name_of_its_variable(variable):
    assert f"{variable}=abc: seconds" in refusal("train.py", **{variable: "abc"})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.1.1", "::1", "localhost"])
def test_agents_that_meet_at_a_loopback_address_listen_only_there(host):
    assert sockets.choose_interface(host) == host


@pytest.mark.parametrize("host", ["10.0.0.1", "node-0.example", ""])
def test_agents_of_several_machines_listen_on_all_addresses(host):
    assert sockets.choose_interface(host) == ""


@pytest.mark.parametrize(
    ("conf", "settle"), [("keep_alive_max_attempt=300", 300.0), ("join_timeout=20", 15.0), ("is_host=1", 15.0)]
)
def test_followers_of_a_lost_leader_have_the_time_of_their_missed_heartbeats(conf, settle):
    options = read(f"--nnodes 2 --rdzv-backend c10d --rdzv-endpoint h:29400 --rdzv-conf {conf} t.py")
    assert rendezvous_rules(options, None).settle == settle


def test_followers_of_a_lost_leader_are_not_awaited_beyond_the_join_timeout():
    conf = "keep_alive_interval=1,keep_alive_max_attempt=300,join_timeout=20"
    options = read(f"--nnodes 2 --rdzv-backend c10d --rdzv-endpoint h:29400 --rdzv-conf {conf} t.py")
    assert rendezvous_rules(options, None).settle == 20.0
