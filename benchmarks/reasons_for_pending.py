"""A reason with counts and an ETA for each of 10,000 waiting gangs on a full cluster of 1,000 nodes.

Seconds of one core (`process_time`, the minimum of several rounds) for a plan, the order, every verdict with its
message, and every ETA, each round from a new snapshot without cached results. Caches that a controller keeps from one
turn to the next are warm: the ledger, equivalence classes, and the masks of nodes that a request may use. "Cold" is the
first turn after the nodes have changed, without those masks.
"""

import json
import random
import time
from collections.abc import Callable

from windlass.core.cycle.scheduler import schedule
from windlass.core.ledger import Ledger
from windlass.core.model.gang import Demand, PendingGang, shape_of, start_gang
from windlass.core.model.node import Node, Taint
from windlass.core.model.queue import Queue
from windlass.server.garbage_collection import collect_rarely

NODES, PENDING, ROUNDS = 1_000, 10_000, 7
HOUR = 3_600_000
GIB = 2**30
QUEUES = [Queue("default"), Queue("research", {"gpu": 2_000}), Queue("small", {"gpu": 64, "cpu": 500_000})]
MANY = [
    Queue("all", {"gpu": 1_000}),
    *(Queue(f"team-{number}", {"gpu": 140}, parent="all", weight=1 + number % 3) for number in range(50)),
]


def main() -> None:
    collect_rarely()  # as in the controller's process
    chance = random.Random(7)  # noqa: S311 - a seed, so that every run measures the same
    few = [(demand(chance),) for _ in range(20)]
    measure("all distinct", QUEUES, lambda _: (demand(chance),), target=1.0)
    measure("of 20 shapes", QUEUES, lambda number: few[number % 20], target=1.0)
    measure("all distinct, in 50 queues that lend to each other", MANY, lambda _: (demand(chance),))
    roles = ("chief", "worker")
    measure("all distinct, of two roles", QUEUES, lambda _: tuple(demand(chance, role) for role in roles), of=1_000)


def measure(
    name: str,
    queues: list[Queue],
    asked: Callable[[int], tuple[Demand, ...]],
    *,
    of: int = PENDING,
    target: float | None = None,
) -> None:
    ledger = full_cluster(random.Random(7), queues)  # noqa: S311 - as above
    for number in range(of):
        ledger.add_pending(waiting(number, asked(number), queues))
    rounds = [round_of(ledger, number, queues) for number in range(ROUNDS)]
    ledger.snapshot().table.derived.clear()
    cold = sum(round_of(ledger, ROUNDS, queues)[:2])
    took = min(planned + explained for planned, explained, _, _ in rounds)
    shares = " + ".join(f"{min(part) * 1000:.0f}" for part in list(zip(*rounds, strict=True))[:2])
    _, _, reasons, etas = rounds[-1]
    print(f"{of} gangs {name}: {took * 1000:.0f} ms (plan + the rest: {shares}), cold {cold * 1000:.0f} ms; ", end="")
    print(f"{reasons} kinds of reason, {etas} ETAs")
    if target is not None:
        what = f"plan, reasons with counts and ETAs for {of:,} pending gangs {name}, 1,000 nodes"
        print(json.dumps({"claim": what, "measured": took, "unit": "s", "target": target}))


def full_cluster(chance: random.Random, queues: list[Queue]) -> Ledger:
    """A thousand nodes of two kinds, some tainted, a few cordoned; all running gangs differ."""
    nodes = [
        Node(
            f"n{number}",
            {"gpu": 8, "cpu": 96_000, "memory": (512 + 512 * (number % 2)) * GIB},
            {"zone": "abcd"[number % 4]},
            (Taint("dedicated", "vision"),) if number % 10 == 0 else (),
            cordoned="drained by root" if number % 97 == 0 else "",
        )
        for number in range(NODES)
    ]
    ledger = Ledger(nodes, queues)
    for number in range(400):
        size = chance.choice([(1, 4), (1, 8), (4, 8)])
        ledger.add_pending(waiting(-1 - number, (running(chance, *size),), queues))
    snapshot = ledger.snapshot()
    by_id = {gang.id: gang for gang in snapshot.pending}
    for admission in schedule(snapshot, 0).admissions:
        ledger.hold(start_gang(by_id[admission.job_id], admission.placement, 0))
    for job_id in by_id:
        ledger.remove_pending(job_id)
    return ledger


def waiting(number: int, asked: tuple[Demand, ...], queues: list[Queue]) -> PendingGang:
    queue = queues[number % len(queues)].name
    walltime = HOUR * (1 + number % 24)
    return PendingGang(f"j-{number}", number, queue, number % 5, number, asked, shape_of(queue, asked), walltime)


def demand(chance: random.Random, role: str = "worker") -> Demand:
    selector = {"zone": chance.choice("abcde")} if chance.random() < 0.5 else {}
    memory = chance.randrange(1, 700_000) * GIB // 1_000
    size = {"gpu": chance.randrange(1, 9), "cpu": chance.randrange(1, 90_000), "memory": memory}
    return Demand(role, chance.randrange(1, 60), size, selector)


def running(chance: random.Random, replicas: int, gpus: int) -> Demand:
    memory = gpus * chance.randrange(1, 60_000) * GIB // 1_000
    return Demand("worker", replicas, {"gpu": gpus, "cpu": gpus * chance.randrange(1, 12_000), "memory": memory})


def round_of(ledger: Ledger, number: int, queues: list[Queue]) -> tuple[float, float, int, int]:
    """Return seconds for the plan and for reading all of it, after a change; numbers of kinds of reason and of ETAs."""
    ledger.remove_pending("j-0")
    asked = Demand("worker", 1 + number, {"gpu": 8, "cpu": 64_000, "memory": 256 * GIB})
    ledger.add_pending(waiting(0, (asked,), queues))
    begin = time.process_time()
    plan = schedule(ledger.snapshot(), 0)
    middle = time.process_time()
    verdicts, order = dict(plan.verdicts), tuple(plan.order)
    end = time.process_time()
    assert len(verdicts) + len(plan.admissions) == len(ledger.snapshot().pending)
    assert set(order) == verdicts.keys()
    etas = sum(verdict.eta is not None for verdict in verdicts.values())
    return middle - begin, end - middle, len({verdict.reason for verdict in verdicts.values()}), etas


if __name__ == "__main__":
    main()
