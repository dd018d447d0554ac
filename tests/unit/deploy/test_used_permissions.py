"""The comparison of recorded calls with the operator's permissions."""

from dataclasses import replace

from planes.audit_log import Call
from used_permissions import CLIENT, CLUSTER, OPERATORS, refused_calls, unused_rights

from windlass.deploy.permissions import own_permissions

LEASE = ("get", "coordination.k8s.io", "leases")


def call(verb, group, resource, *, namespace="team", name="x"):
    return Call(OPERATORS[0], CLIENT, verb, group, resource, namespace, name, True)


def every_call(permissions, **where):
    for each in permissions:
        for resource in each.resources:
            for verb in each.verbs:
                yield call(verb, each.group, resource, name=each.names[0] if each.names else "x", **where)


ALL = {*every_call(CLUSTER), *every_call(own_permissions("windlass-operator"), namespace="default")}


def test_calls_that_use_every_permission_are_complete():
    assert unused_rights(ALL) == []
    assert refused_calls(ALL) == []


def test_a_permission_that_no_call_used_is_named():
    rest = {each for each in ALL if (each.verb, each.resource) != ("patch", "persistentvolumeclaims")}
    assert unused_rights(rest) == ["patch persistentvolumeclaims"]


def test_a_permission_for_which_a_policy_asks_is_never_called():
    assert call("run", "windlass.dev", "crontrainingjobs") in ALL
    assert unused_rights(ALL - {call("run", "windlass.dev", "crontrainingjobs")}) == []


def test_a_kind_of_a_permission_that_no_call_used_is_named():
    rest = {each for each in ALL if each.resource != "paddlejobs"}
    assert unused_rights(rest) == ["get, list, watch, delete paddlejobs of kubeflow.org"]


def test_a_call_in_the_operators_namespace_uses_no_permission_in_the_whole_cluster():
    rest = {each for each in ALL if each.resource != "secrets" or each.namespace == "default"}
    assert unused_rights(rest) == ["create secrets"]


def test_a_refused_call_is_named_and_uses_nothing():
    refused = replace(call(*LEASE, namespace="kube-node-lease"), granted=False)
    assert refused_calls({*ALL, refused}) == ["get leases of coordination.k8s.io"]


def test_a_refusal_of_what_a_role_allows_is_not_named():
    refused = {replace(each, granted=False) for each in ALL}
    assert refused_calls(refused) == []


def test_a_refusal_of_what_kubernetes_allows_everyone_is_not_named():
    review = call("create", "authorization.k8s.io", "selfsubjectaccessreviews", namespace="")
    assert refused_calls({replace(review, granted=False)}) == []


def test_calls_of_other_users_and_clients_are_not_compared():
    refused = replace(call(*LEASE), granted=False)
    assert refused_calls({replace(refused, agent="kubectl"), replace(refused, user="ann")}) == []
