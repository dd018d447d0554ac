"""Plans on any cluster are sound and exact, the first gang starts, and reasons are true."""

import re
from dataclasses import replace
from itertools import combinations, product

from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from depth import depth
from windlass.core.cycle.scheduler import schedule
from windlass.core.explain.admission_check import admission_refusal
from windlass.core.explain.alternatives import with_demands
from windlass.core.explain.explanation import explain
from windlass.core.invariants import plan_violations, snapshot_violations
from windlass.core.ledger import Ledger
from windlass.core.model.gang import Demand, PendingGang, shape_of, start_gang
from windlass.core.model.job import Job, Role, Toleration, TopologyRequest
from windlass.core.model.node import Node, Taint, Topology
from windlass.core.model.plan import Plan
from windlass.core.model.policy import Policy
from windlass.core.model.queue import Queue
from windlass.core.model.reasons import Reason, StartCertainty
from windlass.core.model.snapshot import Snapshot
from windlass.core.queues.orders.registry import ORDERS

QUEUES = (Queue("default"), Queue("small", {"gpu": 4}), Queue("mixed", {"gpu": 5, "cpu": 3}))
LAB = Taint("lab")
RACKS = Topology(("rack",))

# --- clusters and gangs ---------------------------------------------------------------------------------

zones = st.sampled_from([{}, {"zone": "a"}, {"zone": "b"}])
sizes = st.builds(lambda gpu, cpu: {"gpu": gpu, "cpu": cpu}, st.integers(0, 4), st.integers(0, 4))


racks = st.sampled_from([("r1",), ("r1",), ("r2",), ()])
near = st.none() | st.builds(
    lambda required, how: TopologyRequest("rack", required, **how),
    st.booleans(),
    st.sampled_from([{}, {"spread": True}, {"slice": 2}]),
)


@st.composite
def clusters(draw, most=5):
    return [
        Node(
            f"n{number}",
            draw(sizes),
            draw(zones),
            draw(st.sampled_from([(), (), (LAB,)])),
            draw(racks),
            cordoned=draw(st.sampled_from(["", "", "", "drained"])),
            ready=draw(st.sampled_from([True, True, True, False])),
        )
        for number in range(1, draw(st.integers(1, most)) + 1)
    ]


@st.composite
def demands(draw, role="worker"):
    resources = {"gpu": draw(st.integers(0, 3)), "cpu": draw(st.integers(0, 2))}
    tolerations = draw(st.sampled_from([(), (Toleration("lab", "Exists"),)]))
    return Demand(role, draw(st.integers(1, 5)), resources, draw(zones), tolerations)


@st.composite
def gangs(draw, number=None, roles=2):
    together = draw(near)
    names = ("worker", "chief")[: draw(st.integers(1, roles))]
    asked = tuple(replace(draw(demands(role)), topology=together) for role in names)
    queue = draw(st.sampled_from([queue.name for queue in QUEUES]))
    number = draw(st.integers(0, 999)) if number is None else number
    return PendingGang(
        id=f"j-{number}",
        number=number,
        queue=queue,
        priority=draw(st.sampled_from([0, 0, 0, 1])),
        since=draw(st.integers(0, 3)),
        demands=asked,
        shape=shape_of(queue, asked),
        walltime=draw(st.none() | st.integers(1, 20)),
        not_before=draw(st.none() | st.none() | st.integers(0, 20)),
        begin=draw(st.none() | st.none() | st.integers(0, 20)),
        **draw(st.sampled_from([{}, {}, {"array_id": "a", "array_limit": 2}])),
    )


@st.composite
def gang_lists(draw, most=8, roles=2):
    """Gangs with distinct numbers, several of equal shape among them."""
    made = [draw(gangs(number, roles)) for number in range(1, draw(st.integers(1, most)) + 1)]
    twins = draw(st.lists(st.sampled_from(made), max_size=4))
    return made + [replace(gang, id=f"j-{100 + i}", number=100 + i) for i, gang in enumerate(twins)]


