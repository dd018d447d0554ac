"""`windlass network test` on real processes: local nodes, and network namespaces as hosts with a slow or a cut link."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from terminal import daemon, ok, phase, windlass

from windlass.diagnose.network import sweep_worker
from windlass.diagnose.network.measurements import read_sweep
from windlass.diagnose.network.verdict import judge_sweep

WINDLASS = Path(sys.executable).with_name("windlass")
WORKER = sweep_worker.__file__
HOSTS = range(3)
BRIDGE = f"wlt{os.getpid()}b"


def host(number):
    return f"wlt{os.getpid()}h{number}"


def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True)


def has_namespaces():
    if os.geteuid() or not shutil.which("ip") or not shutil.which("tc"):
        return False
    probe = f"wlt{os.getpid()}p"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, check=False).returncode == 0
    subprocess.run(["ip", "netns", "del", probe], capture_output=True, check=False)
    return made


@pytest.fixture
def hosts():
    """Three namespaces on one bridge, with the addresses 10.99.0.1 to 10.99.0.3."""
    if not has_namespaces():
        pytest.skip("network namespaces need root, ip and tc")
    try:
        for name in (BRIDGE, *map(host, HOSTS)):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", BRIDGE, "link", "add", "br0", "type", "bridge")
        ip("-n", BRIDGE, "link", "set", "br0", "up")
        for number in HOSTS:
            ip(
                "link",
                "add",
                "fabric0",
                "netns",
                host(number),
                "type",
                "veth",
                "peer",
                f"port{number}",
                "netns",
                BRIDGE,
            )
            ip("-n", host(number), "addr", "add", f"10.99.0.{number + 1}/24", "dev", "fabric0")
            ip("-n", host(number), "link", "set", "fabric0", "up")
            ip("-n", BRIDGE, "link", "set", f"port{number}", "master", "br0")
            ip("-n", BRIDGE, "link", "set", f"port{number}", "up")
        yield
    finally:
        for name in (BRIDGE, *map(host, HOSTS)):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def run_on_hosts(timeout=60):
    """The sweep of one rank on each host."""
    ranks = []
    for number in HOSTS:
        place = {"RANK": str(number), "WORLD_SIZE": "3", "MASTER_ADDR": "10.99.0.1", "MASTER_PORT": "29777"}
        env = {**os.environ, **place, "WINDLASS_NODE": f"host{number}", "GLOO_SOCKET_IFNAME": "fabric0"}
        words = [sys.executable, WORKER, "--sizes", "1024,1048576", "--timeout", str(timeout)]
        ranks.append(subprocess.Popen(["ip", "netns", "exec", host(number), *words], env=env, stdout=subprocess.PIPE))
    try:
        return read_sweep(line for rank in ranks for line in rank.communicate(timeout=200)[0].decode().splitlines())
    finally:
        for rank in ranks:
            rank.kill()


def test_the_host_behind_a_slow_link_is_named(hosts):
    slow = ["qdisc", "add", "dev", "fabric0", "root", "tbf", "rate", "100mbit", "burst", "64kb", "latency", "50ms"]
    subprocess.run(["tc", "-n", host(2), *slow], check=True)
    sweep = run_on_hosts()
    assert sweep.has_ended
    assert all(each.wrong == 0 for each in (*sweep.pairs, *sweep.collectives))
    verdict = judge_sweep(sweep)
    assert {(0, 2), (1, 2)} <= verdict.slow_pairs
    assert any(each.text.startswith("node host2: bandwidth") for each in verdict.findings)


def test_a_cut_path_is_named_in_bounded_time(hosts):
    for port in ("port1", "port2"):  # isolated ports reach the others, and not each other
        ip("-n", BRIDGE, "link", "set", port, "type", "bridge_slave", "isolated", "on")
    sweep = run_on_hosts()
    assert {(link.source, link.target) for link in sweep.blocked} == {("host1", "host2"), ("host2", "host1")}
    assert sweep.pairs == []


def test_a_rank_that_does_not_reach_rank_0_names_the_address(hosts):
    ip("-n", host(1), "link", "set", "fabric0", "down")
    env = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "10.99.0.1", "MASTER_PORT": "29777", "WINDLASS_NODE": "host1"}
    words = [sys.executable, WORKER, "--timeout", "2"]
    done = subprocess.run(
        ["ip", "netns", "exec", host(1), *words], env={**os.environ, **env}, capture_output=True, text=True, check=False
    )
    (error,) = read_sweep(done.stdout.splitlines()).errors
    assert done.returncode == 1
    assert error.startswith("rank 1 on host1: host1 cannot reach rank 0 at 10.99.0.1 port 29777 in 2 s: ")


def test_two_nodes_of_this_machine_are_measured_and_the_result_is_kept(tmp_path):
    tmp_path.chmod(0o700)
    words = ["network", "test", "-N", "2", "--sizes", "1Ki,64Ki", "-o", "json", "--state", str(tmp_path)]
    done = subprocess.run([WINDLASS, *words], capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["ok"], found["nodes"], found["ranks"], found["backend"]) == (True, ["n1", "n2"], 2, "gloo")
    assert [(each["operation"], each["bytes"]) for each in found["collectives"]] == [
        ("all-reduce", 1024),
        ("all-reduce", 65536),
        ("all-gather", 1024),
        ("all-gather", 65536),
    ]
    (pair,) = found["pairs"]
    assert (pair["a"], pair["b"], pair["wrong"]) == ("n1", "n2", 0)
    again = [WINDLASS, "network", "results", "n1", "n2", "-o", "json", "--state", str(tmp_path)]
    assert subprocess.run(again, capture_output=True, text=True, check=True).stdout == done.stdout


def test_a_test_that_gets_no_nodes_says_why_and_ends(state):
    with daemon(state, "--local-nodes", "2", "--local-gpus", "1"):
        ok(state, "submit", "--name", "hold", "-N", "2", "-G", "1", "--", "sleep", "600")
        phase(state, "hold", "Running")
        done = windlass(state, "network", "test", "-N", "2", "-G", "1", "--timeout", "1s")
        ok(state, "cancel", "hold")
    assert done.returncode == 75, done.stderr
    assert "network-test-2 Queued, position 1: needs 2×1 gpu" in done.stderr
    assert "hold-1: 2 gpu (1 on n1, 1 on n2)" in done.stderr
    assert "network-test-2 got no nodes within 1.0 s and is cancelled" in done.stderr
    assert done.stdout == ""


def test_sizes_that_cannot_be_read_are_one_clear_error(tmp_path):
    done = subprocess.run([WINDLASS, "network", "test", "--sizes", "1kb"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--sizes expects sizes such as 1Ki,64Ki,4Mi" in done.stderr
