"""The check of a placement against the nodes as they are when it is carried out."""

from dataclasses import replace

import pytest
from gangs import demand, node

from windlass.core.model.gang import Demand
from windlass.core.model.node import Node
from windlass.core.model.status import Placement
from windlass.core.nodes.binding_check import find_stale_node

ON_TWO = Placement({"worker": ("n1", "n1", "n2")})
NODES = {"n1": node("n1", 8), "n2": node("n2", 8)}


def message(demands, placement=ON_TWO, nodes=NODES, held=None):
    found = find_stale_node(demands, placement, nodes, held or {})
    return "" if found is None else found.message


def test_a_placement_holds_on_nodes_that_still_have_its_resources():
    assert message([demand(3, 4)]) == ""
    assert message([demand(3, 2)], held={"n1": {"gpu": 4}, "n2": {"gpu": 6}}) == ""


def test_a_node_that_other_gangs_have_filled_is_named_with_amounts():
    assert message([demand(3, 4)], held={"n1": {"gpu": 1}}) == "node n1 has 7 gpu left, and 8 are needed"
    less = {**NODES, "n2": node("n2", 3)}
    assert message([demand(3, 4)], nodes=less) == "node n2 has 3 gpu left, and 4 are needed"


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ({"n2": NODES["n2"]}, "node n1 is gone"),
        ({**NODES, "n1": node("n1", 8, ready=False)}, "node n1 is not ready"),
        ({**NODES, "n2": node("n2", 8, cordoned="Xid 79")}, "node n2 is cordoned (Xid 79)"),
    ],
)
def test_a_node_that_takes_no_new_gang_is_named(nodes, text):
    assert message([demand(3, 4)], nodes=nodes) == text


def test_a_node_for_a_whole_node_replica_must_be_empty():
    whole = replace(demand(2, 1), whole_node=True)
    on_each = Placement({"worker": ("n1", "n2")})
    assert message([whole], on_each) == ""
    assert message([whole], on_each, held={"n2": {"cpu": 1}}) == "node n2 is no longer empty"


def test_an_exclusive_resource_must_still_be_free():
    port = [Demand("worker", 2, {"gpu": 1, "hostport/80": 1})]
    on_each = Placement({"worker": ("n1", "n2")})
    assert message(port, on_each) == ""
    in_use = {**NODES, "n2": replace(NODES["n2"], exclusive_in_use=("hostport/80",))}
    assert message(port, on_each, in_use) == "hostport/80 is in use on node n2"
    assert message(port, on_each, held={"n1": {"hostport/80": 1}}) == "hostport/80 is in use on node n1"


def test_roles_that_share_a_node_are_added_up():
    placement = Placement({"master": ("n1",), "worker": ("n1",)})
    assert message([demand(1, 5, role="master"), demand(1, 4)], placement) == (
        "node n1 has 8 gpu left, and 9 are needed"
    )


def test_shared_gpus_are_left_to_the_ledger():
    shared = {"n1": Node("n1", {"gpu": 2, "cpu": 8}, sharing="milli")}
    part = [Demand("worker", 1, {"gpu-milli": 500, "cpu": 9})]
    assert message(part, Placement({"worker": ("n1",)}), shared) == "node n1 has 8m cpu left, and 9m are needed"
