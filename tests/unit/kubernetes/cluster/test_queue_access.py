"""Queue, priority and user of a job: what its owner writes is a request, not a fact."""

import json
from typing import Any

import pytest
from cluster_objects import metadata

from windlass.backends.kubernetes.client import objects
from windlass.backends.kubernetes.cluster.admission_guard import AdmissionGuard, guard_of
from windlass.backends.kubernetes.cluster.cluster_settings import read_settings
from windlass.backends.kubernetes.cluster.job_resolution import (
    NamespaceLookups,
    ResolvedJob,
    resolve_job,
    unresolved_job,
)
from windlass.jobs.kubernetes.job_admission import binding_spec, policy_spec
from windlass.jobs.kubernetes.kinds.registry import read
from windlass.jobs.kubernetes.parsed_job import ParsedJob
from windlass.jobs.kubernetes.status.status_times import milliseconds

NOON, LATER = "2026-11-23T12:00:00Z", "2026-11-23T12:00:30Z"
TEAM_B = {"matchLabels": {"team": "b"}}
URGENT = objects.priority_class(json.dumps({"metadata": metadata("urgent"), "value": 1000}))


def parsed(created: str = LATER, annotations: dict[str, str] | None = None, **spec: Any) -> ParsedJob:
    """A TrainingJob in the namespace team-a."""
    about = {"name": "digits", "namespace": "team-a", "uid": "u", "creationTimestamp": created}
    found = read(
        {
            "apiVersion": "windlass.dev/v1alpha1",
            "kind": "TrainingJob",
            "metadata": {**about, "annotations": annotations or {}},
            "spec": {"command": "python train.py", "image": "i:1", **spec},
        }
    )
    assert isinstance(found, ParsedJob), found
    return found


def lookups(
    queues: dict[str, Any] | None = None, guard: AdmissionGuard | None = None, **labels: str
) -> NamespaceLookups:
    """The cluster for jobs of a namespace with these labels; `queues`: specs of Queue objects by name."""
    written = [{"metadata": {"name": name}, "spec": spec} for name, spec in (queues or {}).items()]
    declared = {queue.name: queue for queue in read_settings(written, (), (), ()).queues}
    named = {name.replace("_", "/"): text for name, text in labels.items()}
    return NamespaceLookups(named, {"urgent": URGENT}, queues=declared, guard=guard or AdmissionGuard())


def resolved(around: NamespaceLookups, **written: Any) -> ResolvedJob:
    return resolve_job(parsed(**written), around)


def guard(created: str = NOON, **changed: Any) -> AdmissionGuard:
    policy = {"metadata": {"creationTimestamp": created}, "spec": {**policy_spec(), **changed}}
    return guard_of(policy, {"metadata": {"creationTimestamp": NOON}, "spec": binding_spec()})


def test_a_priority_by_a_number_is_bounded_by_the_queue() -> None:
    greedy = resolved(lookups(), priority=1_000_000_000)
    assert greedy.trouble == (
        "asks for priority 1000000000, and jobs of queue default may ask for 0 at most; lower it, "
        "or name a PriorityClass (pod: {spec: {priorityClassName: …}})"
    )
    assert greedy.job.priority == 0
    bounded = lookups({"default": {"max_priority": 10}})
    assert [resolved(bounded, priority=number).job.priority for number in (-5, 10, 11)] == [-5, 10, 10]
    assert [bool(resolved(bounded, priority=number).trouble) for number in (-5, 10, 11)] == [False, False, True]


def test_a_priority_class_is_not_bounded_by_the_queue() -> None:
    found = resolved(lookups(), pod={"spec": {"priorityClassName": "urgent"}})
    assert (found.job.priority, found.trouble) == (1000, "")


def test_the_default_class_is_for_jobs_that_name_no_priority() -> None:
    normal = {"metadata": metadata("normal"), "value": 500, "globalDefault": True}
    around = NamespaceLookups(priorities={"normal": objects.priority_class(json.dumps(normal))})
    assert resolved(around).job.priority == 500
    assert [resolved(around, priority=number).job.priority for number in (-100, 0)] == [-100, 0]


def test_a_class_that_no_longer_exists_has_the_value_of_the_jobs_pods() -> None:
    urgent = {"priorityClassName": "urgent", "priority": 1000}
    others = [{"priorityClassName": "another", "priority": 7}, {"priority": 8}]
    pods = [objects.pod(json.dumps({"metadata": metadata("p"), "spec": spec})) for spec in (*others, urgent)]
    job = parsed(pod={"spec": {"priorityClassName": "urgent"}})
    missing = "there is no PriorityClass urgent; create it, or name another"
    for there, priority in ((pods, 1000), (pods[:2], 0), ((), 0)):
        found = resolve_job(job, NamespaceLookups(), there)
        assert (found.job.priority, found.trouble) == (priority, missing)
    assert resolve_job(job, lookups(), [pods[0]]).job.priority == 1000


def test_a_job_does_not_get_the_priority_of_kubernetes_own_pods() -> None:
    critical = objects.priority_class(
        json.dumps({"metadata": metadata("system-node-critical"), "value": 2_000_001_000})
    )
    around = NamespaceLookups(priorities={"system-node-critical": critical})
    found = resolved(around, pod={"spec": {"priorityClassName": "system-node-critical"}})
    assert found.job.priority == 0
    assert found.trouble == "the PriorityClass system-node-critical is for Kubernetes' own pods; name another"


