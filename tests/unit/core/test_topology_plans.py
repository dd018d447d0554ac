"""Plans keep to the domains that a gang asks for; the invariants find one that does not."""

from dataclasses import replace

import pytest
from gangs import demand, ledger_of, node, waiting

from windlass.core.cycle.scheduler import schedule
from windlass.core.invariants import plan_violations
from windlass.core.model.job import TopologyRequest
from windlass.core.model.plan import Admission
from windlass.core.model.status import Placement
from windlass.core.placement.elastic_resizing import place_largest

PACKED = TopologyRequest("rack")


def violations(request, **nodes):
    """Violations of a plan that starts j-1 on these nodes, by role; n1 and n2 share a rack, n3 and n4 do."""
    machines = [node(f"n{number}", place=(f"r{(number + 1) // 2}",)) for number in range(1, 5)]
    roles = [replace(demand(len(names), role=role), topology=request) for role, names in nodes.items()]
    snapshot = ledger_of(machines, waiting(1, *roles), levels=("rack",)).snapshot()
    admission = Admission("j-1", Placement(nodes))
    return plan_violations(snapshot, replace(schedule(snapshot, 0), admissions=(admission,), verdicts={}))


@pytest.mark.parametrize(
    ("request_", "worker", "message"),
    [
        (PACKED, ("n1", "n2"), []),
        (PACKED, ("n1", "n3"), ["with worker in several domains of rack", "in several domains of rack"]),
        (replace(PACKED, required=False), ("n1", "n3"), []),
        (replace(PACKED, slice=2), ("n1", "n2", "n3", "n4"), []),
        (replace(PACKED, slice=2), ("n1", "n3", "n2", "n4"), ["with worker in several domains of rack"]),
        (replace(PACKED, spread=True), ("n1", "n2", "n3"), []),
        (replace(PACKED, spread=True), ("n1", "n2", "n2", "n3"), ["with [1, 3] replicas of worker by rack"]),
    ],
)
def test_violations_of_one_role_are_reported(request_, worker, message):
    assert violations(request_, worker=worker) == [f"j-1 starts {each}" for each in message]


def test_roles_in_two_domains_are_reported():
    assert violations(PACKED, chief=("n1",), worker=("n3", "n4")) == ["j-1 starts in several domains of rack"]


def test_an_elastic_gang_starts_with_as_many_whole_slices_as_fit():
    asked = replace(demand(12), min_count=2, max_count=12, topology=replace(PACKED, slice=2))
    found = place_largest((asked,), lambda demands: demands[0].count if demands[0].count in (2, 4, 6, 8, 10) else None)
    assert found == 10
