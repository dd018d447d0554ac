"""External pods by their groups, and the groups to be processed again."""

from external_pods import pod

from windlass.backends.kubernetes.external.dialects import RESOURCES, job_id
from windlass.backends.kubernetes.external.groups import Groups
from windlass.jobs.kubernetes.external.membership import GangKey
from windlass.jobs.kubernetes.gang_dialects import Dialect

LABEL = "scheduling.x-k8s.io/pod-group"
MEMBER = GangKey("team", "g", Dialect.COSCHEDULING)


def group_object(name="g", uid="u1"):
    return {"metadata": {"namespace": "team", "name": name, "uid": uid}, "spec": {"minMember": 2}}


def changed(groups):
    return [group.member for group in groups.changed()]


def test_a_group_is_marked_when_one_of_its_pods_or_its_object_changes():
    groups = Groups()
    groups.see_pod(pod("a", labels={LABEL: "g"}), there=True)
    assert changed(groups) == [MEMBER]
    assert changed(groups) == []
    groups.see_object(RESOURCES[Dialect.COSCHEDULING], group_object(), there=True)
    groups.see_object(RESOURCES[Dialect.COSCHEDULING], group_object("another"), there=True)
    assert changed(groups) == [MEMBER]
    assert groups.object_of(MEMBER) == group_object()


def test_pods_of_other_schedulers_and_of_our_kinds_are_in_no_group():
    groups = Groups()
    groups.see_pod(pod("a", schedulerName="another"), there=True)
    groups.see_pod(pod("b", labels={"windlass.dev/generation": "1"}), there=True)
    assert list(groups) == []


def test_a_pod_that_is_deleted_or_relabelled_leaves_its_group():
    groups = Groups()
    groups.see_pod(pod("a", labels={LABEL: "g"}), there=True)
    groups.see_pod(pod("a", labels={LABEL: "h"}), there=True)
    assert [group.member.name for group in groups] == ["h"]
    groups.see_pod(pod("a", labels={LABEL: "h"}), there=False)
    assert list(groups) == []


def test_a_job_does_not_concern_pods_of_an_earlier_one_of_its_name():
    groups, earlier = Groups(), GangKey("team", "j", Dialect.JOB, "u1")
    groups.see_object(RESOURCES[Dialect.JOB], group_object("j", "u2"), there=True)
    assert groups.object_of(earlier) is None
    assert groups.object_of(earlier._replace(part="u2")) is not None


def test_a_pod_with_a_gate_is_not_ready():
    groups = Groups()
    groups.see_pod(pod("a", labels={LABEL: "g"}, schedulingGates=[{"name": "quota"}]), there=True)
    groups.see_pod(pod("b", labels={LABEL: "g"}), there=True)
    [group] = groups.changed()
    assert [each.metadata.name for each in group.ready] == ["b"]


def test_gangs_are_named_after_their_group_object():
    assert job_id(MEMBER, "g") == "team/podgroup/g"
    assert job_id(MEMBER, "g/a-7") == "team/podgroup/g/a-7"
    assert job_id(MEMBER._replace(dialect=Dialect.ALONE), "a") == "team/pod/a"
    assert job_id(MEMBER._replace(dialect=Dialect.JOB_SET), "s") == "team/jobset/s"


def test_the_state_of_an_incomplete_group_is_read_again_only_after_a_change():
    groups = Groups()
    groups.see_pod(pod("a", labels={LABEL: "g"}), there=True)
    [group] = groups.changed()
    group.missing, group.loose = "1 of 2 pods exist", dict(group.pods)
    first = group.state
    assert group.state is first
    groups.see_pod(pod("a", labels={LABEL: "g", "windlass.dev/queue": "research"}), there=True)
    group.loose = dict(group.pods)
    assert (first.job.queue, group.state.job.queue) == ("default", "research")
    group.missing = "1 of 3 pods exist"
    assert group.state.status.message == "1 of 3 pods exist"
