"""A gang of 512 pods with a topology request: 20,000 nodes × 8 GPUs, and a real Clos network of 847 hosts."""

import csv
import gzip
import json
import os
import random
import statistics
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from windlass.core.cycle.scheduler import schedule
from windlass.core.ledger import Ledger
from windlass.core.model.gang import Demand, PendingGang, shape_of, start_gang
from windlass.core.model.job import TopologyRequest
from windlass.core.model.node import Node, Topology
from windlass.core.model.queue import Queue
from windlass.core.model.snapshot import NodeTable
from windlass.core.model.status import Placement

TRACES = Path(os.environ.get("WINDLASS_TRACES", "../shared/data"))
WHOLE = {"gpu": 8, "cpu": 96_000, "memory": 768 * 2**30}
ROUNDS, TARGET = 100, 5.0
REQUESTS = {
    "in one block": TopologyRequest("block"),
    "racks preferred": TopologyRequest("rack", required=False),
    "spread over racks": TopologyRequest("rack", required=False, spread=True),
    "slices of 8, each in one rack": TopologyRequest("rack", slice=8),
}
CLOS = {
    "in one PSW": TopologyRequest("PSW"),
    "ASW preferred": TopologyRequest("ASW", required=False),
    "spread over ASWs": TopologyRequest("ASW", required=False, spread=True),
    "slices of 4, each in one ASW": TopologyRequest("ASW", slice=4),
}


def main() -> None:
    large = synthetic()
    report("20,000 nodes × 8 GPUs, 3 levels", large, 512, 8, REQUESTS)
    report("the same, 4 GPUs a pod", large, 512, 4, REQUESTS)
    fill_up(large)
    measure_waiting(large, 600)
    hosts = TRACES / "lingjun" / "topo.csv.gz"
    if hosts.exists():
        report("the Clos of Lingjun, 847 hosts", clos(hosts), 128, 8, CLOS)
    else:
        print(f"no {hosts}: the real Clos is not measured; set WINDLASS_TRACES to the folder of the traces")


def synthetic() -> Ledger:
    """Blocks of 40 racks of 16 hosts; jobs of 2 to 32 GPUs, half of which have ended again."""
    nodes = [Node(f"h{n}", WHOLE, place=(f"b{n // 640}", f"r{n // 16}", f"h{n}")) for n in range(20_000)]
    return busy(nodes, Topology(("block", "rack", "host")))


def fill_up(ledger: Ledger) -> None:
    """Make one host in six busy, so that no block has 600 of its 640 hosts free."""
    free, table = ledger.snapshot().free, ledger.snapshot().table
    idle = [host for host in range(0, 20_000, 6) if free[table.row[f"h{host}"], table.column["gpu"]] == 8]
    for host in idle:
        ledger.hold(start_gang(gang(f"f-{host}", host, 1, 8, None), Placement({"worker": (f"h{host}",)}), 0))


def clos(path: Path) -> Ledger:
    """The Clos network; its levels of switches are DSW, PSW and ASW, from the top."""
    with gzip.open(path, "rt", newline="") as file:
        nodes = [Node(row["ip"], WHOLE, place=(row["DSW"], row["PSW"], row["ASW"])) for row in csv.DictReader(file)]
    return busy(nodes, Topology(("DSW", "PSW", "ASW")))


def busy(nodes: list[Node], topology: Topology) -> Ledger:
    chance = random.Random(7)  # noqa: S311 - a seed, so that every run measures the same
    ledger = Ledger(nodes, [Queue("default")], topology)
    for number in range(len(nodes) // 2):
        start(ledger, gang(f"r-{number}", number, chance.choice([1, 1, 1, 2, 4]), chance.choice([2, 4, 8]), None))
    for job_id in list(ledger.snapshot().running):
        if chance.random() < 0.5:
            ledger.release(job_id)
    return ledger


def gang(name: str, number: int, replicas: int, gpus: int, request: TopologyRequest | None) -> PendingGang:
    resources = {"gpu": gpus, "cpu": 8_000 * gpus, "memory": gpus * 64 * 2**30}
    demands = (Demand("worker", replicas, resources, topology=request),)
    return PendingGang(name, number, "default", 0, number, demands, shape_of("default", demands))


def measure_waiting(ledger: Ledger, replicas: int) -> None:
    """Measure a gang that fits into an empty block but into none now, from its arrival to its reason."""
    took = []
    for number in range(ROUNDS):
        requester = gang(f"j-{number}", number, replicas, 8, TopologyRequest("block"))
        begin = time.perf_counter()
        placed = start(ledger, requester)
        took.append((time.perf_counter() - begin) * 1000)
        assert not placed, "the gang started instead of waiting"
        ledger.remove_pending(requester.id)
    print(f"  waits: median {statistics.median(took):.2f} ms, p99 {sorted(took)[-2]:.2f} ms")
    claim(f"decision for {replicas} pods × 8 gpu in one block that wait, 20,000 nodes × 8 GPUs", took)


def claim(what: str, took: list[float]) -> None:
    print(json.dumps({"claim": what, "measured": statistics.median(took), "unit": "ms", "target": TARGET}))


def start(ledger: Ledger, requester: PendingGang) -> tuple[str, ...]:
    """Process a gang from its arrival to its nodes: ledger, plan, ledger."""
    ledger.add_pending(requester)
    admissions = schedule(ledger.snapshot(), requester.number).admissions
    for admission in admissions:
        ledger.hold(start_gang(requester, admission.placement, requester.number), admission.grant)
    return admissions[0].placement.nodes["worker"] if admissions else ()


def report(where: str, ledger: Ledger, replicas: int, gpus: int, requests: dict[str, TopologyRequest]) -> None:
    table, column = ledger.snapshot().table, ledger.snapshot().table.column["gpu"]
    print(f"{where}: {int(ledger.snapshot().free[:, column].sum())} of {len(table.nodes) * 8} GPUs free")
    for name, request in {"anywhere": None, **requests}.items():
        took, placed = [], ()
        for number in range(ROUNDS):
            requester = gang(f"j-{number}", len(table.nodes) + number, replicas, gpus, request)
            begin = time.perf_counter()
            placed = start(ledger, requester)
            took.append((time.perf_counter() - begin) * 1000)
            ledger.remove_pending(requester.id)
            ledger.release(requester.id)
        assert len(placed) == replicas, f"{name} did not start"
        shown = ", ".join(domains(table, placed))
        print(f"  {name}: median {statistics.median(took):.2f} ms, p99 {sorted(took)[-2]:.2f} ms, on {shown}")
        if request is not None:
            claim(f"decision for {replicas} pods × {gpus} gpu {name}, {where}", took)


def domains(table: NodeTable, placed: tuple[str, ...]) -> Iterator[str]:
    """Number of domains of each level."""
    rows = sorted({table.row[name] for name in placed})
    for number, level in enumerate(table.topology.levels):
        yield f"{sum(1 for _ in groupby(table.domains[rows, number]))} {level}"


if __name__ == "__main__":
    main()