@st.composite
def scenes(draw, roles=2):
    """A ledger on which gangs run, from one cycle, and gangs wait that have not been planned yet."""
    ledger = Ledger(draw(clusters()), QUEUES, RACKS)
    for gang in draw(gang_lists(roles=roles)):
        ledger.add_pending(gang)
    carry_out(ledger, 0)
    for number, gang in enumerate(draw(st.lists(gangs(roles=roles), max_size=4))):
        ledger.add_pending(replace(gang, id=f"j-{200 + number}", number=200 + number))
    return ledger


def carry_out(ledger: Ledger, now: int) -> Plan:
    snapshot = ledger.snapshot()
    plan = schedule(snapshot, now)
    waiting = {gang.id: gang for gang in snapshot.pending}
    for admission in plan.admissions:
        ledger.hold(start_gang(waiting[admission.job_id], admission.placement, now))
    return plan


def ids(plan: Plan) -> set[str]:
    return {admission.job_id for admission in plan.admissions}


def alone(ledger: Ledger, gang: PendingGang) -> Ledger:
    """The same running gangs, and no other waiting gang."""
    copy = Ledger.at(ledger.snapshot())
    for other in ledger.snapshot().pending:
        copy.remove_pending(other.id)
    copy.add_pending(gang)
    return copy


# --- sound after every step -----------------------------------------------------------------------------


class Cluster(RuleBasedStateMachine):
    """Jobs and nodes come and go, and time passes; every plan is carried out at once."""

    def __init__(self):
        super().__init__()
        self.nodes = [Node(f"n{number}", {"gpu": 3, "cpu": 3}) for number in range(3)]
        self.ledger = Ledger(self.nodes, QUEUES, RACKS)
        self.now = 0
        self.submitted = 0

    @rule(gang=gangs(number=0), twins=st.integers(1, 3))
    def submit(self, gang, twins):
        for _ in range(twins):
            self.submitted += 1
            self.ledger.add_pending(replace(gang, id=f"j-{self.submitted}", number=self.submitted))

    @rule(passing=st.integers(0, 9))
    def turn(self, passing):
        self.now += passing
        snapshot = self.ledger.snapshot()
        plan = carry_out(self.ledger, self.now)
        assert plan_violations(snapshot, plan) == []
        again = schedule(self.ledger.snapshot(), self.now)
        assert not again.admissions, "a second turn at the same time has nothing left to start"
        assert dict(again.verdicts).keys() == dict(plan.verdicts).keys()
        for job_id, verdict in again.verdicts.items():
            assert verdict.reason is plan.verdicts[job_id].reason

    @precondition(lambda self: self.ledger.snapshot().running)
    @rule(data=st.data())
    def end(self, data):
        self.ledger.release(data.draw(st.sampled_from(sorted(self.ledger.snapshot().running))))

    @precondition(lambda self: self.ledger.snapshot().pending)
    @rule(data=st.data())
    def withdraw(self, data):
        self.ledger.remove_pending(data.draw(st.sampled_from([gang.id for gang in self.ledger.snapshot().pending])))

    @rule(nodes=clusters())
    def change_cluster(self, nodes):
        """Remaining nodes keep their size: a node that shrinks below its usage is overallocated by declaration."""
        size = {node.name: node.capacity for node in self.nodes}
        self.nodes = [replace(node, capacity=size.get(node.name, node.capacity)) for node in nodes]
        lost = self.ledger.set_cluster(self.nodes, QUEUES, RACKS)
        for run in list(self.ledger.snapshot().running.values()):
            if set(lost) & set(run.placement.distinct()):
                self.ledger.release(run.id)

    @invariant()
    def nothing_is_wrong(self):
        assert snapshot_violations(self.ledger.snapshot()) == []


TestCluster = Cluster.TestCase
TestCluster.settings = depth(60, stateful_step_count=25)


# --- exact ----------------------------------------------------------------------------------------------


