from gangs import demand, ledger_of, nodes, waiting

from windlass.core.ledger import Ledger
from windlass.core.model.policy import Policy
from windlass.core.placement.scores.demand_popularity import DemandPopularity


def shapes(popularity):
    return [(asked.resources.get("gpu", 0), times) for asked, times in popularity.typical]


def test_shapes_are_counted_by_replicas_whatever_their_role():
    popularity = DemandPopularity()
    popularity.count([demand(30, 1), demand(37, 8, role="other"), demand(3, 1, role="rare")])
    assert shapes(popularity) == [(8, 37), (1, 33)]


def test_no_demand_is_typical_before_enough_requests():
    popularity = DemandPopularity()
    popularity.count([demand(31, 1)])
    assert shapes(popularity) == []
    popularity.count([demand(1, 1)])
    assert shapes(popularity) == [(1, 32)]


def test_typical_demands_are_computed_again_when_requests_double():
    popularity = DemandPopularity()
    popularity.count([demand(40, 1)])
    popularity.count([demand(39, 2)])
    assert shapes(popularity) == [(1, 40)]
    popularity.count([demand(1, 2)])
    assert shapes(popularity) == [(1, 40), (2, 40)]


def test_a_ledger_counts_typical_demands_if_its_policy_needs_them_and_gives_none():
    crowd = [waiting(number, demand(8, 2)) for number in range(4)]
    assert ledger_of(nodes(1), *crowd).snapshot().policy.typical_demands == ()
    ledger = Ledger(nodes(1), (), policy=Policy(scoring="fgd"))
    for gang in crowd:
        ledger.add_pending(gang)
    [(asked, times)] = ledger.snapshot().policy.typical_demands
    assert (dict(asked.resources), times) == ({"gpu": 2}, 32)
    assert Ledger.at(ledger.snapshot()).snapshot().policy == ledger.snapshot().policy


def test_typical_demands_of_the_policy_stay():
    policy = Policy(scoring="fgd", typical_demands=((demand(1, 8), 1),))
    ledger = Ledger(nodes(1), (), policy=policy)
    ledger.add_pending(waiting(1, demand(64, 1)))
    assert ledger.snapshot().policy is policy
