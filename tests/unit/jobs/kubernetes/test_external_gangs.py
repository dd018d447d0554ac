"""External gangs: membership of pods, requests of the gang, status of its PodGroup."""

from types import SimpleNamespace

import pytest
import yaml

from windlass.core.model.job import TopologyRequest
from windlass.jobs.kubernetes.external.gang_assembly import assemble_gangs
from windlass.jobs.kubernetes.external.group_status import counts_of, group_patch
from windlass.jobs.kubernetes.external.membership import GangKey, membership, object_of
from windlass.jobs.kubernetes.gang_dialects import Dialect

NOW, LATER = "2026-11-21T20:00:00Z", "2026-11-21T20:01:00Z"
GANG = {"windlass.dev/gang": "digits"}


def pod(name, *, labels=(), annotations=(), owner=None, group=None, node="", phase="Pending", leaving=False, **spec):
    owners = [SimpleNamespace(kind=owner[0], name=owner[1], uid=f"uid-{owner[1]}", controller=True)] if owner else []
    about = SimpleNamespace(
        name=name,
        namespace="team",
        uid=f"uid-{name}",
        labels=dict(labels),
        annotations=dict(annotations),
        owner_references=owners,
        deletion_timestamp=NOW if leaving else None,
    )
    rest = {
        "node_selector": {},
        "affinity": None,
        "tolerations": (),
        "priority": 0,
        "termination_grace_period_seconds": None,
        "scheduling_group": SimpleNamespace(pod_group_name=group) if group else None,
        "gpus": 1,
        **spec,
    }
    return SimpleNamespace(
        metadata=about, spec=SimpleNamespace(node_name=node, **rest), status=SimpleNamespace(phase=phase)
    )


def takes(one):
    return {"gpu": one.spec.gpus}


def gathered(pods, group=None, known=()):
    return assemble_gangs(
        membership(pods[0]), pods, yaml.safe_load(group) if isinstance(group, str) else group, takes, known
    )


def names(found):
    return [[one.metadata.name for one in gang.pods] for gang in found.gangs]


