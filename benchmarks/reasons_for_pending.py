"""A verdict for each of 10,000 waiting gangs on a full cluster of 1,000 nodes: of few shapes, and all distinct."""

import json
import random
import statistics
import time

from windlass.core.cluster import Node, Taint
from windlass.core.gang import Demand, Pending, shape_of, started
from windlass.core.ledger import Ledger
from windlass.core.queue import Queue
from windlass.core.scheduler import schedule

NODES, PENDING, ROUNDS = 1_000, 10_000, 5
HOUR = 3_600_000
GIB = 2**30
QUEUES = [Queue("default"), Queue("research", {"gpu": 2_000}), Queue("small", {"gpu": 64, "cpu": 500_000})]


def main() -> None:
    chance = random.Random(7)  # noqa: S311 - a seed, so that every run measures the same
    for name, shapes in (("of 20 shapes", [demand(chance) for _ in range(20)]), ("all distinct", None)):
        ledger = full_cluster(chance)
        gangs = [waiting(number, shapes[number % 20] if shapes else demand(chance)) for number in range(PENDING)]
        for gang in gangs:
            ledger.add_pending(gang)
        took = [round_of(ledger, number) for number in range(ROUNDS)]
        decided, explained = (statistics.median(part) for part in zip(*took, strict=True))
        print(f"{PENDING} {name}: plan {decided * 1000:.0f} ms, every verdict and the order {explained * 1000:.0f} ms")
        what = f"plan, and a reason for each of 10,000 pending gangs {name}, 1,000 nodes"
        print(json.dumps({"claim": what, "measured": decided + explained, "unit": "s", "target": 1.0}))


def full_cluster(chance: random.Random) -> Ledger:
    """A thousand nodes of two kinds, some tainted, a few cordoned; gangs run on nine tenths of the GPUs."""
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
    ledger = Ledger(nodes, QUEUES)
    for number in range(400):
        ledger.add_pending(waiting(-1 - number, asking(*chance.choice([(1, 4), (1, 8), (4, 8)]))))
    snapshot = ledger.snapshot()
    by_id = {gang.id: gang for gang in snapshot.pending}
    for admission in schedule(snapshot, 0).admissions:
        ledger.hold(started(by_id[admission.job_id], admission.placement, 0))
    for job_id in by_id:
        ledger.remove_pending(job_id)
    return ledger


def waiting(number: int, asked: Demand) -> Pending:
    queue = QUEUES[number % 3].name
    walltime = HOUR * (1 + number % 24)
    return Pending(f"j-{number}", number, queue, number % 5, number, (asked,), shape_of(queue, (asked,)), walltime)


def demand(chance: random.Random) -> Demand:
    selector = {"zone": chance.choice("abcde")} if chance.random() < 0.5 else {}
    memory = chance.randrange(1, 700_000) * GIB // 1_000
    size = {"gpu": chance.randrange(1, 9), "cpu": chance.randrange(1, 90_000), "memory": memory}
    return Demand("worker", chance.randrange(1, 60), size, selector)


def asking(replicas: int, gpus: int) -> Demand:
    return Demand("worker", replicas, {"gpu": gpus, "cpu": 8_000 * gpus, "memory": gpus * 32 * GIB})


def round_of(ledger: Ledger, number: int) -> tuple[float, float]:
    """Seconds for the plan, and for reading everything in it; afresh, as after a change."""
    ledger.remove_pending("j-0")
    ledger.add_pending(waiting(0, asking(1 + number, 8)))
    ledger.snapshot().table.derived.clear()
    begin = time.perf_counter()
    plan = schedule(ledger.snapshot(), 0)
    middle = time.perf_counter()
    read = dict(plan.verdicts), tuple(plan.order)
    end = time.perf_counter()
    assert len(read[0]) + len(plan.admissions) == PENDING
    return middle - begin, end - middle


if __name__ == "__main__":
    main()
