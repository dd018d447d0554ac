"""Demands of an external gang in its cluster, and late pods assigned to slots of a gang."""

from dataclasses import replace

import pytest
from cluster_objects import claim, volume
from external_pods import pod
from msgspec import structs

from windlass.backends.kubernetes.client import objects
from windlass.backends.kubernetes.cluster.job_resolution import NamespaceLookups, requests_of
from windlass.backends.kubernetes.cluster.volumes import StorageClass, StorageObjects
from windlass.backends.kubernetes.external.cluster_fit import fitted_job, node_terms_in, queue_denial, volumes_of
from windlass.backends.kubernetes.external.external_gang import Allocation, ExternalGang
from windlass.backends.kubernetes.external.late_pods import find_slot
from windlass.core.model.job import Match
from windlass.core.model.queue import Queue
from windlass.jobs.kubernetes.external.gang_assembly import assemble_gangs
from windlass.jobs.kubernetes.external.membership import GangKey
from windlass.jobs.kubernetes.gang_dialects import Dialect
from windlass.jobs.kubernetes.manifest_reader import ManifestError

GROUP = {"scheduling.x-k8s.io/pod-group": "g"}
MEMBER = GangKey("team", "g", Dialect.COSCHEDULING)
URGENT = objects.priority_class(b'{"metadata":{"name":"urgent","uid":"u","resourceVersion":"1"},"value":7}')
AROUND = NamespaceLookups({"windlass.dev/queue": "research"}, {"urgent": URGENT})
MAKE = Match("windlass.dev/gpu", "In", ("nvidia.com/gpu",))


def gang_of(*pods, group=None, around=AROUND):
    spec = {"spec": {"minMember": len(pods), **(group or {})}}
    [gang] = assemble_gangs(MEMBER, pods, spec, requests_of, (), node_terms_in(around)).gangs
    return gang


def job(*pods, group=None, around=AROUND):
    return fitted_job(gang_of(*pods, group=group, around=around), around)


def denial(*pods, group=None):
    return queue_denial(gang_of(*pods, group=group), AROUND)


def test_the_queue_comes_from_the_group_a_pod_or_the_namespace():
    assert job(pod("a", labels=GROUP)).queue == "research"
    assert job(pod("a", labels=GROUP), group={"queue": "default"}).queue == "default"
    assert job(pod("a", labels={**GROUP, "windlass.dev/queue": "default"})).queue == "default"


def test_a_queue_that_needs_the_verb_use_counts_only_where_every_pod_names_it():
    named, unnamed = (pod("a", labels={**GROUP, "windlass.dev/queue": "vip"}), pod("b", labels=GROUP))
    assert (job(named, group={"queue": "vip"}).queue, denial(named, group={"queue": "vip"})) == ("vip", "")
    for pods, group in (([unnamed], {"queue": "vip"}), ([named, unnamed], None)):
        assert job(*pods, group=group).queue == "research"
        assert "not every pod of the gang names the queue vip by the label" in denial(*pods, group=group)
    assert denial(unnamed, group={"queue": "research"}) == denial(unnamed) == ""


def test_the_priority_is_that_of_the_groups_class_or_the_lowest_of_its_pods():
    pods = (pod("a", labels=GROUP, priority=8), pod("b", labels=GROUP, priority=9))
    assert job(*pods).priority == 8
    assert job(*pods, group={"priorityClassName": "urgent"}).priority == 7
    assert job(*pods, group={"priorityClassName": "no-such"}).priority == 8
    system = replace(AROUND, priorities={"system-node-critical": URGENT})
    assert job(*pods, group={"priorityClassName": "system-node-critical"}, around=system).priority == 8


def test_the_queue_bounds_pods_with_a_class_of_kubernetes_itself():
    lone, critical = pod("a", labels=GROUP, priority=1_000_000_000), pod("a", labels=GROUP, priority=2_000_000_000)
    bounded = replace(AROUND, queues={"research": Queue("research", max_priority=6)})
    assert (job(lone).priority, job(lone, around=bounded).priority) == (1_000_000_000, 1_000_000_000)
    assert (job(critical).priority, job(critical, around=bounded).priority) == (0, 6)
    assert job(critical, group={"priorityClassName": "urgent"}, around=bounded).priority == 6
    own = GangKey("kube-system", "g", Dialect.COSCHEDULING)
    system = structs.replace(critical, metadata=structs.replace(critical.metadata, namespace="kube-system"))
    [gang] = assemble_gangs(own, [system], {"spec": {"minMember": 1}}, requests_of).gangs
    assert fitted_job(gang, AROUND).priority == 2_000_000_000