@pytest.mark.parametrize(
    ("given", "dialect", "kind"),
    [
        ({"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, Dialect.COSCHEDULING, "scheduling.x-k8s.io/v1alpha1"),
        (
            {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}},
            Dialect.OLD_COSCHEDULING,
            "scheduling.sigs.k8s.io/v1alpha1",
        ),
        ({"annotations": {"scheduling.k8s.io/group-name": "g"}}, Dialect.VOLCANO, "scheduling.volcano.sh/v1beta1"),
        ({"annotations": {"scheduling.volcano.sh/group-name": "g"}}, Dialect.VOLCANO, "scheduling.volcano.sh/v1beta1"),
        ({"group": "g"}, Dialect.NATIVE, "scheduling.k8s.io/v1alpha2"),
    ],
)
def test_a_pod_group_is_recognised_in_every_dialect(given, dialect, kind):
    found = membership(pod("a", **given))
    assert found == GangKey("team", "g", dialect)
    assert object_of(found) == (kind, "PodGroup")


def test_our_label_makes_a_gang_of_a_job_or_a_jobset():
    assert membership(pod("a", labels=GANG, owner=("Job", "run-1"))) == ("team", "run-1", Dialect.JOB, "uid-run-1")
    of_set = {**GANG, "jobset.sigs.k8s.io/jobset-name": "set", "jobset.sigs.k8s.io/restart-attempt": "2"}
    assert membership(pod("a", labels=of_set, owner=("Job", "set-a-0"))) == ("team", "set", Dialect.JOB_SET, "2")
    sized = pod("a", labels=GANG, annotations={"windlass.dev/gang-size": "4"}, owner=("Job", "run-1"))
    assert membership(sized) == ("team", "digits", Dialect.GANG_SIZE, "")


def test_a_pod_without_labels_is_alone_and_a_pod_of_our_kinds_is_not_external():
    assert membership(pod("a")) == ("team", "a", Dialect.ALONE, "")
    assert membership(pod("a", labels={"windlass.dev/generation": "3", **GANG})) is None
    (gang,) = gathered([pod("a", priority=7)]).gangs
    assert (gang.name, gang.job.priority, gang.job.members) == ("a", 7, 1)


def of_group(count, **fields):
    return [pod(f"w-{number}", labels={"scheduling.x-k8s.io/pod-group": "g"}, **fields) for number in range(count)]


def test_a_gang_waits_until_as_many_pods_exist_as_must_start_together():
    group = "spec: {minMember: 12}"
    found = gathered(of_group(3), group)
    assert (found.gangs, found.minimum, found.missing) == ((), 12, "3 of 12 pods exist")
    whole = gathered(list(reversed(of_group(12))), group)
    assert names(whole) == [[f"w-{number}" for number in range(12)]]  # w-10 after w-9
    assert whole.missing == ""
    job = whole.gangs[0].job
    assert (job.name, job.members, dict(job.roles[0].resources)) == ("g", 12, {"gpu": 1})


def test_pods_beyond_the_minimum_and_those_that_come_later_are_alone():
    assert names(gathered(of_group(4), "spec: {minMember: 3}")) == [["w-0", "w-1", "w-2"], ["w-3"]]
    running = of_group(3, node="n1", phase="Running")
    # One has failed, and its owner has made another.
    running[1].status.phase = "Failed"
    late = [*running, pod("w-1b", labels={"scheduling.x-k8s.io/pod-group": "g"})]
    found = gathered(late, "spec: {minMember: 3}")
    assert names(found) == [["w-1b"]]
    assert found.gangs[0].name == "g/w-1b"


def test_a_partially_bound_gang_is_completed_or_waits():
    pods = of_group(4)
    pods[0].spec.node_name = "n1"
    assert names(gathered(pods, "spec: {minMember: 4}")) == [["w-1", "w-2", "w-3"]]
    assert gathered(pods[:2], "spec: {minMember: 4}").missing == "2 of 4 pods exist"


def test_pods_in_a_gang_of_the_core_are_not_gathered_again():
    pods = of_group(3)
    known = {one.metadata.uid for one in pods[:2]}
    assert names(gathered(pods, "spec: {minMember: 2}", known)) == [["w-2"]]


def test_a_leaving_pod_does_not_count_and_a_succeeded_one_does():
    pods = of_group(3)
    pods[0].metadata.deletion_timestamp = NOW
    assert gathered(pods, "spec: {minMember: 3}").missing == "2 of 3 pods exist"
    pods[0].metadata.deletion_timestamp = None
    pods[0].status.phase = "Succeeded"
    assert names(gathered(pods, "spec: {minMember: 3}")) == [["w-1", "w-2"]]


def test_equal_pods_are_one_role():
    pods = of_group(4)
    pods[0].spec.gpus = 0
    pods[3].spec.node_selector = {"zone": "a"}
    (gang,) = gathered(pods, "spec: {minMember: 4, queue: research, priorityClassName: high}").gangs
    assert [(role.name, role.replicas) for role in gang.job.roles] == [("pods-0", 1), ("pods-1", 2), ("pods-2", 1)]
    assert (gang.job.queue, gang.priority_class) == ("research", "high")


def test_a_native_group_has_its_minimum_and_domain_and_the_priority_of_its_pods():
    """Nothing checks the number in a PodGroup, unless a feature gate of the API server is on."""
    group = """
    spec:
      schedulingPolicy: {gang: {minCount: 2}}
      schedulingConstraints: {topology: [{key: example.com/rack}]}
      priority: 9
    """
    (gang,) = gathered([pod("a", group="g", priority=3), pod("b", group="g", priority=4)], group).gangs
    assert (gang.job.priority, gang.job.topology) == (3, TopologyRequest("example.com/rack"))
    basic = gathered([pod("a", group="g"), pod("b", group="g")], "spec: {schedulingPolicy: {basic: {}}}")
    assert names(basic) == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        ("{}", 1),
        ("{parallelism: 4}", 4),
        ("{parallelism: 4, completions: 2}", 2),
        ("{parallelism: 4, completions: 100, completionMode: Indexed}", 4),
    ],
)
def test_a_batch_job_starts_with_all_pods_that_run_at_a_time(spec, needed):
    pods = [
        pod(f"run-{n}-xyz", labels={**GANG, "batch.kubernetes.io/job-completion-index": str(n)}, owner=("Job", "run"))
        for n in reversed(range(needed))
    ]
    found = gathered(pods, f"spec: {spec}")
    assert (found.minimum, names(found)) == (needed, [[f"run-{n}-xyz" for n in range(needed)]])


SET = """
spec:
  replicatedJobs:
  - {name: ps, template: {spec: {parallelism: 1}}}
  - {name: worker, replicas: 2, template: {spec: {parallelism: 2, completions: 2}}}
"""


def of_set(job, count):
    labels = {**GANG, "jobset.sigs.k8s.io/jobset-name": "set", "jobset.sigs.k8s.io/replicatedjob-name": job}
    return [pod(f"set-{job}-{n}", labels=labels, owner=("Job", f"set-{job}")) for n in range(count)]


def test_a_jobset_is_all_pods_of_all_its_jobs():
    assert gathered(of_set("worker", 4), SET).missing == "4 of 5 pods exist"
    (gang,) = gathered([*of_set("worker", 4), *of_set("ps", 1)], SET).gangs
    assert [(role.name, role.replicas) for role in gang.job.roles] == [("ps", 1), ("worker", 4)]


