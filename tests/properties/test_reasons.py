"""Reasons and expected starts, computed in a few passes over arrays, equal those counted node by node and cell by
cell."""

from hypothesis import given
from hypothesis import strategies as st

from depth import depth
from windlass.core.cycle.scheduler import schedule_with_cycle
from windlass.core.cycle.start_estimation import EDGES, estimate_starts
from windlass.core.ledger import Ledger
from windlass.core.model.gang import Demand, PendingGang, shape_of, start_gang, total_of
from windlass.core.model.node import Node, Taint
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.nodes.feasibility import eligibility
from windlass.core.nodes.free_capacity import FreeCapacities
from windlass.core.placement.shortage import find_shortage
from windlass.core.queues.queue_order import iterate_by_fair_share
from windlass.core.queues.queue_tree import charge
from windlass.core.queues.quota import available_quota
from windlass.core.reservations.release_forecast import NEVER

MINUTE = 60_000
QUEUES = (Queue("default"), Queue("small", {"gpu": 6}), Queue("mixed", {"gpu": 5, "cpu": 9}))
GRID = [*EDGES.tolist(), NEVER]

zones = st.sampled_from([{}, {}, {"zone": "a"}, {"zone": "b"}])


@st.composite
def clusters(draw):
    """Many nodes of few sizes, so that some have equal free amounts."""
    sizes = st.builds(lambda gpu, cpu: {"gpu": gpu, "cpu": cpu}, st.sampled_from([0, 4, 8]), st.integers(1, 9))
    return [
        Node(f"n{number}", draw(sizes), draw(zones), draw(st.sampled_from([(), (), (Taint("lab"),)])))
        for number in range(draw(st.integers(1, 8)))
    ]


@st.composite
def gangs(draw, number):
    resources = {"gpu": draw(st.integers(0, 5)), "cpu": draw(st.integers(0, 4))}
    asked = (
        Demand("worker", draw(st.integers(1, 6)), resources, draw(zones), whole_node=draw(st.integers(0, 9)) == 0),
    )
    queue = draw(st.sampled_from([queue.name for queue in QUEUES]))
    return PendingGang(
        id=f"j-{number}",
        number=number,
        queue=queue,
        priority=draw(st.sampled_from([0, 0, 1])),
        since=draw(st.integers(0, 3)),
        demands=asked,
        shape=shape_of(queue, asked),
        walltime=draw(st.none() | st.integers(1, 600).map(lambda minutes: minutes * MINUTE)),
        not_before=draw(st.none() | st.none() | st.integers(1, 300).map(lambda minutes: minutes * MINUTE)),
        begin=draw(st.none() | st.none() | st.integers(1, 300).map(lambda minutes: minutes * MINUTE)),
        **draw(st.sampled_from([{}, {}, {"array_id": "a", "array_limit": 2}, {"waits_for": ("x",)}])),
    )


@st.composite
def trials(draw):
    """A cluster on which some gangs run from a first cycle, and a second cycle."""
    ledger = Ledger(draw(clusters()), QUEUES, None, Policy(draw(st.sampled_from(["windlass", "fifo"]))))
    for number in range(draw(st.integers(1, 14))):
        ledger.add_pending(draw(gangs(number)))
    for start in schedule_with_cycle(ledger.snapshot(), 0)[1].started:
        ledger.hold(start_gang(start.gang, start.placement, 0))
    for number in range(20, 20 + draw(st.integers(0, 4))):
        ledger.add_pending(draw(gangs(number)))
    return schedule_with_cycle(ledger.snapshot(), MINUTE)[1]


