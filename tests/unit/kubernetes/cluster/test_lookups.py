"""Changes of the objects that names in jobs refer to."""

from dataclasses import replace

from cluster_objects import node

from windlass.backends.kubernetes.client import objects
from windlass.backends.kubernetes.client.object_cache import Change
from windlass.backends.kubernetes.cluster.cluster_monitor import ClusterMonitor, Settled
from windlass.backends.kubernetes.cluster.job_resolution import with_level_name
from windlass.backends.kubernetes.cluster.lookups import ChangedNames
from windlass.core.model.job import Job, Match, Role, TopologyRequest
from windlass.core.model.queue import Queue

ZONE = "topology.kubernetes.io/zone"


def namespace(labels: str = "{}"):
    made = f'{{"metadata":{{"name":"ml","uid":"u","resourceVersion":"1","labels":{labels}}}}}'
    return Change("modified", objects.namespace(made.encode()))


def monitor() -> ClusterMonitor:
    made = ClusterMonitor(0, lambda: 1, lambda: None, lambda _event: None)
    made.begin()
    return made


def test_a_level_that_is_requested_by_its_label_is_resolved_once_nodes_have_it() -> None:
    it = monitor()
    job = Job("a", (Role(),), topology=TopologyRequest(ZONE))
    assert with_level_name(job, it.lookups.of("ml").levels).topology == TopologyRequest(ZONE)
    it.state.see_node(node("n1", "{cpu: '8'}", labels=f"{{{ZONE}: a}}"))
    it.check()
    assert it.take(1) is Settled.LOOKUPS
    assert it.lookups.take_changed().concern("ml")
    assert with_level_name(job, it.lookups.of("ml").levels).topology == TopologyRequest("zone")


def test_no_queue_with_a_selector_is_open_to_a_namespace_that_is_not_listed_yet() -> None:
    it = monitor()
    others = Queue("others", namespace_selector=(Match("team", "NotIn", ("b",)),))
    unlabelled = Queue("unlabelled", namespace_selector=(Match("team", "DoesNotExist", ()),))
    queues = {"others": others, "unlabelled": unlabelled, "all": Queue("all", namespace_selector=())}

    def denials() -> list[str]:
        seen = replace(it.lookups.of("ml"), queues=queues).queues_of("ml")
        return [seen.allowed_queue(name)[1] for name in queues]

    first, second, third = denials()
    assert first == (
        "the queue others is closed to the namespace ml: it is open to namespaces with team not in (b), "
        "and the labels of ml are not known yet"
    )
    assert second.endswith("and the labels of ml are not known yet")
    assert not third
    it.lookups.take_changed()
    it.lookups.see_namespaces([namespace()])
    assert it.lookups.take_changed() == ChangedNames(namespaces=frozenset({"ml"}))
    assert denials() == ["", "", ""]


def test_only_changed_labels_of_a_namespace_concern_its_jobs() -> None:
    it = monitor()
    it.lookups.take_changed()
    it.lookups.see_namespaces([namespace('{"windlass.dev/queue":"research"}')])
    assert it.take(1) is Settled.LOOKUPS
    assert it.lookups.take_changed() == ChangedNames(namespaces=frozenset({"ml"}))
    it.lookups.see_namespaces([namespace('{"windlass.dev/queue":"research"}')])
    assert it.lookups.take_changed() == ChangedNames()
