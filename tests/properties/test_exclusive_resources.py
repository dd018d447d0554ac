"""Exclusive resources without columns: the same decisions as with a column for each of them."""

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.cycle.scheduler import schedule
from windlass.core.invariants import plan_violations, snapshot_violations
from windlass.core.ledger import Ledger
from windlass.core.model.gang import Demand, PendingGang, shape_of, start_gang
from windlass.core.model.node import Node
from windlass.core.model.policy import Policy

NAMES = ("hostport/1", "hostport/2", "apart/a", "apart/b")
HOUR = 3_600_000

exclusives = st.lists(st.sampled_from(NAMES), max_size=2, unique=True)
roles = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), exclusives), min_size=1, max_size=2)


@st.composite
def gangs(draw, number):
    demands = tuple(
        Demand(f"role{place}", count, {"gpu": gpu, **dict.fromkeys(names, 1)})
        for place, (count, gpu, names) in enumerate(draw(roles))
    )
    walltime, priority = draw(st.sampled_from([None, HOUR, 2 * HOUR])), draw(st.integers(0, 2))
    return PendingGang(
        f"j-{number}", number, "default", priority, number, demands, shape_of("default", demands), walltime
    )


@st.composite
def sequences(draw):
    nodes = [
        Node(f"n{place}", {"gpu": draw(st.integers(1, 4))}, exclusive_in_use=tuple(sorted(draw(exclusives))))
        for place in range(draw(st.integers(1, 5)))
    ]
    waves = [
        [draw(gangs(10 * wave + place)) for place in range(draw(st.integers(0, 3)))]
        for wave in range(draw(st.integers(1, 3)))
    ]
    return nodes, waves, draw(st.lists(st.booleans(), min_size=12, max_size=12))


def dummies():
    """Two gangs that never fit and request every exclusive resource, so that each of these has a column."""
    for number in (900, 901):
        demands = (Demand("worker", 1, {"gpu": 1000, **dict.fromkeys(NAMES, 1)}),)
        yield PendingGang(f"x-{number}", number, "default", -9, number, demands, shape_of("default", demands))


@given(sequences())
def test_masks_and_columns_give_equal_decisions(sequence):
    nodes, waves, leaving = sequence
    plain = Ledger(nodes, (), None, Policy(min_runtime=0))
    with_columns = Ledger(nodes, (), None, Policy(min_runtime=0))
    for gang in dummies():
        with_columns.add_pending(gang)
    for now, wave in enumerate(waves):
        plans = []
        for ledger in (plain, with_columns):
            for gang in wave:
                ledger.add_pending(gang)
            snapshot = ledger.snapshot()
            plan = schedule(snapshot, now * HOUR)
            assert plan_violations(snapshot, plan) == []
            plans.append(plan)
            waiting = {gang.id: gang for gang in snapshot.pending}
            for admission in plan.admissions:
                ledger.hold(start_gang(waiting[admission.job_id], admission.placement, now * HOUR), admission.grant)
            for preemption in plan.preemptions:
                ledger.release(preemption.job_id)
            assert snapshot_violations(ledger.snapshot()) == []
            for job_id, leaves in zip(sorted(ledger.snapshot().running), leaving, strict=False):
                if leaves:
                    ledger.release(job_id)
        one, other = plans
        assert [(a.job_id, a.placement) for a in one.admissions] == [(a.job_id, a.placement) for a in other.admissions]
        assert one.preemptions == other.preemptions
        assert dict(one.verdicts) == {key: verdict for key, verdict in other.verdicts.items() if key[0] == "j"}
