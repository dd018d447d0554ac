"""Cluster state after each event."""

from cluster_objects import node, pod
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from windlass.backends.kubernetes.client import objects
from windlass.backends.kubernetes.cluster.cluster_view import ClusterView
from windlass.backends.kubernetes.cluster.object_faults import ObjectFaults
from windlass.backends.kubernetes.cluster.pods import Holding
from windlass.backends.kubernetes.cluster.topology_levels import Level

DGX = "{cpu: '100', nvidia.com/gpu: '8', pods: '110'}"
ON_N1 = "{nodeName: n1, containers: [{name: a, resources: {requests: {nvidia.com/gpu: '2'}}}]}"


def gpus(picture):
    return {each.name: each.capacity["gpu"] for each in picture.nodes()}


def test_foreign_pods_take_their_requests():
    picture = ClusterView(ObjectFaults(lambda: 0))
    assert picture.put_node(node("n1", DGX))
    assert picture.put_pod(pod("web", ON_N1), None)
    assert gpus(picture) == {"n1": 6}
    assert picture.drop_pod(pod("web", ON_N1))
    assert gpus(picture) == {"n1": 8}


def test_our_own_gangs_are_not_counted_as_occupancy():
    picture = ClusterView(ObjectFaults(lambda: 0))
    picture.put_node(node("n1", DGX))
    assert not picture.put_pod(pod("digits-0", ON_N1), Holding({}, "team", "ada"))
    assert gpus(picture) == {"n1": 8}
    assert picture.put_pod(pod("digits-0", ON_N1), None)  # its gang is gone, and it is still terminating
    assert gpus(picture) == {"n1": 6}


def test_a_pod_of_a_gang_counts_as_far_as_it_requests_more_than_is_held_for_it():
    def resized(cpu, kept=""):
        resources = f"{{requests: {{cpu: '{cpu}', nvidia.com/gpu: '2'}}}}"
        seen = pod("digits-0", f"{{nodeName: n1, containers: [{{name: a, resources: {resources}}}]}}")
        refused = objects.Condition("PodResizePending", "True", "Infeasible")
        status = objects.ContainerStatus("a", resources=objects.Resources({"cpu": kept, "nvidia.com/gpu": "2"}))
        status = structs.replace(seen.status, conditions=(refused,), container_statuses=(status,))
        return structs.replace(seen, status=status) if kept else seen

    picture = ClusterView(ObjectFaults(lambda: 0))
    picture.put_node(node("n1", DGX))
    held = Holding({"cpu": 10_000, "gpu": 2}, "team", "ada")
    for each, left in ((resized(10), 100), (resized(60), 50), (resized(200, "60"), 50), (resized(4), 100)):
        picture.put_pod(each, held)
        [found] = picture.nodes()
        assert (found.capacity["cpu"], found.capacity["gpu"]) == (left * 1000, 8)
        assert picture.excess == ({"team": {"ada": {"cpu": (100 - left) * 1000}}} if left < 100 else {})


def test_the_excess_of_a_pod_is_charged_until_its_gang_is_gone():
    large = pod("digits-0", "{nodeName: n1, containers: [{name: a, resources: {requests: {cpu: '3'}}}]}")
    for lose in (lambda picture: picture.drop_pod(large), lambda picture: picture.put_pod(large, None)):
        picture = ClusterView(ObjectFaults(lambda: 0))
        assert picture.put_pod(large, Holding({"cpu": 1000}, "team", "ada"))  # its node is not known yet
        assert picture.excess == {"team": {"ada": {"cpu": 2000}}}
        assert lose(picture)
        assert picture.excess == {}


def test_pending_and_ended_pods_change_nothing():
    picture = ClusterView(ObjectFaults(lambda: 0))
    picture.put_node(node("n1", DGX))
    assert not picture.put_pod(pod("web", "{containers: [{name: a}]}", "Pending"), None)
    assert not picture.put_pod(pod("job", ON_N1, "Succeeded"), None)
    assert picture.put_pod(pod("web", ON_N1), None)
    assert not picture.put_pod(pod("web", ON_N1, resourceVersion="2"), None)
    assert picture.put_pod(pod("web", ON_N1, "Failed"), None)