@given(st.lists(sizes, min_size=1, max_size=5), st.integers(1, 7), st.integers(0, 3), st.integers(0, 2))
@depth(300)
def test_a_gang_of_equal_members_starts_on_the_fewest_nodes_exactly_if_a_placement_exists(free, count, gpu, cpu):
    asked = (Demand("worker", count, {"gpu": gpu, "cpu": cpu}),)
    ledger = Ledger([Node(f"n{number}", size) for number, size in enumerate(free)], ())
    ledger.add_pending(PendingGang("j-1", 1, "default", 0, 0, asked, shape_of("default", asked)))
    plan = schedule(ledger.snapshot(), 0)
    room = [_most(size, {"gpu": gpu, "cpu": cpu}, count) for size in free]
    fewest = next(
        (n for n in range(1, len(room) + 1) if any(sum(some) >= count for some in combinations(room, n))), None
    )
    used = {len(admission.placement.distinct()) for admission in plan.admissions}
    assert used == (set() if fewest is None else {fewest})


def _most(size, asked, count):
    """Number of replicas that fit on a node, by trying each number."""
    return max(n for n in range(count + 1) if all(size[name] >= n * amount for name, amount in asked.items()))


@given(st.lists(sizes, min_size=1, max_size=3), demands("worker"), demands("chief"))
@depth(200)
def test_two_roles_start_only_if_a_placement_exists(free, worker, chief):
    roles = tuple(replace(role, count=min(role.count, 2), node_selector={}) for role in (worker, chief))
    ledger = Ledger([Node(f"n{number}", size) for number, size in enumerate(free)], ())
    ledger.add_pending(PendingGang("j-1", 1, "default", 0, 0, roles, shape_of("default", roles)))
    if schedule(ledger.snapshot(), 0).admissions:
        assert _any_placement(free, [role.resources for role in roles for _ in range(role.count)])


def _any_placement(free, replicas):
    for where in product(range(len(free)), repeat=len(replicas)):
        used = [{"gpu": 0, "cpu": 0} for _ in free]
        for node, asked in zip(where, replicas, strict=True):
            for name, amount in asked.items():
                used[node][name] += amount
        if all(used[node][name] <= size[name] for node, size in enumerate(free) for name in size):
            return True
    return False


# --- irrelevant differences, and additions that must not harm -------------------------------------------------------


@given(clusters(), gang_lists(), st.randoms(use_true_random=False))
@depth(100)
def test_names_and_the_order_of_arrival_in_the_ledger_do_not_matter(nodes, crowd, chance):
    def plan_of(nodes, crowd):
        ledger = Ledger(nodes, QUEUES, RACKS)
        for gang in crowd:
            ledger.add_pending(gang)
        return schedule(ledger.snapshot(), 0)

    plan = plan_of(nodes, crowd)
    renamed = [replace(node, name=node.name.replace("n", "host-")) for node in nodes]
    others = [replace(gang, id=gang.id.replace("j", "job")) for gang in crowd]
    chance.shuffle(renamed)
    chance.shuffle(others)
    other = plan_of(renamed, others)
    assert str(other.admissions).replace("host-", "n").replace("job-", "j-") == str(plan.admissions)
    assert str(dict(other.verdicts)).replace("job-", "j-") == str(dict(plan.verdicts))


@given(scenes(roles=1), sizes, zones)
@depth(200)
def test_an_additional_idle_node_never_blocks_the_first_gang(ledger, size, labels):
    snapshot = ledger.snapshot()
    first = next((gang.id for gang in snapshot.pending if gang.id in _open(snapshot)), None)
    before = ids(schedule(snapshot, 5))
    ledger.set_cluster([*snapshot.table.nodes, Node("extra", size, labels)], QUEUES, RACKS)
    assert first not in before or first in ids(schedule(ledger.snapshot(), 5))


def _open(snapshot):
    plan = schedule(snapshot, 5)
    return {*plan.order, *ids(plan)}