def test_the_queue_bounds_a_groups_class_that_its_pods_do_not_have():
    pods, urgent = (
        (pod("a", labels=GROUP, priority=3), pod("b", labels=GROUP, priority=5)),
        {"priorityClassName": "urgent"},
    )
    assert job(*pods, group=urgent).priority == 3
    bounded = replace(AROUND, queues={"research": Queue("research", max_priority=6)})
    assert job(*pods, group=urgent, around=bounded).priority == 6


def test_an_external_gang_is_never_restarted():
    assert (job(pod("a")).restart.user_limit, job(pod("a")).restart.infrastructure_limit) == (0, 0)


def test_a_pod_goes_to_its_volumes_and_to_gpus_of_its_kind():
    stock = StorageObjects({("team", "data"): claim("data", "{volumeName: v}")}, {"v": volume("v", {"zone": ["a"]})})
    mounts = pod("a", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
    assert node_terms_in(NamespaceLookups(stock=stock))(mounts) == ((Match("zone", "In", ("a",)), MAKE),)
    with pytest.raises(ManifestError, match="there is no PersistentVolumeClaim data"):
        node_terms_in(NamespaceLookups())(mounts)


def test_a_pod_in_a_namespace_that_is_not_managed_is_placed_nowhere():
    with pytest.raises(ManifestError, match="the namespace team is not managed"):
        node_terms_in(NamespaceLookups(unmanaged="the namespace team is not managed"))(pod("a"))


def test_claims_that_wait_for_a_node_are_to_be_annotated():
    waits = {"w": StorageClass("w", waits=True)}
    stock = StorageObjects(
        {("team", "a-scratch"): claim("a-scratch", "{storageClassName: w}", "Pending")}, classes=waits
    )
    own = pod("a", volumes=[{"name": "scratch", "ephemeral": {}}])
    assert volumes_of(own, NamespaceLookups(stock=stock)).to_choose == ("a-scratch",)


def gang(**given):
    pods = [pod("a", labels=GROUP), pod("b", 2, labels=GROUP)]
    allocation = Allocation(1, ["n1", "n2"], {0, 1}, whole=True, **given)
    return ExternalGang("g", "g", 1, MEMBER, job(*pods), pods, allocation=allocation)


def find_place(running, now, late, fits=lambda _node: True):
    for gathered, present in zip(running.pods, now, strict=True):
        running.see(gathered.metadata.uid, present)
    return find_slot(running, late, node_terms_in(AROUND), fits)


def test_a_late_pod_takes_the_place_of_an_ended_member_with_the_same_requests():
    failed, runs = pod("a", node="n1", phase="Failed"), pod("b", 2, node="n2", phase="Running")
    assert find_place(gang(), [failed, runs], pod("c")) == 0
    assert find_place(gang(), [None, runs], pod("c")) == 0
    assert find_place(gang(), [failed, runs], pod("c", 2)) is None
    assert find_place(gang(), [pod("a", node="n1", phase="Running"), runs], pod("c")) is None


def test_a_late_pod_takes_no_place_that_is_closed_or_of_a_gang_that_stops():
    failed, runs = pod("a", node="n1", phase="Failed"), pod("b", 2, node="n2", phase="Running")
    turned_away = pod("a", node="n1", phase="Failed", reason="OutOfcpu")
    assert find_place(gang(), [turned_away, runs], pod("c")) is None
    assert find_place(gang(), [failed, runs], pod("c"), fits=lambda node: node != "n1") is None
    assert find_place(gang(closed={0}), [failed, runs], pod("c")) is None
    stopping = gang()
    stopping.allocation.tracker.stopping = True
    assert find_place(stopping, [failed, runs], pod("c")) is None