@depth(60)
@given(trials())
def test_a_shortage_is_counted_as_node_by_node(cycle):
    table, free = cycle.snapshot.table, cycle.free.tolist()
    for gang in cycle.snapshot.pending:
        (demand,) = gang.demands
        able = eligibility(table, demand)
        mine = [row for row in range(len(free)) if able.mask[row]]
        if demand.whole_node:
            mine = [row for row in mine if free[row] == table.capacity[row].tolist()]
        rooms = [[min(free[row][column] // each, demand.count) for row in mine] for column, each in able.request]
        room = [min(on_node) for on_node in zip(*rooms, strict=True)] if rooms else [demand.count for _ in mine]
        if demand.whole_node:
            room = [min(replicas, 1) for replicas in room]
        short = find_shortage(FreeCapacities(cycle.free), table, gang.demands)
        if sum(room) >= demand.count:
            assert short is None
            continue
        assert (short.fits, short.full) == (
            sum(room),
            able.filter_result.eligible - sum(replicas > 0 for replicas in room),
        )
        assert short.eligible == able.filter_result.eligible
        if able.request and not demand.whole_node:
            in_all = [sum(on_node) for on_node in rooms]
            column, each = able.request[in_all.index(min(in_all))]
            amounts = [free[row][column] for row in mine]
            assert (short.resource, short.each, short.free) == (table.resource_names[column], each, sum(amounts))
            assert (short.freest, short.nodes_with_free) == (max(amounts, default=0), sum(map(bool, amounts)))


@depth(60)
@given(trials(), st.data())
def test_expected_starts_equal_those_counted_by_cell(cycle, data):
    waiting = list(cycle.snapshot.pending)
    bounds = {gang.id: data.draw(st.integers(2, 90)) * MINUTE for gang in waiting if data.draw(st.integers(0, 4)) == 0}
    found = estimate_starts(cycle, waiting, bounds)
    starts = {job_id: each.at for job_id, each in found.items() if job_id not in bounds}
    assert starts == expected_by_cell(cycle, waiting, bounds)


@depth(60)
@given(trials())
def test_the_order_equals_that_of_single_starts(cycle):
    classes = cycle.snapshot.classes
    usage, left, plain = cycle.usage.copy(), [gang for each in classes for gang in each.gangs], []
    shares = cycle.shares.follow(usage)
    while left:
        of_queue = {}
        for gang in sorted(left, key=cycle.sort_key, reverse=True):
            of_queue[gang.queue] = gang
        first = min(
            of_queue.values(), key=lambda gang: (-gang.priority, shares.share(gang.queue), cycle.sort_key(gang))
        )
        left.remove(first)
        plain.append(first.id)
        usage.add(first.queue, first.user, total_of(first.demands))
    assert list(iterate_by_fair_share(classes, cycle.shares, priority_first=True)) == plain


# --- the same, the long way -----------------------------------------------------------------------------


def expected_by_cell(cycle, waiting, bounds):
    """Expected start of each gang, by id: by one resource per role on all its nodes, by its queue and by its array."""
    now, stocks, found = cycle.now, {}, {}
    kinds = {kind_of(cycle, gang) for gang in waiting}
    for mask, column in kinds:
        rows = [row for row, mine in enumerate(mask) if mine]
        free = sum(max(int(cycle.free[row, column]), 0) for row in rows)
        stocks[mask, column] = rising(
            free,
            cycle,
            lambda _, grant, r=rows, c=column: sum(int(a[c]) for row, a in zip(*grant, strict=True) if row in r),
        )
    for gang in waiting:
        if gang.waits_for:
            continue
        mask, column = kind_of(cycle, gang)
        needs = [(stocks[mask, column], amount)] if (amount := amount_of(cycle, gang)) else []
        needs += limits_of(cycle, stocks, gang)
        if gang.id in bounds:
            cell = next((c for c, edge in enumerate(GRID[:-1]) if now + edge >= bounds[gang.id]), None)
        else:
            cell = next((c for c in range(len(EDGES)) if lasts(needs, gang, c, now)), None)
        if cell is None:
            continue
        if gang.id not in bounds:
            is_first = cell and now + GRID[cell - 1] < opens(gang)
            found[gang.id] = opens(gang) if is_first else now + GRID[cell]
        held = [c for c in range(cell, len(EDGES)) if gang.walltime is None or GRID[c] < GRID[cell] + gang.walltime]
        for left, taken in [*shared(stocks, mask, column, amount), *limits_of(cycle, stocks, gang)]:
            for c in held:
                left[c] -= taken
    return found


def shared(stocks, mask, column, amount):
    """By pool of the same resource: its part of the nodes."""
    for (other, of), left in stocks.items():
        if isinstance(other, tuple) and of == column:
            yield left, amount * (sum(a and b for a, b in zip(mask, other, strict=True)) / max(1, sum(mask)))


def opens(gang):
    """The end of its backoff, or its begin time: the later one."""
    return max(gang.not_before or 0, gang.begin or 0)


def lasts(needs, gang, cell, now):
    """Whether all is free from this cell on for as long as the gang takes."""
    if now + GRID[cell] < opens(gang):
        return False
    end = NEVER if gang.walltime is None else GRID[cell] + gang.walltime
    return all(
        left[c] >= amount for left, amount in needs for c in range(cell, len(EDGES)) if c == cell or GRID[c] < end
    )


def kind_of(cycle, gang):
    able = eligibility(cycle.snapshot.table, gang.demands[0])
    whole = gang.demands[0].whole_node and able.mask.any()
    return tuple(able.mask.tolist()), 0 if whole or not able.request else able.request[0][0]


def amount_of(cycle, gang):
    (demand,) = gang.demands
    able = eligibility(cycle.snapshot.table, demand)
    if demand.whole_node and able.mask.any():
        return int(cycle.snapshot.table.capacity[able.mask, 0].mean()) * demand.count
    return able.request[0][1] * demand.count if able.request else 0


def limits_of(cycle, stocks, gang):
    """Amounts left of its queue's quota and of its array's limit, and how much it takes of these."""
    found = []
    for resource in cycle.usage.tree.limited_resources.get(gang.queue, ()):
        key = gang.queue, resource
        if key not in stocks:
            left = available_quota(cycle.usage, gang.queue, resource)
            stocks[key] = rising(
                left, cycle, lambda run, _, r=resource: charge(total_of(run.demands), r) * (run.queue == gang.queue)
            )
        if asked := charge(total_of(gang.demands), resource):
            found.append((stocks[key], asked))
    if gang.array_limit:
        if ("array", gang.array_id) not in stocks:
            left = gang.array_limit - cycle.arrays.get(gang.array_id, 0)
            stocks["array", gang.array_id] = rising(left, cycle, lambda run, _: run.array_id == gang.array_id)
        found.append((stocks["array", gang.array_id], 1))
    return found


def rising(free, cycle, back):
    """By cell: free now, and released by the gangs that end by then."""
    snapshot = cycle.snapshot
    ends = [
        (at - cycle.now, snapshot.running[job_id], snapshot.grants[job_id]) for at, job_id in snapshot.walltime_ends
    ]
    ends += [(s.gang.walltime, s.gang, s.grant) for s in cycle.started if s.gang.walltime is not None]
    amounts = [(at, back(gang, (grant.rows.tolist(), grant.amounts))) for at, gang, grant in ends]
    return [float(free + sum(amount for at, amount in amounts if at <= edge)) for edge in GRID[:-1]]
