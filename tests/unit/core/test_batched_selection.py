"""Nodes selected in many parts at once are those that `select_nodes` selects in each."""

import numpy as np
from gangs import demand, ledger_of, node
from hypothesis import given
from hypothesis import strategies as st

from depth import depth
from windlass.core.nodes.feasibility import eligibility
from windlass.core.placement.batched_selection import select_nodes_by_part
from windlass.core.placement.node_selection import select_nodes

PARTS = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=4), min_size=1, max_size=9
)


@given(PARTS, st.data())
@depth(200)
def test_the_selection_for_many_parts_equals_single_selections(cells, data):
    free = [cell for part in cells for cell in part]
    table = ledger_of([node(f"n{n}", 4, cpu=4) for n in range(len(free))]).snapshot().table
    amounts = np.zeros_like(table.capacity)
    amounts[:, table.column["gpu"]], amounts[:, table.column["cpu"]] = np.array(free).T
    counts = np.array([gpus for gpus, _ in free])
    stops = np.cumsum([len(part) for part in cells]).tolist()
    parts = []
    for start, stop in zip([0, *stops], stops, strict=False):
        if room := int(counts[start:stop].sum()):
            parts.append((start, stop, data.draw(st.integers(1, room))))
    if not parts:
        return
    able = eligibility(table, demand(1))
    apart = [place for a, b, n in parts for place in select_nodes(amounts[a:b], able, counts[a:b], n, None, a)]
    assert select_nodes_by_part(amounts, able, counts, np.array(parts)) == apart
