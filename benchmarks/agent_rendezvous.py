"""Time in which the agents of a large gang meet: from their start to the order to start ranks on the last of them.

The leading agent is a process of its own. The others share one process and its event loop, each with its own sockets;
they all connect at once. Ranks are not started. The secret is checked on each connection, as between machines.
"""

import json
import os
import socket
import statistics
import time
from collections.abc import Callable

from windlass import wire
from windlass.agent.event_loop import EventLoop
from windlass.agent.hang_detection import SlowestRank
from windlass.agent.options import Options, RendezvousOptions
from windlass.agent.rendezvous.multi_node import MultiNode
from windlass.agent.rendezvous.state_machine import Peer, RendezvousRules

ROUNDS = {100: 3, 300: 3}
"""Number of agents → how often they meet."""
PROCS = 8
LIMIT_S = 120.0


class NoRanks:
    """Stands in for the ranks of a node: notes the order to start them."""

    has_ranks = False

    def __init__(self, on_start: Callable[[], None]) -> None:
        self.generation, self._on_start = 0, on_start

    def start(self, membership: wire.Membership, listener: socket.socket | None, **_: object) -> None:
        self.generation = membership.generation
        if listener is not None:
            listener.close()
        self._on_start()

    def stop(self, *_: object, **__: object) -> None:
        """Nothing runs."""

    def slowest_rank(self, _now: float) -> SlowestRank:
        return SlowestRank()


def main() -> None:
    for size, rounds in ROUNDS.items():
        seconds = [meet(size) for _ in range(rounds)]
        print(f"{size} agents: {' '.join(f'{each:.2f}' for each in seconds)} s")
        measured = statistics.median(seconds)
        print(json.dumps({"claim": f"{size:,} agents meet", "measured": measured, "unit": "s", "target": size / 20}))


def meet(size: int) -> float:
    """Seconds until all agents have been told to start their ranks; LIMIT_S if they have not."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    receiving, sending = os.pipe()
    follow = os.fork()
    if follow == 0:
        os.write(sending, str(run_followers(size - 1, size, port)).encode())
        os._exit(0)
    os.close(sending)
    lead = os.fork()
    if lead == 0:
        run_leader(size, port)
    with os.fdopen(receiving) as answer:
        seconds = float(answer.read())
    os.kill(lead, 9)
    for pid in (lead, follow):
        os.waitpid(pid, 0)
    return seconds


def run_leader(size: int, port: int) -> None:
    loop = EventLoop()
    agent(loop, 0, size, port, lambda: None).begin()
    loop.run()


def run_followers(count: int, size: int, port: int) -> float:
    loop, started, begin = EventLoop(), 0, time.monotonic()

    def on_start() -> None:
        nonlocal started
        started += 1
        if started == count:
            loop.end()

    while not listens(port):
        time.sleep(0.01)
    agents = [agent(loop, number + 1, size, port, on_start) for number in range(count)]
    begin = time.monotonic()
    for each in agents:
        each.begin()
    loop.after(LIMIT_S, loop.end)
    loop.run()
    return time.monotonic() - begin


def agent(loop: EventLoop, number: int, size: int, port: int, on_start: Callable[[], None]) -> MultiNode:
    rendezvous = RendezvousOptions("127.0.0.1", port, "run", is_host=number == 0, secret=b"5f" * 32)
    options = Options(("script.py",), "script", str(PROCS), (size, size), rendezvous, local_addr="127.0.0.1")
    rules = RendezvousRules(min_agents=size, max_agents=size)
    me = Peer(f"{number:032x}", f"node-{number}.cluster.example", "127.0.0.1", 0, PROCS)
    return MultiNode(loop, options, rendezvous, rules, me, NoRanks(on_start), lambda _ending: loop.end())  # type: ignore[arg-type]


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    main()
