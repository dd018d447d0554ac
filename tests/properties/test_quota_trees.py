"""Quota trees and fair shares of any shape: limits hold, reclaims end, and names do not matter."""

from dataclasses import dataclass, field, replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from depth import depth
from windlass.core.cycle.scheduler import schedule
from windlass.core.invariants import plan_violations
from windlass.core.ledger import Ledger
from windlass.core.model.gang import Demand, PendingGang, shape_of
from windlass.core.model.node import Node
from windlass.core.model.queue import Queue
from windlass.core.queues.fair_share import Shares, can_reclaim_all
from windlass.core.queues.queue_tree import Tree, tree_of
from windlass.core.queues.quota import available_quota, exceeds_available
from windlass.core.queues.usage import QueueUsage

RESOURCES = ("cpu", "memory")


@st.composite
def trees(draw, most=6):
    """Queues q0 … qn, each under an earlier one or a root; limits of any resource."""
    queues = []
    for number in range(draw(st.integers(2, most))):
        parent = draw(st.sampled_from(["", *(queue.name for queue in queues)])) if number else ""
        amounts = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 8))
        nominal = draw(amounts)
        borrowing, lending = (draw(amounts) if parent else {} for _ in "bl")
        weight = draw(st.integers(1, 3))
        users = draw(amounts) if draw(st.integers(0, 3)) == 0 else {}
        most = draw(st.sampled_from([0, 0, 0, 1, 3]))
        queue = Queue(f"q{number}", nominal, parent, weight, borrowing, lending, user_running=most, user_limits=users)
        queues.append(queue)
    return queues


def some(draw, names, size=5):
    return draw(st.fixed_dictionaries({}, optional={name: st.integers(1, size) for name in names}))


def usage_of(queues, held=None):
    return QueueUsage(tree_of({queue.name: queue for queue in queues}), held or {}, {})


# --- available amounts -------------------------------------------------------------------------------


def charged_by_definition(tree: Tree, held, name, resource):
    """Charged amounts by the definition, without any cached sum."""
    below = (child for child in tree.children.get(name, ()))
    kept = {child: tree.unlent[child].get(resource, 0) for child in tree.queues}
    through = (max(charged_by_definition(tree, held, child, resource) - kept[child], 0) for child in below)
    return held.get(name, {}).get(resource, 0) + sum(through)


def allowed(tree: Tree, held, queue, resource):
    """Tells whether every limit from the queue up to its root holds."""
    for level in tree.path[queue]:
        used, quota = charged_by_definition(tree, held, level, resource), tree.quota[level].get(resource, 0)
        if used <= tree.unlent[level].get(resource, 0):
            return True
        most = tree.borrowing[level].get(resource)
        if most is not None and used > quota + most:
            return False
    return used <= quota


@given(st.data())
@depth(50)
def test_the_available_amount_is_the_most_that_breaks_no_limit(data):
    queues = data.draw(trees())
    tree = tree_of({queue.name: queue for queue in queues})
    held = {}
    for queue in data.draw(st.permutations(queues)):
        for resource in RESOURCES:
            left = available_quota(QueueUsage(tree, held, {}), queue.name, resource)
            most = 9 if left is None else left
            there = held.setdefault(queue.name, {})
            if left is None:
                assert all(
                    resource not in q.nominal for q in queues if tree.path[q.name][-1] == tree.path[queue.name][-1]
                )
            elif left >= 0:
                for more, fine in ((left, True), (left + 1, False)):
                    then = {**held, queue.name: {**there, resource: more}}
                    assert allowed(tree, then, queue.name, resource) is fine or more == 0
            there[resource] = data.draw(st.integers(0, max(most, 0)))


@given(st.data())
@depth(50)
def test_usage_updated_step_by_step_equals_usage_computed_anew(data):
    queues = data.draw(trees())
    usage, held, gangs = usage_of(queues), {}, []
    for _ in range(data.draw(st.integers(1, 12))):
        if gangs and data.draw(st.booleans()):
            queue, amounts = gangs.pop(data.draw(st.integers(0, len(gangs) - 1)))
            usage.subtract(queue, "ada", amounts)
            held[queue] = {r: held[queue].get(r, 0) - amounts.get(r, 0) for r in RESOURCES}
        else:
            queue, amounts = data.draw(st.sampled_from(queues)).name, some(data.draw, RESOURCES)
            gangs.append((queue, amounts))
            usage.add(queue, "ada", amounts)
            held[queue] = {r: held.get(queue, {}).get(r, 0) + amounts.get(r, 0) for r in RESOURCES}
        fresh, copied = usage_of(queues, held), usage.copy()
        for name in data.draw(st.sets(st.sampled_from([queue.name for queue in queues]))):
            for resource in RESOURCES:
                for of in (QueueUsage.total, QueueUsage.charged):
                    found = [of(each, name).get(resource, 0) for each in (usage, copied, fresh)]
                    assert found[0] == found[1] == found[2]


