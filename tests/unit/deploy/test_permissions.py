import inspect
import re

from windlass.backends.kubernetes import watches
from windlass.backends.kubernetes.client import resources
from windlass.backends.kubernetes.client.resources import Resource
from windlass.deploy.crds import definitions
from windlass.deploy.permissions import CORDON, JOBS, MPIJOB_V1, QUERIES, SCHEDULING, own_permissions
from windlass.deploy.roles import cordon_roles, cull_roles, mpijob_v1_roles, operator_roles, user_roles
from windlass.jobs.kubernetes.query_api import OF_CLUSTER, OF_JOBS, SNAPSHOTS

EVERY = (*SCHEDULING, *JOBS, *QUERIES, *MPIJOB_V1, *CORDON)


def granted(permissions):
    return {(each.group, resource, verb) for each in permissions for resource in each.resources for verb in each.verbs}


def test_no_permission_contains_a_wildcard():
    assert all("*" not in part for each in EVERY for part in (each.group, *each.resources, *each.verbs))


def test_every_permission_has_a_purpose():
    assert all(each.purpose for each in EVERY)


def test_no_permission_is_granted_twice():
    written = [(each.group, r, verb) for each in EVERY for r in each.resources for verb in each.verbs]
    assert len(written) == len(set(written))


def test_a_scheduler_neither_creates_nor_deletes():
    makes = {resource for _, resource, verb in granted(SCHEDULING) if verb in ("create", "delete", "update")}
    assert makes == {"pods/binding", "pods/eviction", "events"}


def test_secrets_are_created_and_never_read():
    assert {verb for _, resource, verb in granted(EVERY) if resource == "secrets"} == {"create"}


def test_every_watched_kind_may_be_watched():
    """By the names in the backend's list of watches."""
    source = inspect.getsource(watches.watch_all)
    spaces = {**vars(resources), **vars(watches)}
    named = {spaces.get(name) for name in re.findall(r"\b[A-Z_]{4,}\b", source)}
    watched = {each for each in named if isinstance(each, Resource)} | set(watches.WATCHED)
    assert len(watched) > 10
    assert {(each.group, each.plural, "watch") for each in watched} <= granted(EVERY)


def test_the_operator_has_the_permissions_that_it_grants_to_mpi_launchers():
    given = {("", "pods", verb) for verb in ("get", "list", "watch")} | {("", "pods/exec", "create")}
    assert given <= granted(EVERY)


def test_the_rights_for_mpijobs_v1_are_in_a_role_of_their_own():
    assert granted((*SCHEDULING, *JOBS, *QUERIES)).isdisjoint(granted(MPIJOB_V1))
    rules = [rule for role in operator_roles("team") for rule in role.get("rules", [])]
    groups = {group for rule in rules for group in rule["apiGroups"]}
    assert "rbac.authorization.k8s.io" not in groups
    assert not {"pods/exec", "serviceaccounts"} & {each for rule in rules for each in rule["resources"]}
    assert {role["metadata"]["name"] for role in mpijob_v1_roles("team")} == {"windlass-operator-mpijob-v1"}


def test_nodes_are_changed_only_by_a_role_of_their_own():
    assert granted(CORDON) == {("", "nodes", "patch")}
    assert granted((*SCHEDULING, *JOBS, *QUERIES, *MPIJOB_V1)).isdisjoint(granted(CORDON))
    assert {role["metadata"]["name"] for role in cordon_roles("team")} == {"windlass-operator-cordon"}
    assert {role["metadata"]["name"] for role in cull_roles("team")} == {"windlass-operator-cull"}


def test_no_lease_is_read_but_the_operators_own():
    assert not [each for each in EVERY if "leases" in each.resources]


def test_pods_and_secrets_are_changed_in_the_operators_namespace_only():
    assert not {("", "pods", "patch"), ("", "pods", "update"), ("", "secrets", "get")} & granted(EVERY)
    assert {("", "pods", "patch"), ("", "secrets", "get")} <= granted(own_permissions("windlass-operator"))


def test_the_status_of_every_kind_of_job_can_be_written():
    jobs = [each for each in definitions() if each.namespaced and each.versions[0].status]
    assert {(each.group, f"{each.plural}/status", "patch") for each in jobs} <= granted(EVERY)


def test_the_operator_may_change_only_its_own_lease():
    held = [each for each in own_permissions("windlass-operator") if "update" in each.verbs]
    assert [each.names for each in held] == [("windlass-operator",)]


def test_all_roles_are_bound_to_the_operators_account():
    bindings = [each for each in operator_roles("team") if each["kind"].endswith("Binding")]
    subjects = [subject for each in bindings for subject in each["subjects"]]
    assert subjects == [{"kind": "ServiceAccount", "name": "windlass-operator", "namespace": "team"}] * 3


def test_the_only_secret_that_is_read_is_the_operators_own():
    read = [each for each in own_permissions("windlass-operator") if each.resources == ("secrets",)]
    named = {each.names for each in read if "get" in each.verbs}
    assert named == {("windlass-operator-tls",)}


def test_the_only_api_that_is_changed_is_that_of_the_queries():
    assert [each.names for each in EVERY if "apiservices" in each.resources] == [("v1.queries.windlass.dev",)]


def test_every_query_is_granted_to_viewers_or_to_all_users():
    roles = {each["metadata"]["name"]: each for each in user_roles() if each["kind"] == "ClusterRole"}

    def granted_by(role):
        rules = [rule for rule in roles[role]["rules"] if rule["apiGroups"] == ["queries.windlass.dev"]]
        return {resource for rule in rules for resource in rule["resources"]}

    assert granted_by("windlass-view") == {*OF_JOBS, SNAPSHOTS}
    assert granted_by("windlass-queues") == {*OF_CLUSTER}


def test_viewers_may_not_change_jobs():
    roles = {each["metadata"]["name"]: each for each in user_roles()}
    assert {verb for rule in roles["windlass-view"]["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}


def test_no_installed_role_may_change_queues():
    changed = [rule for role in user_roles() if role["kind"] == "ClusterRole" for rule in role["rules"]]
    assert all("queues" not in rule["resources"] or "create" not in rule["verbs"] for rule in changed)