def test_jobs_of_a_jobset_that_wait_for_each_other_do_not_start_together():
    ordered = yaml.safe_load(SET)
    ordered["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "ps", "status": "Ready"}]
    assert names(gathered(of_set("ps", 1), ordered)) == [["set-ps-0"]]
    driver = of_set("ps", 1)
    driver[0].spec.node_name = "n1"
    assert gathered([*driver, *of_set("worker", 3)], ordered).missing == "4 of 5 pods exist"


@pytest.mark.parametrize(
    ("pods", "group", "message"),
    [
        (of_group(1), None, "PodGroup team/g does not exist"),
        (
            of_group(1),
            "spec: {minMember: many}",
            "spec.minMember: expects a whole number from 0 to 1000000, not 'many'",
        ),
        (
            [pod("a", labels=GANG)],
            None,
            "the number of the gang's pods is unknown; give each the annotation windlass.dev",
        ),
        (
            [pod("a", labels=GANG, annotations={"windlass.dev/gang-size": "x"})],
            None,
            "the annotation windlass.dev/gang-si",
        ),
        (
            of_group(1, affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}),
            "spec: {}",
            "w-0.spec.affinity.nodeAffinity",
        ),
    ],
)
def test_the_reason_against_a_placement_is_a_sentence(pods, group, message):
    found = gathered(pods, group)
    assert found.gangs == ()
    assert found.missing.startswith(message)


def patched(dialect, pods, waits="", group=None, now=NOW):
    group = {"metadata": {}, **(group or {})}
    return group_patch(dialect, group, counts_of(pods), 2, waits, now)


@pytest.mark.parametrize(
    ("phases", "phase"),
    [
        ([], "Pending"),
        (["Pending", "Pending"], "Scheduling"),
        (["Running", "Pending"], "Scheduling"),
        (["Running", "Running"], "Running"),
        (["Running", "Failed"], "Failed"),
        (["Succeeded", "Succeeded"], "Finished"),
    ],
)
def test_coscheduling_has_phases_and_a_reason_beside_them(phases, phase):
    patch = patched(Dialect.COSCHEDULING, [pod("a", phase=each) for each in phases], "no room")
    assert patch.status["phase"] == phase
    assert patch.annotations == {"windlass.dev/pending": "no room"}


def test_a_status_that_is_up_to_date_is_not_written_again():
    pods = [pod("a", node="n", phase="Running"), pod("b", node="n", phase="Running")]
    for dialect in (Dialect.COSCHEDULING, Dialect.VOLCANO, Dialect.NATIVE):
        first = patched(dialect, pods)
        assert first.status
        again = patched(dialect, pods, group={"status": dict(first.status)}, now=LATER)
        assert (again.status, again.annotations) == ({}, {})
    annotated = {"metadata": {"annotations": {"windlass.dev/pending": "no room"}}}
    assert patched(Dialect.COSCHEDULING, pods, group=annotated).annotations == {"windlass.dev/pending": None}


def test_malformed_conditions_are_ignored():
    odd = {"status": {"conditions": [7, {"type": {}}, {"type": "Other", "status": "True"}]}}
    conditions = patched(Dialect.NATIVE, [pod("a")], "no room", odd).status["conditions"]
    assert [each["type"] for each in conditions] == ["Other", "PodGroupScheduled"]


def test_volcano_has_the_reason_in_a_condition():
    patch = patched(Dialect.VOLCANO, [pod("a"), pod("b")], "no room")
    (condition,) = patch.status["conditions"]
    assert (patch.status["phase"], condition["type"], condition["reason"]) == (
        "Inqueue",
        "Unschedulable",
        "NotEnoughResources",
    )
    assert patched(Dialect.VOLCANO, [], "0 of 2 pods exist").status["conditions"][0]["reason"] == "NotEnoughTasks"


def test_the_native_condition_keeps_the_time_of_its_last_transition():
    first = patched(Dialect.NATIVE, [pod("a")], "no room").status
    assert first["conditions"] == [
        {
            "type": "PodGroupScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "no room",
            "lastTransitionTime": NOW,
        }
    ]
    other = patched(Dialect.NATIVE, [pod("a")], "less room", {"status": first}, LATER).status
    assert other["conditions"][0]["lastTransitionTime"] == NOW
    placed = [pod("a", node="n"), pod("b", node="n")]
    (condition,) = patched(Dialect.NATIVE, placed, "", {"status": other}, LATER).status["conditions"]
    assert (condition["status"], condition["reason"], condition["lastTransitionTime"]) == ("True", "Scheduled", LATER)