@given(st.data())
@depth(50)
def test_no_queue_uses_unlent_quota_or_borrows_beyond_a_limit(data):
    queues = data.draw(trees())
    usage = usage_of(queues)
    for _ in range(20):
        queue, amounts = data.draw(st.sampled_from(queues)).name, some(data.draw, RESOURCES)
        if not exceeds_available(usage, queue, amounts):
            usage.add(queue, "ada", amounts)
    tree = usage.tree
    for name in tree.queues:
        for resource in tree.limited_resources[name]:
            used, quota = usage.charged(name).get(resource, 0), tree.quota[name].get(resource, 0)
            most = tree.borrowing[name].get(resource) if len(tree.path[name]) > 1 else 0
            assert most is None or used <= quota + most
            kept = tree.unlent[name].get(resource, 0)
            left = available_quota(usage, name, resource)
            assert left is not None
            assert left >= kept - used


# --- reclaim -------------------------------------------------------------------------------------


@dataclass
class SharedCluster:
    """Running and waiting gangs in a cluster of so much of each resource."""

    shares: Shares
    free: dict
    running: list = field(default_factory=list)
    waiting: list = field(default_factory=list)

    def reclaim(self, gang, order):
        """Stops gangs in this order until this one fits; whether it may, and did."""
        queue, request = gang
        usage, free, victims = self.shares.usage.copy(), dict(self.free), []
        for victim in order:
            if not exceeds_available(usage, queue, request) and all(free[r] >= amount for r, amount in request.items()):
                break
            usage.subtract(victim[0], "", victim[1])
            for resource, amount in victim[1].items():
                free[resource] += amount
            victims.append(victim)
        fits = not exceeds_available(usage, queue, request) and all(free[r] >= amount for r, amount in request.items())
        if (
            not victims
            or not fits
            or not can_reclaim_all(self.shares, queue, request, [(q, "", held) for q, held in victims])
        ):
            return False
        for victim in victims:
            self.stop(victim)
        self.start(gang)
        return True

    def has_room(self, gang):
        fits = all(self.free[resource] >= amount for resource, amount in gang[1].items())
        return fits and not exceeds_available(self.shares.usage, *gang)

    def start(self, gang):
        self.waiting.remove(gang)
        self.running.append(gang)
        self.shares.usage.add(gang[0], "", gang[1])
        self.free = {r: amount - gang[1].get(r, 0) for r, amount in self.free.items()}

    def stop(self, gang):
        self.running.remove(gang)
        self.waiting.append(gang)
        self.shares.usage.subtract(gang[0], "", gang[1])
        self.free = {r: amount + gang[1].get(r, 0) for r, amount in self.free.items()}

    def borrowed(self):
        """By depth, from the root down: amounts held there beyond the quotas of siblings. Reclaims lower it."""
        tree, usage = self.shares.tree, self.shares.usage
        levels = [0] * 8
        for name, path in tree.path.items():
            for resource in tree.contested_resources.get(path[1], ()) if len(path) > 1 else ():
                over = usage.charged(name).get(resource, 0) - tree.quota[name].get(resource, 0)
                levels[len(path)] += max(over, 0)
            for resource in tree.contested_resources.get(name, ()):
                own = usage.own(name).get(resource, 0) - tree.queues[name].nominal.get(resource, 0)
                levels[len(path) + 1] += max(own, 0)
        return tuple(levels)