@given(clusters(), gang_lists(most=5), gangs(number=50), st.randoms(use_true_random=False))
@depth(100, HealthCheck.filter_too_much)  # many gangs could never run on the few nodes of a cluster
def test_the_first_gang_starts_whatever_arrives_behind_it(nodes, crowd, first, chance):
    first = replace(first, priority=9, array_id="", array_limit=0, not_before=None, begin=None)
    up = [replace(node, ready=True, cordoned="") for node in nodes]
    job = Job(
        "x", tuple(_role(demand) for demand in first.demands), queue=first.queue, topology=first.demands[0].topology
    )
    ledger = Ledger(up, QUEUES, RACKS)
    assume(admission_refusal(ledger.snapshot(), job) is None)
    for gang in crowd:
        ledger.add_pending(gang)
    carry_out(ledger, 0)
    ledger.add_pending(first)
    longest = 4
    ends: dict[str, int] = {}
    for turn in range(3 * longest):
        carry_out(ledger, turn)
        running = ledger.snapshot().running
        if first.id in running:
            return
        for run in running:
            ends.setdefault(run, turn + chance.randint(1, longest))
        for run, at in list(ends.items()):
            if at <= turn:
                ledger.release(run)
                del ends[run]
        more = replace(chance.choice(crowd), id=f"j-{1000 + turn}", number=1000 + turn, not_before=None, begin=None)
        ledger.add_pending(more)
    raise AssertionError("starved")


def _role(demand: Demand) -> Role:
    return Role(
        demand.role,
        demand.count,
        resources=demand.resources,
        node_selector=demand.node_selector,
        tolerations=demand.tolerations,
    )


@given(scenes(), st.integers(0, 20))
@depth(200)
def test_no_gang_starts_before_its_begin_time_and_none_of_the_others_waits_for_it(ledger, now):
    snapshot = ledger.snapshot()
    early = [gang for gang in snapshot.pending if gang.begin is not None and gang.begin > now]
    plan = schedule(snapshot, now)
    assert ids(plan).isdisjoint(gang.id for gang in early)
    for gang in early:
        ledger.remove_pending(gang.id)
    without = schedule(ledger.snapshot(), now)
    assert [str(each) for each in plan.admissions] == [str(each) for each in without.admissions]
    assert plan.preemptions == without.preemptions
    assert list(plan.order) == list(without.order)
    if early:
        assert plan.due is not None
        assert plan.due <= min(gang.begin for gang in early)


@given(scenes(), st.integers(0, 20))
@depth(200)
def test_begin_times_that_have_come_are_dropped_without_a_change_of_the_plan(ledger, now):
    before = schedule(ledger.snapshot(), now)
    ledger.open_begin_times(now)
    after = schedule(ledger.snapshot(), now)
    assert {str(each) for each in after.admissions} == {str(each) for each in before.admissions}
    assert dict(after.verdicts) == dict(before.verdicts)
    assert (after.preemptions, list(after.order), after.due) == (before.preemptions, list(before.order), before.due)


# --- the reasons are true -------------------------------------------------------------------------------


@given(scenes())
@depth(200)
def test_a_gang_with_behind_would_start_but_for_gangs_ahead_and_no_other_would(ledger):
    plan = carry_out(ledger, 5)
    for gang in ledger.snapshot().pending:
        verdict = plan.verdicts[gang.id]
        would_start = gang.id in ids(schedule(alone(ledger, gang).snapshot(), 5))
        assert would_start == bool(verdict.behind), verdict
        if verdict.behind:
            assert list(plan.order).index(verdict.behind) < list(plan.order).index(gang.id)


