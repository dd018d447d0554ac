"""1,000 gangs with an anti-affinity of their own on 5,000 nodes: memory of the node table, and time per arrival.

Anti-affinity is a mask. The same run measures a column per gang instead, by letting a second gang request each name,
and gangs without anti-affinity.
"""

import json
import statistics
import time
from collections.abc import Callable

from windlass.core.cycle.scheduler import schedule
from windlass.core.ledger import Ledger
from windlass.core.model.gang import Demand, PendingGang, shape_of, start_gang
from windlass.core.model.node import Node

NODES, GANGS, REPLICAS, COLUMNS = 5_000, 1_000, 8, 1_000
ROOM = {"gpu": 8, "cpu": 96_000, "memory": 768 * 2**30}


def main() -> None:
    plain, masks = ledger(), ledger()
    plain_ms = statistics.median(arrivals(plain, lambda _: {}))
    masks_ms = statistics.median(arrivals(masks, lambda number: {f"apart/team/job-name=j{number}": 1}))
    columns_mib, columns_ms = with_columns()
    table_mib = masks.free.nbytes / 2**20
    print(f"no anti-affinity: {plain.free.nbytes / 2**20:.2f} MiB a copy, {plain_ms:.3f} ms per arrival")
    print(f"as masks: {table_mib:.2f} MiB a copy, {masks_ms:.3f} ms per arrival")
    print(f"as {COLUMNS} columns: {columns_mib:.1f} MiB a copy, {columns_ms:.1f} ms per arrival")
    claim("copy of the node table, 1,000 anti-affine gangs on 5,000 nodes", table_mib, "MiB", 0.5)
    claim("arrival of an anti-affine gang among 1,000 of them", masks_ms, "ms", 2.0)


def ledger() -> Ledger:
    return Ledger([Node(f"n{number}", ROOM) for number in range(NODES)], ())


def arrivals(on: Ledger, names: Callable[[int], dict[str, int]], count: int = GANGS) -> list[float]:
    """Milliseconds from each gang's arrival to its nodes."""
    took = []
    for number in range(count):
        gang = gang_with(number, names(number))
        start = time.process_time()
        on.add_pending(gang)
        plan = schedule(on.snapshot(), number)
        (admission,) = plan.admissions
        on.hold(start_gang(gang, admission.placement, number), admission.grant)
        took.append((time.process_time() - start) * 1_000)
    return took


def with_columns() -> tuple[float, float]:
    """The same with a column for each name, because two gangs that never fit request all names."""
    on = ledger()
    every = {f"apart/team/job-name=j{number}": 1 for number in range(COLUMNS)}
    for number in (-1, -2):
        on.add_pending(gang_with(number, {**every, "gpu": 1_000}))
    took = arrivals(on, lambda number: {f"apart/team/job-name=j{number}": 1}, count=20)
    return on.free.nbytes / 2**20, statistics.median(took)


def gang_with(number: int, names: dict[str, int]) -> PendingGang:
    demands = (Demand("worker", REPLICAS, {"gpu": 1, "cpu": 4_000, **names}),)
    return PendingGang(f"j-{number}", number, "default", 0, number, demands, shape_of("default", demands))


def claim(what: str, measured: float, unit: str, target: float) -> None:
    print(json.dumps({"claim": what, "measured": measured, "unit": unit, "target": target}))


if __name__ == "__main__":
    main()
