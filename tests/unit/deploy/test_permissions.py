import inspect
import re

from windlass.backends.kubernetes import watches
from windlass.backends.kubernetes.client import resources
from windlass.backends.kubernetes.client.resources import Resource
from windlass.deploy.crds import definitions
from windlass.deploy.permissions import JOBS, SCHEDULING, lease_permissions
from windlass.deploy.roles import operator_roles, user_roles

EVERY = (*SCHEDULING, *JOBS)


def granted(permissions):
    return {(each.group, resource, verb) for each in permissions for resource in each.resources for verb in each.verbs}


def test_nothing_is_granted_by_a_star():
    assert all("*" not in part for each in EVERY for part in (each.group, *each.resources, *each.verbs))


def test_every_permission_says_what_it_is_for():
    assert all(each.purpose for each in EVERY)


def test_no_permission_is_written_twice():
    written = [(each.group, r, verb) for each in EVERY for r in each.resources for verb in each.verbs]
    assert len(written) == len(set(written))


def test_a_scheduler_makes_nothing_and_deletes_nothing():
    makes = {resource for _, resource, verb in granted(SCHEDULING) if verb in ("create", "delete", "update")}
    assert makes == {"pods/binding", "pods/eviction", "events"}


def test_secrets_are_made_and_never_read():
    assert {verb for _, resource, verb in granted(EVERY) if resource == "secrets"} == {"create"}


def test_whatever_is_watched_may_be_watched():
    """By the names that the world's watches give it."""
    source = inspect.getsource(watches.watch_all)
    spaces = {**vars(resources), **vars(watches)}
    named = {spaces.get(name) for name in re.findall(r"\b[A-Z_]{4,}\b", source)}
    watched = {each for each in named if isinstance(each, Resource)} | set(watches.WATCHED)
    assert len(watched) > 10
    assert {(each.group, each.plural, "watch") for each in watched} <= granted(EVERY)


def test_what_the_launcher_of_an_mpi_job_is_granted_the_operator_has():
    given = {("", "pods", verb) for verb in ("get", "list", "watch")} | {("", "pods/exec", "create")}
    assert given <= granted(EVERY)


def test_the_status_of_every_kind_of_job_can_be_written():
    jobs = [each for each in definitions() if each.namespaced and each.versions[0].status]
    assert {(each.group, f"{each.plural}/status", "patch") for each in jobs} <= granted(EVERY)


def test_only_its_own_lease_is_the_operators():
    held = [each for each in lease_permissions("windlass-operator") if "update" in each.verbs]
    assert [each.names for each in held] == [("windlass-operator",)]


def test_all_roles_are_the_operators_own_accounts():
    bindings = [each for each in operator_roles("team") if each["kind"].endswith("Binding")]
    subjects = [subject for each in bindings for subject in each["subjects"]]
    assert subjects == [{"kind": "ServiceAccount", "name": "windlass-operator", "namespace": "team"}] * 2


def test_who_may_view_may_not_change():
    roles = {each["metadata"]["name"]: each for each in user_roles()}
    assert {verb for rule in roles["windlass-view"]["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}


def test_nobody_may_set_queues_by_what_is_installed():
    changed = [rule for role in user_roles() if role["kind"] == "ClusterRole" for rule in role["rules"]]
    assert all("queues" not in rule["resources"] or "create" not in rule["verbs"] for rule in changed)
