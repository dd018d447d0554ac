"""Bounds of the operator's writes, as the API server decides them by roles and admission policies.

Neither can be checked from its text: an account may grant only permissions that it has, and policies are CEL.
"""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from planes.fixtures import RECORDED
from planes.tidy import clear

import strays
from deploy.samples import place, sample
from windlass.backends.kubernetes.client.access import from_kubeconfig
from windlass.backends.kubernetes.client.connection import Connection
from windlass.controlplane import cluster, kubeconfig
from windlass.controlplane.api import Api, ApiError
from windlass.deploy.admission import admission_objects
from windlass.deploy.install.installer import apply
from windlass.deploy.installation import IMAGE, installation_objects
from windlass.deploy.operator import Setup, namespace
from windlass.deploy.roles import mpijob_v1_roles, operator_roles
from windlass.jobs.kubernetes.operator_names import NAMESPACE

SPACES = "/api/v1/namespaces"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
RESERVATIONS = "/apis/windlass.dev/v1alpha1/reservations"
RESERVATION = {
    "apiVersion": "windlass.dev/v1alpha1",
    "kind": "Reservation",
    "metadata": {"name": "digits"},
    "spec": {"nodes": 1, "start": "2030-01-01T00:00:00Z", "end": "2030-01-02T00:00:00Z"},
}
SPEC = {"containers": [{"name": "a", "image": "a"}]}
POD = {"metadata": {"name": "one"}, "spec": {**SPEC, "schedulerName": "windlass"}}
OF_JOB = {"windlass.dev/generation": "1"}
RESPECTED = {"metadata": {"name": "two", "labels": OF_JOB}, "spec": {**SPEC, "schedulerName": "volcano"}}
CONFIG, SECRET = {"metadata": {"name": "config"}}, {"metadata": {"name": "secret"}}
LEADS = {"metadata": {"labels": {"windlass.dev/leader": "true"}}}
BINDING = {"metadata": {"name": "one"}, "target": {"kind": "Node", "name": "n1"}}
ALL_SECRETS = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}]
PODS_OF_A_GANG = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"], "resourceNames": ["job-worker-0"]},
]
LAUNCHER = ("POST", ROLES, {"metadata": {"name": "launcher"}, "rules": PODS_OF_A_GANG})
ALLOWED = (
    ("POST", f"{SPACES}/default/pods", POD),
    ("POST", f"{SPACES}/default/pods", RESPECTED),
    ("DELETE", f"{SPACES}/default/pods/respected", None),
    ("POST", f"{SPACES}/default/configmaps", CONFIG),
    ("POST", f"{SPACES}/default/secrets", SECRET),
    ("POST", f"{SPACES}/{NAMESPACE}/secrets", {"metadata": {"name": "windlass-operator-tls"}}),
    ("PATCH", f"{SPACES}/{NAMESPACE}/pods/leader", LEADS),
    ("DELETE", f"{SPACES}/default/pods/placed", None),
    ("DELETE", f"{SPACES}/default/pods/taken-over", None),
    ("GET", "/apis/kubeflow.org/v1/pytorchjobs", None),
)
REFUSED = (
    # by roles
    ("GET", "/api/v1/secrets", None),
    ("GET", f"{SPACES}/default/secrets/secret", None),
    ("DELETE", "/api/v1/nodes/n1", None),
    ("PATCH", "/api/v1/nodes/n1", {"spec": {"unschedulable": True}}),
    ("POST", SPACES, {"metadata": {"name": "new"}}),
    ("DELETE", "/apis/windlass.dev/v1alpha1/queues/default", None),
    ("PATCH", f"{SPACES}/default/pods/placed", LEADS),
    ("GET", "/apis/coordination.k8s.io/v1/leases", None),
    ("PATCH", f"{LEASE}/another", {"spec": {}}),
    ("POST", ROLES, {"metadata": {"name": "greedy"}, "rules": ALL_SECRETS}),
    LAUNCHER,
)
DENIED = (
    # by the admission policy
    ("POST", f"{SPACES}/default/pods", {**POD, "spec": SPEC}),
    ("POST", f"{SPACES}/default/pods", {**RESPECTED, "metadata": {"name": "two"}}),
    ("DELETE", f"{SPACES}/default/pods/foreign", None),
    ("PATCH", f"{SPACES}/default/pods/respected/status", {"status": {"message": "hello"}}),
    ("PATCH", f"{SPACES}/default/pods/taken-over/status", {"status": {"message": "hello"}}),
    ("PATCH", f"{SPACES}/default/pods/foreign/status", {"status": {"message": "hello"}}),
    *(
        ("POST", f"{SPACES}/{where}/{what}", body)
        for where in ("kube-system", "closed", NAMESPACE)
        for what, body in (("pods", POD), ("configmaps", CONFIG), ("secrets", SECRET))
        if (where, what) != (NAMESPACE, "pods")  # which its pod security refuses already
    ),
    ("POST", f"{SPACES}/closed/pods/one/binding", BINDING),
    ("POST", f"{SPACES}/closed/pods/one/eviction", {"metadata": {"name": "one"}}),
    ("PATCH", f"{SPACES}/{NAMESPACE}/pods/leader", {"spec": {"activeDeadlineSeconds": 1}}),
    ("PATCH", f"{SPACES}/{NAMESPACE}/pods/database", LEADS),
)