def full_cluster(rng):
    """A cluster that gangs have filled as far as their queues may, queue by queue: much is borrowed."""

    def amounts(chance):
        return {resource: rng.randint(0, 8) for resource in RESOURCES if rng.random() < chance}

    queues = []
    for number in range(rng.randint(3, 8)):
        parent = rng.choice(queues).name if queues and rng.random() < 0.9 else ""
        borrowing, lending = (amounts(0.15), amounts(0.2)) if parent else ({}, {})
        queues.append(Queue(f"q{number}", amounts(0.6), parent, rng.randint(1, 3), borrowing, lending))
    capacity = {resource: rng.randint(4, 30) for resource in RESOURCES}
    cluster = SharedCluster(Shares(usage_of(queues), capacity, {}), dict(capacity))
    for queue in rng.sample(queues, len(queues)):
        gang = (queue.name, {"cpu": rng.randint(1, 4), **({"memory": rng.randint(1, 4)} if rng.random() < 0.5 else {})})
        cluster.waiting += [gang] * rng.randint(1, 5)
        while gang in cluster.waiting and cluster.has_room(gang):
            cluster.start(gang)
    return cluster


@given(st.integers(0, 2**32))
@depth(150)
def test_no_sequence_of_reclaims_is_a_cycle(seed):
    rng = Random(seed)  # noqa: S311 - no secret
    cluster = full_cluster(rng)
    for _ in range(20):
        before = cluster.borrowed()
        if cluster.waiting and cluster.reclaim(
            rng.choice(cluster.waiting), rng.sample(cluster.running, len(cluster.running))
        ):
            assert cluster.borrowed() < before


def test_the_generated_clusters_have_reclaims():
    cluster = full_cluster(rng := Random(7))  # noqa: S311 - no secret
    assert any(
        cluster.reclaim(gang, rng.sample(cluster.running, len(cluster.running))) for gang in list(cluster.waiting)
    )


# --- names and order --------------------------------------------------------------------


@st.composite
def clusters(draw):
    queues = [
        replace(queue, name=f"m{queue.name}", parent=queue.parent and f"m{queue.parent}") for queue in draw(trees())
    ]
    gangs = []
    for number in range(draw(st.integers(1, 10))):
        queue, amounts = draw(st.sampled_from(queues)).name, some(draw, RESOURCES)
        demands = (Demand("worker", draw(st.integers(1, 2)), amounts or {"cpu": 1}),)
        priority, user = draw(st.integers(0, 1)), draw(st.sampled_from(["ada", "bob"]))
        gang = PendingGang(f"j-{number}", number, queue, priority, number, demands, shape_of(queue, demands), user=user)
        gangs.append(gang)
    return queues, gangs


def snapshot_of(queues, gangs):
    ledger = Ledger([Node(name, {"cpu": 9, "memory": 9}) for name in ("n1", "n2")], queues)
    for gang in gangs:
        ledger.add_pending(gang)
    return ledger.snapshot()


def starts(queues, gangs):
    """Placements of the started gangs in one plan, and the order of the others."""
    plan = schedule(snapshot_of(queues, gangs), 0)
    return [(admission.job_id, admission.placement) for admission in plan.admissions], list(plan.order)


@given(clusters())
@depth(50)
def test_a_plan_keeps_every_limit_and_no_gang_waits_for_itself(cluster):
    snapshot = snapshot_of(*cluster)
    plan = schedule(snapshot, 0)
    assert plan_violations(snapshot, plan) == []
    assert all(verdict.behind != job_id for job_id, verdict in plan.verdicts.items())
    assert sorted(plan.order) == sorted(plan.verdicts)


@given(clusters(), st.randoms(use_true_random=False))
@depth(50)
def test_names_and_order_of_queues_do_not_change_the_plan(cluster, rng):
    queues, gangs = cluster
    names = [queue.name for queue in queues]
    others = dict(zip(names, rng.sample([f"r{number}" for number in range(len(names))], len(names)), strict=True))
    renamed = [replace(queue, name=others[queue.name], parent=others.get(queue.parent, "")) for queue in queues]
    moved = [
        replace(gang, queue=others[gang.queue], shape=shape_of(others[gang.queue], gang.demands)) for gang in gangs
    ]
    rng.shuffle(renamed)
    rng.shuffle(moved)
    assert starts(renamed, moved) == starts(queues, gangs)


@given(clusters(), st.data())
@depth(50)
def test_an_idle_queue_without_a_quota_changes_nothing(cluster, data):
    queues, gangs = cluster
    parent = data.draw(st.sampled_from(["", *(queue.name for queue in queues)]))
    assert starts([Queue("idle", parent=parent), *queues], gangs) == starts(queues, gangs)
