"""A gang of 200 takes back what its queue has lent: a full cycle with reclaim on 1,000 nodes × 8 GPUs.

Kueue needs 131 ms for the same on two cores (1,000 nodes, a gang of 200 pods, preemption within a cohort).
"""

import json
import random
import statistics
import time
from dataclasses import replace

from windlass.core.accounts import Accounts
from windlass.core.cluster import Node
from windlass.core.cohort import tree_of
from windlass.core.gang import Demand, Pending, Running, shape_of
from windlass.core.ledger import Ledger
from windlass.core.preemption import Eviction, Ground, victims_for
from windlass.core.queue import Queue
from windlass.core.snapshot import Snapshot
from windlass.core.status import Placement
from windlass.core.victims import Lineup

NODES, MEMBERS, ROUNDS = 1_000, 200, 15
TARGET = 20.0
WHOLE = {"gpu": 8, "cpu": 96_000, "memory": 768 * 2**30}
QUEUES = (Queue("all"), Queue("research", {"gpu": 4_000}, "all"), Queue("product", {"gpu": 4_000}, "all"))
HOUR = 3_600_000


def main() -> None:
    """Two clusters: gangs that hold whole nodes, and gangs that share them."""
    worst = 0.0
    for about, sizes in (("one gang a node", (8,)), ("gangs of 1, 2, 4 and 8 GPUs", (1, 2, 4, 8))):
        ledger = lent(random.Random(7), sizes)  # noqa: S311 - a seed, so that every run measures the same
        took, found = [], None
        for _ in range(ROUNDS):
            ledger.add_pending(taker())
            begin = time.perf_counter()
            found = reclaim(ledger.snapshot())
            took.append((time.perf_counter() - begin) * 1000)
            ledger.remove_pending("taker-0")
        assert found is not None
        running = len(ledger.snapshot().running)
        print(f"{about}: {running} run, {len(found.preemptions)} go: median {statistics.median(took):.2f} ms")
        worst = max(worst, statistics.median(took))
    what = "cycle with reclaim, 1,000 nodes, gang of 200"
    print(json.dumps({"claim": what, "measured": worst, "unit": "ms", "target": TARGET}))


def lent(chance: random.Random, sizes: tuple[int, ...]) -> Ledger:
    """A full cluster, all of it held by one of two queues."""
    nodes = [Node(f"n{number:04}", WHOLE) for number in range(NODES)]
    ledger = Ledger(nodes, QUEUES)
    for number, (node, gpus) in enumerate(filled(chance, nodes, sizes)):
        demand = asking(1, gpus)
        run = Running(f"r-{number}", number, "product", 0, (demand,), Placement({"worker": (node,)}), number)
        ledger.hold(replace(run, saved_at=chance.randrange(HOUR)))
    return ledger


def filled(chance: random.Random, nodes: list[Node], sizes: tuple[int, ...]) -> list[tuple[str, int]]:
    """(node, GPUs) of gangs that fill every node."""
    gangs = []
    for node in nodes:
        left = 8
        while left:
            gpus = chance.choice([size for size in sizes if size <= left])
            gangs.append((node.name, gpus))
            left -= gpus
    return gangs


def asking(replicas: int, gpus: int) -> Demand:
    return Demand("worker", replicas, {"gpu": gpus, "cpu": 8_000 * gpus, "memory": gpus * 64 * 2**30})


def taker() -> Pending:
    demands = (asking(MEMBERS, 8),)
    return Pending("taker-0", 10**6, "research", 0, 2 * HOUR, demands, shape_of("research", demands))


def reclaim(snapshot: Snapshot) -> Eviction | None:
    """Find the victims, from a snapshot alone."""
    now = 2 * HOUR
    accounts = Accounts(tree_of(snapshot.queues), snapshot.held, snapshot.users)
    ground = Ground(snapshot, now, Lineup(snapshot, now, accounts), snapshot.free, accounts)
    return victims_for(ground, taker())


if __name__ == "__main__":
    main()
