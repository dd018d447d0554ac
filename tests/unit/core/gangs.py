"""Builders for clusters and gangs, for the tests beside this file."""

from collections.abc import Iterable, Mapping

from windlass.core.cycle.scheduler import schedule
from windlass.core.ledger import Ledger
from windlass.core.model.gang import Demand, PendingGang, RunningGang, shape_of, start_gang
from windlass.core.model.job import Toleration
from windlass.core.model.node import Node, Taint, Topology
from windlass.core.model.plan import Plan
from windlass.core.model.queue import Queue
from windlass.core.model.status import Placement


def node(
    name: str,
    gpu: int = 8,
    *,
    taints: Iterable[Taint] = (),
    cordoned: str = "",
    ready: bool = True,
    lost: bool = False,
    **more,
) -> Node:
    """`cpu=…` and `memory=…` are amounts; any other keyword is a label."""
    amounts = {"gpu": gpu, **{name: more.pop(name) for name in ("cpu", "memory") if name in more}}
    place = more.pop("place", ())
    return Node(name, amounts, more, tuple(taints), place, cordoned, ready, lost=lost)


def demand(
    replicas: int, gpu: int = 1, *, role: str = "worker", tolerations: tuple[Toleration, ...] = (), **more
) -> Demand:
    """As `node`: amounts, and labels for the selector."""
    amounts = {"gpu": gpu, **{name: more.pop(name) for name in ("cpu", "memory") if name in more}}
    return Demand(role, replicas, {name: amount for name, amount in amounts.items() if amount}, more, tolerations)


def waiting(number: int, *demands: Demand, queue: str = "default", priority: int = 0, **more) -> PendingGang:
    """Gang `j-<number>`; a smaller number means a longer wait."""
    return PendingGang(
        f"j-{number}", number, queue, priority, more.pop("since", number), demands, shape_of(queue, demands), **more
    )


def running(number: int, where: Mapping[str, int], *, gpu: int = 1, ends_by: int | None = None, **more) -> RunningGang:
    """Gang `r-<number>` with the given number of replicas of `gpu` GPUs on each node."""
    names = tuple(name for name, replicas in where.items() for _ in range(replicas))
    queue = more.pop("queue", "default")
    return RunningGang(
        f"r-{number}", number, queue, 0, (demand(len(names), gpu),), Placement({"worker": names}), 0, ends_by, **more
    )


def ledger_of(
    nodes: Iterable[Node], *gangs: PendingGang | RunningGang, queues: Iterable[Queue] = (), levels=()
) -> Ledger:
    ledger = Ledger(nodes, queues, Topology(levels))
    for gang in gangs:
        (ledger.hold if isinstance(gang, RunningGang) else ledger.add_pending)(gang)
    return ledger


def nodes(number: int, gpu: int = 8, **more) -> list[Node]:
    """n1, n2, …"""
    return [node(f"n{index}", gpu, **more) for index in range(1, number + 1)]


def carry_out(ledger: Ledger, now: int = 0) -> Plan:
    """One cycle: the gangs that the plan admits hold their nodes from then on."""
    snapshot = ledger.snapshot()
    plan = schedule(snapshot, now)
    gangs = {gang.id: gang for gang in snapshot.pending}
    for admission in plan.admissions:
        ledger.hold(start_gang(gangs[admission.job_id], admission.placement, now))
    return plan


def admitted(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Id → nodes of the only role, by replica."""
    return {admission.job_id: next(iter(admission.placement.nodes.values())) for admission in plan.admissions}
