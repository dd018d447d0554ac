"""Domains chosen for a gang, compared with brute force on small clusters."""

from collections import Counter
from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from depth import depth
from windlass.core.cycle.scheduler import schedule
from windlass.core.ledger import Ledger
from windlass.core.model.gang import Demand, PendingGang, RunningGang, shape_of
from windlass.core.model.job import TopologyRequest
from windlass.core.model.node import Node, Topology
from windlass.core.model.status import Placement

LEVELS = ("block", "rack")
FEW = depth(300)
clusters = st.lists(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), min_size=1, max_size=3), max_size=3)
"""Blocks of racks of nodes, each the number of replicas that fit on it."""


class SmallCluster:
    """A cluster of four GPUs per node, some of them free, and the placement of a gang of single GPUs on it."""

    def __init__(self, blocks):
        self.nodes = [
            (Node(f"n{b}-{r}-{n}", {"gpu": 4}, place=(f"b{b}", f"r{r}")), room)
            for b, racks in enumerate(blocks)
            for r, nodes in enumerate(racks)
            for n, room in enumerate(nodes)
        ]
        self.place = {node.name: node.place for node, _ in self.nodes}
        self.most_on_a_node = max((room for _, room in self.nodes), default=0)
        busy = Placement({"worker": tuple(node.name for node, room in self.nodes for _ in range(4 - room))})
        self.ledger = Ledger([node for node, _ in self.nodes], (), Topology(LEVELS))
        self.ledger.hold(
            RunningGang("busy", 1, "default", 0, (Demand("worker", len(busy.nodes["worker"]), {"gpu": 1}),), busy, 0)
        )

    def places(self, wanted, level, *, required=True, spread=False, size=0):
        """Rack of each replica, by rank; None if the gang does not start."""
        request = TopologyRequest(level, required, spread, size)
        demands = (Demand("worker", wanted, {"gpu": 1}, topology=request),)
        self.ledger.add_pending(PendingGang("j", 2, "default", 0, 0, demands, shape_of("default", demands)))
        admissions = schedule(self.ledger.snapshot(), 0).admissions
        return [self.place[name] for name in admissions[0].placement.nodes["worker"]] if admissions else None

    def room(self, level):
        """Free GPUs of each domain, by place."""
        sums = Counter()
        for node, free in self.nodes:
            sums[domain(node.place, level)] += free
        return sums


def domain(place, level):
    return place[: LEVELS.index(level) + 1]


levels = st.sampled_from(LEVELS)


@given(clusters, st.integers(1, 12), levels)
@FEW
def test_a_required_domain_is_found_exactly_if_it_exists_and_is_the_tightest(blocks, wanted, level):
    cluster = SmallCluster(blocks)
    places = cluster.places(wanted, level)
    able = [room for room in cluster.room(level).values() if room >= wanted]
    assert (places is not None) == bool(able)
    if places:
        (chosen,) = {domain(place, level) for place in places}
        assert cluster.most_on_a_node >= wanted or cluster.room(level)[chosen] == min(able)


@given(clusters, st.integers(1, 14), levels)
@FEW
def test_a_preferred_level_is_the_requested_or_the_next_wider_possible_one(blocks, wanted, level):
    cluster = SmallCluster(blocks)
    places = cluster.places(wanted, level, required=False)
    assert (places is not None) == (cluster.room("block").total() >= wanted)
    for wider in reversed(LEVELS[: LEVELS.index(level) + 1]):
        if any(room >= wanted for room in cluster.room(wider).values()):
            assert len({domain(place, wider) for place in places}) == 1
            break


@given(clusters, st.integers(1, 14))
@FEW
def test_a_gang_in_its_block_is_in_as_few_racks_as_possible(blocks, wanted):
    cluster = SmallCluster(blocks)
    places = cluster.places(wanted, "block")
    if places:
        racks = [room for rack, room in cluster.room("rack").items() if rack[0] == places[0][0]]
        assert len(set(places)) == fewest(racks, wanted)


def fewest(rooms, wanted):
    """The minimum number of them, by trying."""
    return next(n for n in range(1, len(rooms) + 1) if any(sum(some) >= wanted for some in combinations(rooms, n)))


@given(clusters, st.integers(1, 4), st.integers(1, 4), levels)
@FEW
def test_slices_of_neighbours_are_whole_and_in_as_few_blocks_as_possible(blocks, slices, size, level):
    cluster = SmallCluster(blocks)
    places = cluster.places(slices * size, level, size=size)
    room = {place: free // size for place, free in cluster.room(level).items()}
    assert (places is not None) == (sum(room.values()) >= slices)
    if places:
        for first in range(0, len(places), size):
            assert len({domain(place, level) for place in places[first : first + size]}) == 1
        blocks = Counter()
        for place, number in room.items():
            blocks[place[0]] += number
        assert len({place[0] for place in places}) == fewest(list(blocks.values()), slices)


@given(clusters, st.integers(1, 8), levels)
@FEW
def test_a_spread_is_as_even_as_possible(blocks, wanted, level):
    cluster = SmallCluster(blocks)
    room = cluster.room(level)
    ways = [way for way in product(*(range(min(r, wanted) + 1) for r in room.values())) if sum(way) == wanted]
    best = min((max(way) - min(way) for way in ways), default=None)
    required = cluster.places(wanted, level, spread=True)
    preferred = cluster.places(wanted, level, spread=True, required=False)
    assert (required is not None) == (best is not None and best <= 1)
    assert (preferred is not None) == (best is not None)
    for places in (required, preferred):
        if places:
            numbers = dict.fromkeys(room, 0) | Counter(domain(place, level) for place in places)
            assert max(numbers.values()) - min(numbers.values()) == best


@given(clusters, st.integers(1, 4), st.integers(1, 4), levels, st.booleans())
@FEW
def test_two_roles_are_in_one_domain_exactly_if_one_fits_both(blocks, workers, chiefs, level, required):
    cluster = SmallCluster(blocks)
    request = TopologyRequest(level, required)
    demands = tuple(
        Demand(role, count, {"gpu": gpu}, topology=request)
        for role, count, gpu in (("w", workers, 1), ("c", chiefs, 2))
    )
    cluster.ledger.add_pending(PendingGang("j", 2, "default", 0, 0, demands, shape_of("default", demands)))
    admissions = schedule(cluster.ledger.snapshot(), 0).admissions
    nodes = {}
    for node, free in cluster.nodes:
        nodes.setdefault(domain(node.place, level), []).append(free)
    able = any(
        sum(free // 2 for free in each) >= chiefs and sum(each) >= workers + 2 * chiefs for each in nodes.values()
    )
    if able or required:
        assert bool(admissions) == able
    if able:
        names = [name for role in admissions[0].placement.nodes.values() for name in role]
        assert len({domain(cluster.place[name], level) for name in names}) == 1