def test_a_pod_may_be_seen_before_its_node():
    picture = ClusterView(ObjectFaults(lambda: 0))
    assert not picture.put_pod(pod("web", ON_N1), None)
    picture.put_node(node("n1", DGX))
    assert gpus(picture) == {"n1": 6}
    assert picture.drop_node("n1")
    assert picture.nodes() == ()


def test_only_changed_nodes_are_built_again():
    picture = ClusterView(ObjectFaults(lambda: 0))
    picture.put_node(node("n1", DGX))
    picture.put_node(node("n2", DGX))
    before = {each.name: each for each in picture.nodes()}
    picture.put_pod(pod("web", ON_N1), None)
    after = {each.name: each for each in picture.nodes()}
    assert after["n1"] is not before["n1"]
    assert after["n2"] is before["n2"]


def test_a_new_label_adds_a_level():
    picture = ClusterView(ObjectFaults(lambda: 0))
    picture.put_node(node("n1", DGX))
    assert picture.topology.levels == ("host",)
    picture.put_node(node("n2", DGX, "{topology.windlass.dev/rack: r1}"))
    assert picture.topology.levels == ("rack", "host")
    assert [each.place for each in picture.nodes()] == [("", "n1"), ("r1", "n2")]
    assert picture.drop_node("n2")
    assert picture.topology.levels == ("host",)
    assert [each.place for each in picture.nodes()] == [("n1",)]


def test_declared_levels_override_those_of_labels():
    picture = ClusterView(ObjectFaults(lambda: 0))
    picture.put_node(node("n1", DGX, "{topology.windlass.dev/rack: r1, hall: h1}"))
    assert picture.list_levels([Level("hall", ("hall",))])
    assert not picture.list_levels([Level("hall", ("hall",))])
    assert [each.place for each in picture.nodes()] == [("h1",)]


EVENT = st.one_of(
    st.tuples(
        st.just("node"), st.sampled_from(["n1", "n2"]), st.sampled_from(["{}", "{topology.windlass.dev/rack: r}"])
    ),
    st.tuples(st.just("lost"), st.sampled_from(["n1", "n2"])),
    st.tuples(st.just("pod"), st.sampled_from("abc"), st.sampled_from(["n1", "n2"]), st.integers(1, 9), st.booleans()),
    st.tuples(st.just("gone"), st.sampled_from("abc")),
    st.tuples(st.just("look")),
)


@given(st.lists(EVENT, max_size=25))
def test_events_lead_to_the_same_state_as_a_new_list(events):
    picture, nodes, pods = ClusterView(ObjectFaults(lambda: 0)), {}, {}
    for what, *about in events:
        match what, about:
            case "node", (name, labels):
                nodes[name] = node(name, DGX, labels)
                picture.put_node(nodes[name])
            case "lost", (name,):
                nodes.pop(name, None)
                picture.drop_node(name)
            case "pod", (name, on, wanted, ours):
                resources = f"{{requests: {{nvidia.com/gpu: '{wanted}'}}}}"
                pods[name] = pod(name, f"{{nodeName: {on}, containers: [{{name: a, resources: {resources}}}]}}"), ours
                picture.put_pod(pods[name][0], Holding({}, "team", "ada") if ours else None)
            case "gone", (name,):
                pods.pop(name, None)
                picture.drop_pod(pod(name, "{containers: []}"))
            case "look", _:
                picture.nodes()
    fresh = ClusterView(ObjectFaults(lambda: 0))
    for seen in nodes.values():
        fresh.put_node(seen)
    for seen, ours in pods.values():
        fresh.put_pod(seen, Holding({}, "team", "ada") if ours else None)
    assert picture.topology == fresh.topology
    assert {each.name: each for each in picture.nodes()} == {each.name: each for each in fresh.nodes()}