@given(scenes(roles=1), st.randoms(use_true_random=False))
@depth(100)
def test_a_bound_is_kept_however_early_others_end(ledger, chance):
    for gang in ledger.snapshot().pending:
        if gang.not_before is not None or gang.waits_for:
            ledger.remove_pending(gang.id)  # an ETA does not count later arrivals
    plan = carry_out(ledger, 5)
    bounds = {name: verdict.eta for name, verdict in plan.verdicts.items() if verdict.certainty is StartCertainty.BOUND}
    for job_id, eta in bounds.items():
        later = Ledger.at(ledger.snapshot())
        ends = {name: chance.randint(6, max(at, 6)) for at, name in later.snapshot().walltime_ends}
        while job_id not in later.snapshot().running:
            assert ends, "nobody is left who could make room"
            now = min(ends.values())
            assert now <= max(eta, 6), "it was to have started"
            for name in [name for name, at in ends.items() if at == now]:
                later.release(name)
                del ends[name]
            for name in ids(carry_out(later, now)):
                by = later.snapshot().running[name].ends_by
                ends.update({} if by is None else {name: chance.randint(now + 1, max(by, now + 1))})


def under(order: str, ledger: Ledger) -> Snapshot:
    """The same under another order, in which any gang may be stopped at once."""
    ledger.set_cluster(ledger.snapshot().table.nodes, QUEUES, RACKS, Policy(order, min_runtime=0))
    return ledger.snapshot()


@given(scenes(), st.sampled_from(sorted(ORDERS)))
@depth(150)
def test_a_gang_that_is_expected_now_starts_now(ledger, order):
    snapshot = under(order, ledger)
    for gang in snapshot.pending:
        for offer in explain(snapshot, gang.id, 5).would_start:
            changed = Ledger.at(snapshot)
            changed.add_pending(with_demands(gang, offer.demands))
            assert gang.id in ids(schedule(changed.snapshot(), 5)), offer.change


@given(scenes(), st.sampled_from(sorted(ORDERS)))
@depth(150)
def test_an_explanation_agrees_with_the_plan(ledger, order):
    snapshot = under(order, ledger)
    plan = schedule(snapshot, 5)
    for gang in snapshot.pending:
        found = explain(snapshot, gang.id, 5)
        assert found.verdict == plan.verdicts.get(gang.id)
        assert (found.expected == 5) >= (gang.id in ids(plan))
        order = list(plan.order)
        assert found.position == (order.index(gang.id) + 1 if gang.id in order else None)
        missing = [view for view in found.nodes if view.cause]
        counted = sum(count.nodes for count in found.verdict.counts if count.cause != "full") if found.verdict else 0
        assert not counted or counted == len(missing)


@given(clusters(), gangs(number=1))
@depth(300)
def test_a_job_is_rejected_exactly_if_it_would_not_start_alone_on_all_nodes(nodes, gang):
    gang = replace(gang, array_id="", array_limit=0, not_before=None, begin=None)
    job = Job("x", tuple(_role(demand) for demand in gang.demands), queue=gang.queue, topology=gang.demands[0].topology)
    no = admission_refusal(Ledger(nodes, QUEUES, RACKS).snapshot(), job)
    ledger = Ledger([replace(node, ready=True, cordoned="") for node in nodes], QUEUES, RACKS)
    ledger.add_pending(gang)
    assert (no is None) == (ids(schedule(ledger.snapshot(), 0)) == {gang.id})
    assert no is None or no.reason is Reason.MISCONFIGURED


@given(clusters(), gangs(number=1, roles=1))
@depth(300)
def test_the_largest_gang_that_is_named_fits_and_one_more_replica_does_not(nodes, gang):
    snapshot = Ledger(nodes, QUEUES, RACKS).snapshot()
    role = replace(_role(gang.demands[0]), replicas=gang.demands[0].count)
    no = admission_refusal(snapshot, Job("x", (role,), queue=gang.queue, topology=gang.demands[0].topology))
    named = re.search(r"largest gang that fits: (\d+) replicas? of (.*)", no.message) if no else None
    assume(named is not None)
    amounts = {name: int(amount.rstrip("m")) for amount, name in re.findall(r"(\d+m?) (\w+)", named[2])}

    def refused(replicas):
        smaller = replace(role, replicas=replicas, resources=amounts)
        return (
            admission_refusal(snapshot, Job("x", (smaller,), queue=gang.queue, topology=gang.demands[0].topology))
            is not None
        )

    assert not refused(int(named[1]))
    assert int(named[1]) == role.replicas or refused(int(named[1]) + 1)
