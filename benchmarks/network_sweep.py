"""Bandwidth and latency of the network test beside iperf3 and plain torch, between two namespaces that are hosts.

A token bucket limits both directions to 400 Mbit/s, so that the figures depend on the link and not on the load of the
machine. iperf3 measures the stream of TCP; plain torch is the same round trip without Windlass. Needs root and iperf3.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from windlass.diagnose.network import sweep_worker
from windlass.diagnose.network.measurements import PairMeasurement, read_sweep

ROUNDS = 3
RATE_MBIT = 400
SIZE = 2**22
HOSTS = [f"wlb{os.getpid()}h{number}" for number in range(2)]
PLAIN = f"""
import time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, best = dist.get_rank(), {{}}
for size, rounds in ((8, 100), ({SIZE}, 7)):
    sent, received, times = torch.zeros(size, dtype=torch.uint8), torch.zeros(size, dtype=torch.uint8), []
    for _ in range(rounds):
        begun = time.perf_counter()
        if rank == 0:
            dist.send(sent, 1)
            dist.recv(received, 1)
        else:
            dist.recv(received, 0)
            dist.send(received, 0)
        times.append(time.perf_counter() - begun)
    best[size] = min(times) / 2
if rank == 0:
    print("plain", best[8], best[{SIZE}], flush=True)
"""


def main() -> None:
    if os.geteuid() or not all(map(shutil.which, ("ip", "tc", "iperf3"))):
        print("not measured: the network test beside iperf3: it needs root, ip, tc and iperf3")
        return
    ours, plain, streams, latencies = [], [], [], []
    with two_hosts():
        for _ in range(ROUNDS):  # in turn, so that the load of the machine meets all
            pair = measure_with_windlass()
            torch_latency, torch_seconds = measure_with_torch()
            ours.append(pair.bandwidth * 8 / 1e6)
            plain.append(SIZE * 8 / 1e6 / torch_seconds)
            streams.append(measure_with_iperf3())
            latencies.append((pair.latency_s * 1e6, torch_latency * 1e6))
    for name, peer in (("iperf3, one stream", streams), ("plain torch (gloo)", plain)):
        ratio = statistics.median(ours) / statistics.median(peer)
        print(f"windlass network test {shown(ours)} Mbit/s, {name} {shown(peer)} Mbit/s: {ratio:.3f}")
        claim(f"bandwidth of a link of {RATE_MBIT} Mbit/s", ours, name, peer, "Mbit/s", "higher")
    first, second = ([each[at] for each in latencies] for at in range(2))
    print(f"latency: windlass {shown(first)} µs, plain torch {shown(second)} µs")
    claim("latency of that link", first, "plain torch (gloo)", second, "µs", "lower")


def shown(values: list[float]) -> str:
    return f"{statistics.median(values):,.1f} ({min(values):,.1f} to {max(values):,.1f})"


def claim(what: str, ours: list[float], peer: str, theirs: list[float], unit: str, better: str) -> None:
    measured, beside = statistics.median(ours), statistics.median(theirs)
    target = beside * (0.9 if better == "higher" else 1.25)
    line = {"claim": what, "measured": measured, "unit": unit, "target": target, "better": better}
    print(json.dumps({**line, "peer": peer, "peer_measured": beside}))


@contextmanager
def two_hosts() -> Iterator[None]:
    """Two namespaces with the addresses 10.98.0.1 and 10.98.0.2, and a pair of virtual interfaces between them."""
    try:
        for name in HOSTS:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", "fabric0", "netns", HOSTS[0], "type", "veth", "peer", "name", "fabric0", "netns", HOSTS[1])
        for number, name in enumerate(HOSTS):
            ip("-n", name, "addr", "add", f"10.98.0.{number + 1}/24", "dev", "fabric0")
            ip("-n", name, "link", "set", "fabric0", "up")
            bucket = ["tbf", "rate", f"{RATE_MBIT}mbit", "burst", "256kb", "latency", "50ms"]
            subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", "fabric0", "root", *bucket], check=True)
        yield
    finally:
        for name in HOSTS:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def run_ranks(*words: str) -> str:
    """Output of both ranks of a program."""
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "10.98.0.1", "MASTER_PORT": "29778", "GLOO_SOCKET_IFNAME": "fabric0"}
    ranks = [
        subprocess.Popen(
            ["ip", "netns", "exec", name, sys.executable, *words],
            env={**os.environ, **place, "RANK": str(number), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for number, name in enumerate(HOSTS)
    ]
    try:
        return "".join(rank.communicate(timeout=120)[0] for rank in ranks)
    finally:
        for rank in ranks:
            rank.kill()


def measure_with_windlass() -> PairMeasurement:
    sweep = read_sweep(run_ranks(sweep_worker.__file__, "--sizes", str(SIZE)).splitlines())
    assert sweep.has_ended, sweep.errors
    return sweep.pairs[0]


def measure_with_torch() -> tuple[float, float]:
    [line] = [each for each in run_ranks("-c", PLAIN).splitlines() if each.startswith("plain")]
    _, latency, seconds = line.split()
    return float(latency), float(seconds)


def measure_with_iperf3() -> float:
    """Mbit/s that the receiver of one stream counts."""
    inside = [["ip", "netns", "exec", name, "iperf3"] for name in HOSTS]
    server = subprocess.Popen([*inside[0], "-s", "-1"], stdout=subprocess.DEVNULL)
    try:
        time.sleep(0.5)
        ran = subprocess.run(
            [*inside[1], "-c", "10.98.0.1", "-t", "3", "-J"], capture_output=True, text=True, check=True
        )
        return float(json.loads(ran.stdout)["end"]["sum_received"]["bits_per_second"]) / 1e6
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
