"""One rank of the network test. Prints measurements as lines of JSON after a mark; only rank 0 measures aloud.

It runs under any launcher that sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and imports nothing of Windlass, so
that any image with torch can run it: `torchrun sweep_worker.py --sizes 1024,1048576`.

Bus bandwidth is that of nccl-tests: https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

from __future__ import annotations

import argparse
import fcntl
import itertools
import json
import os
import socket
import statistics
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

MARK = "windlass-network-test: "
"""Begins each line of a measurement."""
_CONNECT_S = 5.0
"""Longest wait for a connection between two nodes, before the ports between them count as blocked."""
_SMALL_BYTES = 8
_LEAST_ROUNDS, _MAX_ROUNDS = 5, 200
_REPETITIONS = 2
_SLOW = 0.85
"""Part of the median below which a pair is measured again."""
_BUDGET_S = 0.4
"""Time for one size of a collective or of a pair, after the warm-up."""
_MAX_ITERATIONS = 200
_PERIOD = 97
"""Period of the pattern in the data: sums of it are exact in float32."""
_SIOCGIFADDR = 0x8915


class _Rank:
    """This rank: its numbers, its node, and the address of rank 0."""

    def __init__(self) -> None:
        self.number, self.size = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
        self.local = int(os.environ.get("LOCAL_RANK", "0"))
        self.per_node = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        self.node = self.number // self.per_node
        self.nodes = self.size // self.per_node
        self.name = os.environ.get("WINDLASS_NODE") or socket.gethostname()
        self.master = os.environ.get("MASTER_ADDR", "127.0.0.1")
        self.port = int(os.environ.get("MASTER_PORT", "29500"))


def say(**event: Any) -> None:
    """Prints one event as a line."""
    print(f"{MARK}{json.dumps(event)}", flush=True)  # noqa: T201 - the lines are the result


def main(arguments: Sequence[str]) -> int:
    """Runs the test. Returns 0, or 1 after an event that names what is wrong."""
    parser = argparse.ArgumentParser(description="One rank of the network test.")
    parser.add_argument("--sizes", default="1024,65536,1048576", help="bytes, with commas")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds for each wait")
    options = parser.parse_args(arguments)
    rank = _Rank()
    try:
        import torch  # noqa: F401, PLC0415 - its absence is a result
    except ImportError:
        say(
            kind="error",
            rank=rank.number,
            node=rank.name,
            message="torch is not installed: pip install 'windlass-train[train]'",
        )
        return 1
    try:
        return run(rank, [int(size) for size in options.sizes.split(",")], options.timeout)
    except Exception as error:  # noqa: BLE001 - whatever fails is the result of the test
        lines = str(error).strip().splitlines() or [""]
        say(kind="error", rank=rank.number, node=rank.name, message=f"{type(error).__name__}: {lines[0][:300]}")
        return 1


def run(rank: _Rank, sizes: Sequence[int], timeout: float) -> int:
    """Measures everything, in the same order on all ranks."""
    import torch.distributed as dist  # noqa: PLC0415 - loaded after the check in `main`
    from torch.distributed.rendezvous import rendezvous  # noqa: PLC0415

    # 1. Reach rank 0, then each node from each other node, by sockets alone: a blocked port is named in bounded time.
    if fault := _wait_for_master(rank, timeout):
        say(kind="error", rank=rank.number, node=rank.name, message=fault)
        return 1
    store, _, _ = next(rendezvous("env://", rank.number, rank.size, timeout=timedelta(seconds=timeout)))
    names, blocked = _check_ports(rank, store)
    if blocked:
        if rank.number == 0:
            say(kind="blocked", links=blocked, nodes=names)
        return 1
    # 2. Connect all ranks.
    backend, device = _connect(rank, store, timeout)
    if rank.number == 0:
        say(kind="start", nodes=names, ranks=rank.size, backend=backend, device=device)
    # 3. Measure.
    for each in _measure_pairs(rank, device, max(sizes)):
        if rank.number == 0:
            say(kind="pair", **each)
    for operation, size in itertools.product(("all-reduce", "all-gather"), sizes):
        found = _measure_collective(rank, device, operation, size)
        if rank.number == 0:
            say(kind="collective", **found)
    dist.barrier()
    dist.destroy_process_group()
    if rank.number == 0:
        say(kind="end")
    return 0


def _wait_for_master(rank: _Rank, timeout: float) -> str:
    """Waits until rank 0 listens; returns what is wrong, "" if it does."""
    until, last = time.monotonic() + timeout, "no attempt"
    while rank.number and time.monotonic() < until:
        last = _try_connection((rank.master, rank.port), min(_CONNECT_S, timeout))
        if not last:
            return ""
        time.sleep(0.2)
    return (
        f"{rank.name} cannot reach rank 0 at {rank.master} port {rank.port} in {timeout:g} s: {last}"
        if rank.number
        else ""
    )


def _try_connection(address: tuple[str, int], timeout: float) -> str:
    """Returns why a connection cannot be made, "" if it can."""
    try:
        socket.create_connection(address, timeout).close()
    except socket.gaierror as error:
        return f"the name does not resolve ({error.strerror})"
    except TimeoutError:
        return "no answer: a firewall, a security group or a NetworkPolicy drops packets"
    except ConnectionRefusedError:
        return "refused: nothing listens there, or a firewall rejects it"
    except OSError as error:
        return f"{error.strerror or error}"
    return ""


def _check_ports(rank: _Rank, store: Any) -> tuple[list[str], list[dict[str, str]]]:
    """Connects each node to a fresh port of each other node. Returns the names of nodes, and the links that fail."""
    first = rank.local == 0
    if first:
        listener = socket.create_server(("", 0), backlog=rank.nodes + 8)
        address, port = _own_address(rank), listener.getsockname()[1]
        store.set(f"windlass/node/{rank.node}", json.dumps([rank.name, address, port]))
        threading.Thread(target=_accept, args=(listener,), daemon=True).start()
    peers = [json.loads(store.get(f"windlass/node/{node}")) for node in range(rank.nodes)]
    if first:
        store.set(f"windlass/blocked/{rank.node}", json.dumps(_blocked_links(rank, peers)))
    links = [json.loads(store.get(f"windlass/blocked/{node}")) for node in range(rank.nodes)]
    store.set(f"windlass/seen/{rank.number}", "1")
    if rank.number == 0:  # it holds the store: the others read it first
        for number in range(rank.size):
            store.get(f"windlass/seen/{number}")
    return [peer[0] for peer in peers], list(itertools.chain.from_iterable(links))


def _accept(listener: socket.socket) -> None:
    while True:
        try:
            listener.accept()[0].close()
        except OSError:
            return


def _blocked_links(rank: _Rank, peers: Sequence[Any]) -> list[dict[str, str]]:
    """Tries all other nodes at once; returns the links that fail."""
    faults: dict[int, str] = {}

    def attempt(node: int) -> None:
        faults[node] = _try_connection((peers[node][1], peers[node][2]), _CONNECT_S)

    threads = [threading.Thread(target=attempt, args=(node,)) for node in range(rank.nodes) if node != rank.node]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [
        {"from": rank.name, "to": peers[node][0], "address": f"{peers[node][1]}:{peers[node][2]}", "why": why}
        for node, why in sorted(faults.items())
        if why
    ]


def _own_address(rank: _Rank) -> str:
    """Returns the address of the interface in GLOO_SOCKET_IFNAME, else that of the route to rank 0."""
    probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with probe:
        interface = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
        if interface:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", interface[:15].encode()))
            return socket.inet_ntoa(answer[20:24])
        if rank.number == 0:
            return rank.master
        probe.connect((rank.master, rank.port))
        return str(probe.getsockname()[0])


def _connect(rank: _Rank, store: Any, timeout: float) -> tuple[str, str]:
    """Makes the process group: NCCL with GPUs, gloo without. Returns the backend and the device."""
    import torch  # noqa: PLC0415 - loaded after the check in `main`
    import torch.distributed as dist  # noqa: PLC0415

    backend, device = ("nccl", f"cuda:{rank.local}") if torch.cuda.is_available() else ("gloo", "cpu")
    if device != "cpu":
        torch.cuda.set_device(rank.local)
    wait = timedelta(seconds=timeout)
    dist.init_process_group(backend, store=store, rank=rank.number, world_size=rank.size, timeout=wait)
    return backend, device


def _measure_pairs(rank: _Rank, device: str, size: int) -> list[dict[str, Any]]:
    """Measures each pair of nodes, one after the other, and again those that seem slow: the best figures count.

    Every rank gets the same figures, and so decides on the same repetitions.
    """
    found = {pair: _figures_of(rank, device, pair, size) for pair in itertools.combinations(range(rank.nodes), 2)}
    for _ in range(_REPETITIONS):
        for pair in _slow_pairs(found):
            latency, seconds, wrong = _figures_of(rank, device, pair, size)
            before = found[pair]
            found[pair] = min(latency, before[0]), min(seconds, before[1]), wrong + before[2]
    return [
        {"a": a, "b": b, "latency_s": latency, "bytes": size, "seconds": seconds, "wrong": wrong}
        for (a, b), (latency, seconds, wrong) in found.items()
    ]


def _slow_pairs(found: dict[tuple[int, int], tuple[float, float, int]]) -> list[tuple[int, int]]:
    """Returns the pairs that take longer than the median of the nodes, each by its best pair, would allow."""
    best: dict[int, float] = {}
    for pair, (_, seconds, _) in found.items():
        for node in pair:
            best[node] = min(seconds, best.get(node, seconds))
    limit = statistics.median(best.values()) / _SLOW if best else 0.0
    return [pair for pair, (_, seconds, _) in found.items() if seconds > limit]


def _figures_of(rank: _Rank, device: str, pair: tuple[int, int], size: int) -> tuple[float, float, int]:
    """Measures one pair by its first ranks. Returns latency, time of a message of `size`, and wrong answers."""
    import torch  # noqa: PLC0415 - loaded after the check in `main`
    import torch.distributed as dist  # noqa: PLC0415

    dist.barrier()
    result = torch.zeros(3, device=device, dtype=torch.float64)
    if rank.local == 0 and rank.node in pair:
        result += torch.tensor(_measure_pair(rank, device, pair, size), device=device, dtype=torch.float64)
    if rank.node == pair[1]:
        result[:2] = 0  # the times of the first one count
    dist.all_reduce(result)
    latency, seconds, wrong = result.tolist()
    return latency, seconds, int(wrong)


def _measure_pair(rank: _Rank, device: str, pair: tuple[int, int], size: int) -> list[float]:
    """Returns half of the best round trip of a small and of a large message, and the number of wrong answers."""
    best, wrong = [], 0
    for length in (_SMALL_BYTES, size):
        trip = _round_trips(rank, device, pair, length)
        next(trip)
        first, is_wrong = next(trip)
        times, wrong = [first], wrong + is_wrong
        for _ in range(_agree_on_rounds(rank, device, pair, first)):
            spent, is_wrong = next(trip)
            wrong += is_wrong
            times.append(spent)
        best.append(min(times) / 2)
    return [*best, float(wrong)]


def _agree_on_rounds(rank: _Rank, device: str, pair: tuple[int, int], first: float) -> int:
    """Returns the number of further round trips, as the first of the two decides by the time of one."""
    import torch  # noqa: PLC0415 - loaded after the check in `main`
    import torch.distributed as dist  # noqa: PLC0415

    rounds = max(_LEAST_ROUNDS, min(_MAX_ROUNDS, int(_BUDGET_S / first)))
    agreed = torch.tensor([rounds], device=device)
    if rank.node == pair[0]:
        dist.send(agreed, pair[1] * rank.per_node)
    else:
        dist.recv(agreed, pair[0] * rank.per_node)
    return int(agreed.item())


def _round_trips(rank: _Rank, device: str, pair: tuple[int, int], size: int) -> Iterator[tuple[float, bool]]:
    """Sends a message there and back for each item: the seconds, and whether what came back differs."""
    import torch  # noqa: PLC0415 - loaded after the check in `main`
    import torch.distributed as dist  # noqa: PLC0415

    is_first = rank.node == pair[0]
    peer = (pair[1] if is_first else pair[0]) * rank.per_node
    sent = torch.arange(size, device=device, dtype=torch.int64).remainder(_PERIOD).to(torch.uint8)
    received = torch.empty_like(sent)
    while True:
        received.zero_()
        begun = _now(device)
        if is_first:
            dist.send(sent, peer)
            dist.recv(received, peer)
        else:
            dist.recv(received, peer)
            dist.send(received, peer)
        spent = _now(device) - begun
        yield spent, not torch.equal(received, sent)


def _measure_collective(rank: _Rank, device: str, operation: str, size: int) -> dict[str, Any]:
    """Returns the mean time of a collective on the slowest rank, and the number of ranks with a wrong result."""
    import torch  # noqa: PLC0415 - loaded after the check in `main`
    import torch.distributed as dist  # noqa: PLC0415

    count = max(rank.size, size // 4 // rank.size * rank.size)
    prepare, operate, is_wrong = _collective(rank, device, operation, count)
    prepare()
    operate()
    wrong = is_wrong()
    first = _timed(device, operate, 1)
    iterations = max(3, min(_MAX_ITERATIONS, int(_BUDGET_S / max(first, 1e-9))))
    seconds = _timed(device, operate, iterations)
    prepare()
    operate()
    faults = torch.tensor([float(wrong or is_wrong())], device=device)
    dist.all_reduce(faults)
    return {
        "operation": operation,
        "bytes": 4 * count,
        "seconds": seconds,
        "ranks": rank.size,
        "iterations": iterations,
        "wrong": int(faults.item()),
    }


def _timed(device: str, operate: Callable[[], Any], iterations: int) -> float:
    """Returns the mean time of an operation, on the slowest rank."""
    import torch  # noqa: PLC0415 - loaded after the check in `main`
    import torch.distributed as dist  # noqa: PLC0415

    dist.barrier()
    begun = _now(device)
    for _ in range(iterations):
        operate()
    spent = torch.tensor([(_now(device) - begun) / iterations], device=device, dtype=torch.float64)
    dist.all_reduce(spent, dist.ReduceOp.MAX)
    return float(spent.item())


def _collective(
    rank: _Rank, device: str, operation: str, count: int
) -> tuple[Callable[[], Any], Callable[[], Any], Callable[[], bool]]:
    """Returns functions that write the input of a collective, run it, and check its result."""
    import torch  # noqa: PLC0415 - loaded after the check in `main`
    import torch.distributed as dist  # noqa: PLC0415

    pattern = torch.arange(count, device=device, dtype=torch.int64).remainder(_PERIOD).to(torch.float32)
    if operation == "all-reduce":
        values, expected = torch.empty_like(pattern), pattern * rank.size + rank.size * (rank.size - 1) / 2
        return (
            lambda: torch.add(pattern, float(rank.number), out=values),
            lambda: dist.all_reduce(values),
            lambda: not torch.equal(values, expected),
        )
    plain = pattern[: count // rank.size]
    part = plain + rank.number
    parts = [torch.empty_like(part) for _ in range(rank.size)]
    return (
        lambda: [each.zero_() for each in parts],
        lambda: dist.all_gather(parts, part),
        lambda: any(not torch.equal(each, plain + number) for number, each in enumerate(parts)),
    )


def _now(device: str) -> float:
    """Returns the time at which the device has done everything so far."""
    if device != "cpu":
        import torch  # noqa: PLC0415 - loaded after the check in `main`

        torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
