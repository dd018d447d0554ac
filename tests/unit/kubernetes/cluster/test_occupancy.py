"""Usage of nodes by foreign pods, pod by pod."""

from hypothesis import given
from hypothesis import strategies as st

from windlass.backends.kubernetes.cluster.occupancy import Occupancy


def test_usage_of_pods_adds_up_by_node():
    others = Occupancy()
    assert others.put("a", "n1", {"cpu": 500, "pods": 1}) == ("n1",)
    assert others.put("b", "n1", {"cpu": 250, "nvidia.com/gpu": 2, "pods": 1}) == ("n1",)
    assert others.taken("n1") == {"cpu": 750, "nvidia.com/gpu": 2, "pods": 2}
    assert others.taken("n2") == {}


def test_a_repeated_update_changes_nothing():
    others = Occupancy()
    others.put("a", "n1", {"cpu": 500})
    assert others.put("a", "n1", {"cpu": 500}) == ()
    assert others.put("a", "n1", {"cpu": 600}) == ("n1",)
    assert others.taken("n1") == {"cpu": 600}


def test_a_deleted_pod_releases_its_usage():
    others = Occupancy()
    others.put("a", "n1", {"cpu": 500})
    assert others.drop("a") == ("n1",)
    assert others.drop("a") == ()
    assert others.taken("n1") == {}


def test_a_recreated_pod_on_another_node_frees_the_first_node():
    others = Occupancy()
    others.put("a", "n1", {"cpu": 500})
    assert others.put("a", "n2", {"cpu": 500}) == ("n1", "n2")
    assert others.taken("n1") == {}


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "pods"]), st.integers(0, 5))
EVENTS = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["n1", "n2", ""]), AMOUNTS), max_size=30)


@given(EVENTS)
def test_the_sum_is_that_of_the_existing_pods_after_any_updates(events):
    others, there = Occupancy(), {}
    for uid, node, amounts in events:
        if node:
            others.put(uid, node, amounts)
            there[uid] = node, amounts
        else:
            others.drop(uid)
            there.pop(uid, None)
    for node in ("n1", "n2"):
        for name in ("cpu", "memory", "pods"):
            expected = sum(amounts.get(name, 0) for at, amounts in there.values() if at == node)
            assert others.taken(node).get(name, 0) == expected