@pytest.mark.parametrize(
    ("selector", "labels", "is_open"),
    [
        (TEAM_B, {"team": "a"}, False),
        (TEAM_B, {"team": "b"}, True),
        (TEAM_B, {}, False),
        (TEAM_B, {"windlass.dev_queue": "team-b"}, False),
        ({}, {}, True),
        (None, {"team": "b"}, False),
        (None, {"windlass.dev_queue": "team-b"}, True),
        ({"matchExpressions": [{"key": "team", "operator": "In", "values": ["b", "c"]}]}, {"team": "c"}, True),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}, {"team": "a"}, False),
        ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, {}, False),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn"}]}, {"team": "b"}, False),
        ({"matchExpressions": [{"operator": "Exists"}]}, {"team": "b"}, False),
    ],
)
def test_a_queue_is_open_to_the_namespaces_that_its_selector_selects(
    selector: dict[str, Any] | None, labels: dict[str, str], *, is_open: bool
) -> None:
    spec = {} if selector is None else {"namespaceSelector": selector}
    found = resolved(lookups({"team-b": spec}, **labels), queue="team-b")
    assert (not found.trouble, found.job.queue == "team-b") in ((True, True), (False, False))
    assert ("the queue team-b is closed to the namespace team-a" in found.trouble) is not is_open


def test_a_job_without_access_stays_in_a_queue_that_is_open_to_it() -> None:
    """So that no leader ever accounts it to the queue of others, whatever else is wrong with it."""
    closed = {"team-b": {"namespaceSelector": TEAM_B}, "team-a": {}}
    assert resolved(lookups(closed), queue="team-b").job.queue == "default"
    assert resolved(lookups(closed, **{"windlass.dev_queue": "team-a"}), queue="team-b").job.queue == "team-a"
    shut = {**closed, "default": {"namespaceSelector": TEAM_B}}
    assert resolved(lookups(shut), queue="team-b").job.queue == "team-b (closed)"
    greedy = unresolved_job(parsed(queue="team-b", priority=9), "a fault").job
    assert (greedy.queue, greedy.priority, greedy.user) == ("default", 0, "namespace:team-a")


def test_a_queue_without_an_object_takes_jobs_that_wait_for_it() -> None:
    found = resolved(lookups(), queue="team-b")
    assert (found.job.queue, found.denial) == ("team-b", "")


def test_a_user_in_an_annotation_counts_only_where_admission_has_checked_it() -> None:
    boss = {"windlass.dev/user": "boss"}
    assert resolved(lookups(), annotations=boss).job.user == "namespace:team-a"
    assert resolved(lookups(guard=guard()), annotations=boss).job.user == "boss"
    assert resolved(lookups(guard=guard()), annotations=boss, created=NOON).job.user == "namespace:team-a"
    assert resolved(lookups(guard=guard())).job.user == "namespace:team-a"


def test_the_accounts_of_a_namespace_are_one_user() -> None:
    """Users of a namespace may make any number of accounts, and so would have any number of limits."""
    for name in ("default", "other"):
        account = {"windlass.dev/user": f"system:serviceaccount:team-b:{name}"}
        assert resolved(lookups(guard=guard()), annotations=account).job.user == "namespace:team-b"


def test_a_changed_policy_is_no_guard() -> None:
    assert guard().since == (milliseconds(NOON) or 0) + 10_000
    assert guard(LATER).since == (milliseconds(LATER) or 0) + 10_000
    assert guard(failurePolicy="Ignore").since is None
    assert guard(matchConditions=[{"name": "never", "expression": "false"}]).since is None
    defaults = {**policy_spec()["matchConstraints"], "namespaceSelector": {}, "objectSelector": {}}
    assert guard(matchConstraints=defaults).since is not None
    assert guard(matchConstraints={**defaults, "excludeResourceRules": [{"resources": ["*"]}]}).since is None
    policy = {"metadata": {"creationTimestamp": NOON}, "spec": policy_spec()}
    for binding in (None, {"metadata": {}, "spec": {**binding_spec(), "validationActions": ["Audit"]}}):
        assert guard_of(policy, binding).since is None
    assert guard_of(None, None).fault == "is missing"


def managed(time: str, *fields: str) -> dict[str, Any]:
    return {"manager": "m", "operation": "Update", "time": time, "fieldsV1": {f"f:{field}": {} for field in fields}}


def test_a_policy_guards_from_the_last_change_of_its_spec() -> None:
    since_noon, since_later = ((milliseconds(time) or 0) + 10_000 for time in (NOON, LATER))
    policy = {"metadata": {"creationTimestamp": NOON}, "spec": policy_spec()}
    binding = {"metadata": {"creationTimestamp": NOON}, "spec": binding_spec()}
    entries = [managed(NOON, "spec", "metadata"), managed(LATER, "spec")]
    changed: dict[str, Any] = {"creationTimestamp": NOON, "generation": 2, "managedFields": entries}
    assert guard_of({**policy, "metadata": changed}, binding).since == since_later
    assert guard_of(policy, {**binding, "metadata": changed}).since == since_later
    relabelled = [managed(NOON, "spec"), managed(LATER, "metadata"), managed(LATER, "status")]
    assert guard_of({**policy, "metadata": {**changed, "managedFields": relabelled}}, binding).since == since_noon


def test_a_policy_that_was_changed_at_an_unknown_time_is_no_guard() -> None:
    policy = {"metadata": {"creationTimestamp": NOON, "generation": 3}, "spec": policy_spec()}
    binding = {"metadata": {"creationTimestamp": NOON, "generation": 1}, "spec": binding_spec()}
    for entries in ([], [{}], [managed(LATER, "metadata")], [{**managed(LATER, "spec"), "time": None}]):
        policy["metadata"]["managedFields"] = entries
        found = guard_of(policy, binding)
        assert (found.since, found.fault) == (None, "or its binding was changed at an unknown time")
    unchanged = {**policy, "metadata": {"creationTimestamp": NOON, "generation": 1}}
    assert guard_of(unchanged, binding).since is not None
