"""Node affinity on many nodes: the same answer as node by node, and each label of a node is read once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.model.gang import Demand
from windlass.core.model.job import Match
from windlass.core.model.node import Node, Topology
from windlass.core.nodes.affinity import matches_terms
from windlass.core.nodes.node_filters import PASSES, constraint_losses, requirements_of
from windlass.core.nodes.node_table import build_table

KEYS, VALUES = ("zone", "gen", "nowhere"), ("a", "b", "7", "-3", "007", "9" * 30)
labels = st.dictionaries(st.sampled_from(KEYS[:2]), st.sampled_from(VALUES), max_size=2)
keys = st.sampled_from(KEYS)
matches = st.one_of(
    st.builds(
        Match,
        keys,
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(VALUES), min_size=1, max_size=3).map(tuple),
    ),
    st.builds(Match, keys, st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(Match, keys, st.sampled_from(["Gt", "Lt"]), st.sampled_from([("1",), ("-5",), ("7",)])),
)
term_lists = st.lists(st.lists(matches, max_size=3).map(tuple), min_size=1, max_size=3).map(tuple)


@given(st.lists(labels, max_size=6), term_lists)
def test_affinity_by_distinct_values_is_affinity_by_node(all_labels: list[dict[str, str]], terms: object) -> None:
    nodes = [Node(f"n{number}", {"gpu": 1}, each) for number, each in enumerate(all_labels)]
    assert isinstance(terms, tuple)
    demand = Demand("worker", 1, {"gpu": 1}, affinity=terms)
    table = build_table(nodes, Topology(), epoch=0)
    fits = constraint_losses(table, requirements_of(table, demand)).lost == PASSES
    assert fits.tolist() == [matches_terms(node.labels, terms) for node in table.nodes]


@dataclass
class CountedLabels(Mapping[str, str]):
    """Labels that count how often they are read."""

    of_node: dict[str, str]
    reads: int = 0

    def __getitem__(self, key: str) -> str:
        self.reads += 1
        return self.of_node[key]

    def __iter__(self) -> Iterator[str]:
        self.reads += 1
        return iter(self.of_node)

    def __len__(self) -> int:
        return len(self.of_node)


def test_many_conditions_read_each_label_of_a_node_once() -> None:
    all_labels = [CountedLabels({"zone": f"z{number % 3}"}) for number in range(20)]
    table = build_table(
        [Node(f"n{number}", {"gpu": 1}, each) for number, each in enumerate(all_labels)], Topology(), epoch=0
    )
    for gang in range(3):
        terms = tuple((Match("zone", "Exists"), Match(f"q{gang}-{each}", "In", ("x",))) for each in range(80))
        demand = Demand("worker", 1, {"gpu": 1}, affinity=terms)
        lost = constraint_losses(table, requirements_of(table, demand)).lost
        assert (lost != PASSES).all()
    assert max(each.reads for each in all_labels) <= 4, "the labels that there are, one that is, and those that are not"