@pytest.fixture(scope="module")
def plane(with_kinds):
    """The API server with the roles and policies of an installation; the policies are removed at the end."""
    policies = admission_objects(NAMESPACE, "all")

    async def install():
        async with Connection(from_kubeconfig(str(with_kinds.kubeconfig))) as connection:
            async for _ in apply(connection, [namespace(Setup(IMAGE)), *operator_roles(NAMESPACE), *policies]):
                pass
        async with with_kinds.api() as admin:
            await prepare(admin)
            await until_effective(with_kinds)
            await until_recorded(with_kinds)

    async def remove():
        async with with_kinds.api() as admin:
            await clear(admin)
            for each in policies:
                kind = "policies" if each["kind"].endswith("Policy") else "policybindings"
                await admin.delete(f"{POLICIES.removesuffix('policies')}{kind}/{each['metadata']['name']}")

    asyncio.run(install())
    yield with_kinds
    asyncio.run(remove())


async def prepare(admin):
    """A namespace that is not managed, pods of the operator's namespace, of two schedulers, and of Kubeflow's."""
    labels = {"windlass.dev/managed": "false"}
    await admin.post(SPACES, {"metadata": {"name": "closed", "labels": labels}})
    for each in ("closed", NAMESPACE):
        await cluster.add_default_account(admin, each)
    deployment = next(each for each in installation_objects(Setup(IMAGE)) if each["kind"] == "Deployment")
    safe = deployment["spec"]["template"]["spec"]
    for name, labels in (("leader", {"app.kubernetes.io/name": "windlass"}), ("database", {})):
        await admin.post(f"{SPACES}/{NAMESPACE}/pods", {"metadata": {"name": name, "labels": labels}, "spec": safe})
    of_kubeflow = {"training.kubeflow.org/job-name": "digits"}
    for name, scheduler, labels in (
        ("placed", "windlass", {}),
        ("foreign", "another", {}),
        ("respected", "another", OF_JOB),
        ("taken-over", "default-scheduler", of_kubeflow),
    ):
        pod = {"metadata": {"name": name, "labels": labels}, "spec": {**SPEC, "schedulerName": scheduler}}
        await admin.post(f"{SPACES}/default/pods", pod)


async def until_effective(plane):
    """Wait until the API server evaluates the operator's bounds: it looks for new policies once a second."""
    async with Api(await account(plane)) as operator:
        while True:
            try:
                await ask(operator, "POST", f"{SPACES}/closed/secrets", SECRET)
            except ApiError as error:
                if error.status != 403:
                    raise
                if "ValidatingAdmissionPolicy" in str(error):
                    return
            await asyncio.sleep(0.1)


async def until_recorded(plane):
    """Wait until the API server records changes: it may see that policy a second after the operator's bounds."""
    probe = {**RESERVATION, "metadata": {"name": "probe"}}
    async with asyncio.timeout(strays.TIMEOUT_S), user_of(plane) as user:
        while True:
            await ask(user, "POST", RESERVATIONS, probe)
            if list(changes(plane, "probe")):
                return
            await asyncio.sleep(0.1)


