from gangs import node

from windlass.core.model.node import Node, Topology
from windlass.core.nodes.node_table import build_table, natural_sort_key


def test_numbers_in_names_sort_by_value():
    assert sorted(["n10", "n2", "n1", "m3"], key=natural_sort_key) == ["m3", "n1", "n2", "n10"]


def test_a_name_of_five_thousand_digits_is_sorted_too():
    assert natural_sort_key("n" + "1" * 5000) < natural_sort_key("n" + "2" * 5000)


def test_rows_are_sorted_by_place_then_name():
    table = build_table(
        [node("n1", place=("b2", "r1")), node("n10", place=("b1", "r2")), node("n2", place=("b1", "r2"))],
        Topology(("block", "rack")),
        epoch=0,
    )
    assert [row.name for row in table.nodes] == ["n2", "n10", "n1"]
    assert table.row["n1"] == 2


def test_a_domain_is_identified_by_its_whole_place():
    table = build_table(
        [node("a", place=("b1", "r1")), node("b", place=("b1", "r2")), node("c", place=("b2", "r1"))],
        Topology(("block", "rack")),
        epoch=0,
    )
    assert table.domains.tolist() == [[0, 0], [0, 1], [1, 2]]


def test_a_node_without_a_place_is_in_a_domain_of_its_own_kind():
    table = build_table([node("a"), node("b", place=("b1",))], Topology(("block",)), epoch=0)
    assert table.domains.tolist() == [[0], [1]]


def test_the_axis_names_what_any_node_has_devices_first():
    table = build_table([node("a", 8, cpu=4000), node("b", 0, memory=5)], Topology(), epoch=0)
    assert table.resource_names == ("gpu", "cpu", "memory")
    assert table.capacity.tolist() == [[8, 4000, 0], [0, 0, 5]]


def test_supplies_that_every_node_has_come_last():
    whole = Node("a", {"pods": 110, "ephemeral-storage": 9, "rdma/hca": 1, "hostport/80": 1, "cpu": 1, "gpu": 1})
    resource_names = build_table([whole], Topology(), epoch=0).resource_names
    assert resource_names == ("gpu", "rdma/hca", "cpu", "memory", "ephemeral-storage", "pods")


def test_a_cluster_without_nodes_is_a_table_without_rows():
    table = build_table([], Topology(("rack",)), epoch=0)
    assert table.capacity.shape == (0, 3)
    assert table.domains.shape == (0, 1)
