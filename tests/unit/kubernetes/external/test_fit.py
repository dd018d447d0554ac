"""What a gang of others asks of its cluster, and who may take the place of one of its pods."""

import pytest
from cluster_objects import claim, volume
from guest_pods import pod

from windlass.backends.kubernetes.client import objects
from windlass.backends.kubernetes.cluster.job_resolution import Surroundings, asks
from windlass.backends.kubernetes.cluster.volumes import Stock, StorageClass
from windlass.backends.kubernetes.external.cluster_fit import fitted_job, stored, terms_in
from windlass.backends.kubernetes.external.external_gang import Allocation, ExternalGang
from windlass.backends.kubernetes.external.late_pods import vacancy
from windlass.core.model.job import Match
from windlass.jobs.kubernetes.external.gang_assembly import gather
from windlass.jobs.kubernetes.external.membership import Dialect, Membership
from windlass.jobs.kubernetes.manifest_reader import Refused

GROUP = {"scheduling.x-k8s.io/pod-group": "g"}
MEMBER = Membership("team", "g", Dialect.COSCHEDULING)
URGENT = objects.priority_class(b'{"metadata":{"name":"urgent","uid":"u","resourceVersion":"1"},"value":7}')
AROUND = Surroundings({"windlass.dev/queue": "research"}, {"urgent": URGENT})
MAKE = Match("windlass.dev/gpu", "In", ("nvidia.com/gpu",))


def job(*pods, group=None, around=AROUND):
    spec = {"spec": {"minMember": len(pods), **(group or {})}}
    [gang] = gather(MEMBER, pods, spec, asks, (), terms_in(around)).gangs
    return fitted_job(gang, around)


def test_the_queue_is_the_groups_or_a_pods_or_the_namespaces():
    assert job(pod("a", labels=GROUP)).queue == "research"
    assert job(pod("a", labels=GROUP), group={"queue": "vip"}).queue == "vip"
    assert job(pod("a", labels={**GROUP, "windlass.dev/queue": "default"})).queue == "default"


def test_the_priority_is_that_of_the_groups_class_or_the_highest_of_its_pods():
    pods = (pod("a", labels=GROUP, priority=3), pod("b", labels=GROUP, priority=5))
    assert job(*pods).priority == 5
    assert job(*pods, group={"priorityClassName": "urgent"}).priority == 7
    assert job(*pods, group={"priorityClassName": "no-such"}).priority == 5


def test_no_failure_of_it_is_forgiven():
    assert (job(pod("a")).restart.user_limit, job(pod("a")).restart.infrastructure_limit) == (0, 0)


def test_a_pod_goes_where_its_volumes_are_and_gpus_of_its_kind():
    stock = Stock({("team", "data"): claim("data", "{volumeName: v}")}, {"v": volume("v", {"zone": ["a"]})})
    mounts = pod("a", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
    assert terms_in(Surroundings(stock=stock))(mounts) == ((Match("zone", "In", ("a",)), MAKE),)
    with pytest.raises(Refused, match="there is no PersistentVolumeClaim data"):
        terms_in(Surroundings())(mounts)


def test_volumes_that_are_made_for_a_node_are_to_be_told_of_it():
    waits = {"w": StorageClass("w", waits=True)}
    stock = Stock({("team", "a-scratch"): claim("a-scratch", "{storageClassName: w}", "Pending")}, classes=waits)
    own = pod("a", volumes=[{"name": "scratch", "ephemeral": {}}])
    assert stored(own, Surroundings(stock=stock)).to_choose == ("a-scratch",)


def gang(**given):
    pods = [pod("a", labels=GROUP), pod("b", 2, labels=GROUP)]
    return ExternalGang(
        "g", "g", 1, MEMBER, job(*pods), pods, stay=Allocation(1, ["n1", "n2"], {0, 1}, whole=True, **given)
    )


def place(guest, now, comer, usable=lambda _node: True):
    return vacancy(guest, now, comer, terms_in(AROUND), usable)


def test_a_pod_that_asks_for_the_same_takes_the_place_of_one_that_has_ended():
    failed, runs = pod("a", node="n1", phase="Failed"), pod("b", 2, node="n2", phase="Running")
    assert place(gang(), [failed, runs], pod("c")) == 0
    assert place(gang(), [None, runs], pod("c")) == 0
    assert place(gang(), [failed, runs], pod("c", 2)) is None
    assert place(gang(), [pod("a", node="n1", phase="Running"), runs], pod("c")) is None


def test_a_place_that_is_no_good_is_left():
    failed, runs = pod("a", node="n1", phase="Failed"), pod("b", 2, node="n2", phase="Running")
    turned_away = pod("a", node="n1", phase="Failed", reason="OutOfcpu")
    assert place(gang(), [turned_away, runs], pod("c")) is None
    assert place(gang(), [failed, runs], pod("c"), usable=lambda node: node != "n1") is None
    assert place(gang(closed={0}), [failed, runs], pod("c")) is None
    assert place(gang(stopping=True), [failed, runs], pod("c")) is None