async def until_allowed(client, method, path, body):
    """Make a request until the API server's authorizer has read the roles that allow it."""
    async with asyncio.timeout(strays.TIMEOUT_S):
        while True:
            try:
                return await ask(client, method, path, body)
            except ApiError as error:
                if error.status != 403:
                    raise
            await asyncio.sleep(0.05)


async def account(plane):
    return kubeconfig.read(await plane.service_account(NAMESPACE, "windlass-operator"))


async def ask(client, method, path, body):
    """Make a request that changes nothing. An API server defers those for a kind that was defined a moment ago."""
    form = "application/merge-patch+json" if method == "PATCH" else "application/json"
    while True:
        try:
            query = {} if method == "GET" else {"dryRun": "All"}
            return await client.request(method, path, body, query=query, form=form)
        except ApiError as error:
            if error.status != 429:
                raise
        await asyncio.sleep(0.2)


def test_the_operators_account_may_do_its_work_and_nothing_else(plane):
    async def story():
        async with Api(await account(plane)) as operator:
            for method, path, body in ALLOWED:
                await ask(operator, method, path, body)
            for method, path, body in REFUSED:
                with pytest.raises(ApiError, match="403 Forbidden") as refusal:
                    await ask(operator, method, path, body)
                assert "ValidatingAdmissionPolicy" not in str(refusal.value)
            for method, path, body in DENIED:
                with pytest.raises(ApiError, match=r"403 Forbidden.*'windlass-operator-writes'"):
                    await ask(operator, method, path, body)

    asyncio.run(story())


def test_launchers_of_mpijobs_v1_are_granted_by_an_optional_role_only(plane):
    async def story():
        async with plane.api() as admin, Api(await account(plane)) as operator:
            with pytest.raises(ApiError, match="403 Forbidden"):
                await ask(operator, *LAUNCHER)
            for role in mpijob_v1_roles(NAMESPACE):
                await admin.post(f"/apis/rbac.authorization.k8s.io/v1/{role['kind'].lower()}s", role)
            await until_allowed(operator, *LAUNCHER)

    asyncio.run(story())


def test_the_audit_log_names_who_cancelled_suspended_reserved_or_deleted(plane):
    """The user is proven: the API server writes who sent the request, and the policy what the request did."""
    job = sample("TrainingJob", "digits")
    path = place(job, "digits")
    expected = [
        ("trainingjobs", "suspended"),
        ("trainingjobs", "resumed"),
        ("trainingjobs", "cancelled"),
        ("trainingjobs", "deleted"),
        ("reservations", "created"),
        ("reservations", "deleted"),
    ]

    async def story():
        async with user_of(plane) as user:
            await user.post(place(job), job)
            await user.patch(path, {"spec": {"suspend": True}})
            await user.patch(path, {"spec": {"suspend": False}})
            await user.patch(path, {"metadata": {"annotations": {"note": "seen"}}})
            await user.patch(path, {"metadata": {"annotations": {"windlass.dev/cancel": RECORDED}}})
            await user.delete(path)
            await user.post(RESERVATIONS, RESERVATION)
            await user.delete(f"{RESERVATIONS}/{RESERVATION['metadata']['name']}")

    asyncio.run(story())
    until = time.monotonic() + strays.TIMEOUT_S
    while len(list(changes(plane, "digits"))) < len(expected) and time.monotonic() < until:
        time.sleep(0.05)  # an answer may arrive before its request is recorded
    assert list(changes(plane, "digits")) == expected


def user_of(plane):
    """A client of the recorded user, who may do everything."""
    return Api(kubeconfig.read(plane.user(RECORDED, ["system:masters"])))


def changes(plane, name):
    """Resource and change of the recorded user's requests for objects of this name, in their order."""
    for line in (plane.folder.parent / "audit.log").read_text().splitlines(keepends=True):
        if not line.endswith("\n"):  # the API server is writing it
            return
        event = json.loads(line)
        change = event["annotations"].get("windlass-audit/change")
        if event["user"]["username"] == RECORDED and event["objectRef"].get("name") == name and change:
            yield event["objectRef"]["resource"], change
