"""Queries through the API server and at the port itself, by users of two namespaces, on a real API server."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from backend_host import Behaviour
from cli.cluster_terminal import Terminal
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from kubernetes_host import cancel_task
from operator_account import operator_access
from operator_place import OperatorPlace, created, leading

import strays
from windlass.backends.kubernetes.client.connection import Connection
from windlass.controlplane import kubeconfig
from windlass.controlplane.api import Api, ApiError
from windlass.controlplane.build import find
from windlass.controlplane.cluster import ControlPlane, add_default_account
from windlass.deploy.roles import user_roles
from windlass.jobs.kubernetes.query_api import (
    API_SERVICE,
    CERTIFICATE,
    GROUP,
    GROUP_PRIORITY,
    OF_CLUSTER,
    PREFIX,
    SERVICE,
    VERSION,
)
from windlass.server.operator.endpoints import listen
from windlass.server.operator.queries.port import QueryPort, serve_queries

pytestmark = pytest.mark.apiserver

NAMESPACES = "/api/v1/namespaces"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
OTHER = "(another namespace)"


@dataclass
class Tenants:
    """Ann may view namespace team-a, and Bob team-b; Eve administers."""

    place: OperatorPlace
    plane: ControlPlane
    port: int
    ann: Api
    bob: Api
    eve: Api
    folder: Path

    def terminal(self, user: str) -> Terminal:
        """The command line of a user."""
        return Terminal(self.plane.user(user, ["tenants"]), self.folder)

    async def direct(self, path: str, tls: ssl.SSLContext | None = None, **headers: str) -> tuple[int, Any]:
        """Asks the port itself, past the API server."""
        secret = await self.eve.get(f"{NAMESPACES}/default/secrets/{CERTIFICATE}")
        authority = base64.b64decode(secret["data"]["tls.crt"]).decode()
        context = tls or ssl.create_default_context()
        context.load_verify_locations(cadata=authority)
        name = f"{SERVICE}.default.svc"
        url = f"https://127.0.0.1:{self.port}{path}"
        async with (
            aiohttp.ClientSession() as session,
            session.get(url, ssl=context, server_hostname=name, headers=headers) as answer,
        ):
            is_json = answer.content_type == "application/json"
            return answer.status, (await answer.json() if is_json else await answer.text())


async def refused(request: Awaitable[Any]) -> ApiError:
    """The refusal of a request with 403."""
    with pytest.raises(ApiError) as caught:
        await request
    assert caught.value.status == 403, caught.value
    return caught.value


@pytest.fixture
def tell(apiserver: ControlPlane, tmp_path: Path) -> Callable[[Callable[[Tenants], Awaitable[None]]], None]:
    def run(story: Callable[[Tenants], Awaitable[None]]) -> None:
        async def told() -> None:
            async with asyncio.timeout(strays.TIMEOUT_S * 4), tenants(apiserver, tmp_path) as place:
                await story(place)

        asyncio.run(told())

    return run


@asynccontextmanager
async def tenants(plane: ControlPlane, folder: Path) -> AsyncIterator[Tenants]:
    listener = listen("127.0.0.1", 0)
    port = listener.getsockname()[1]
    access = operator_access(plane)
    async with (
        leading(plane, folder) as place,
        Connection(access) as connection,
        Api(kubeconfig.read(plane.user("ann", ["tenants"]))) as ann,
        Api(kubeconfig.read(plane.user("bob", ["tenants"]))) as bob,
    ):
        await prepare(place.api, port)
        told: list[str] = []
        serving = asyncio.create_task(
            serve_queries(QueryPort(listener, "default"), connection, place.endpoints.queries, told.append)
        )
        try:
            await available(place.api)
            yield Tenants(place, plane, port, ann, bob, place.api, folder)
            assert told == []
        finally:
            await cancel_task(serving)
            await place.api.delete(f"{API_SERVICES}/{API_SERVICE}")


async def prepare(api: Api, port: int) -> None:
    """Roles of users, and the API; its Service is a name of this machine."""
    roles = user_roles()
    for kind in ("clusterroles", "clusterrolebindings"):
        for role in (each for each in roles if f"{each['kind'].lower()}s" == kind):
            await created(api, f"{RBAC}/{kind}", role)
    for team, user in (("team-a", "ann"), ("team-b", "bob")):
        if await created(api, NAMESPACES, {"metadata": {"name": team}}):
            await add_default_account(api, team)
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "windlass-view"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
        binding = {"metadata": {"name": user}, "roleRef": reference, "subjects": [subject]}
        await created(api, f"{RBAC}/namespaces/{team}/rolebindings", binding)
    spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
    await created(api, f"{NAMESPACES}/default/services", {"metadata": {"name": SERVICE}, "spec": spec})
    spec = {
        "group": GROUP,
        "version": VERSION,
        "groupPriorityMinimum": GROUP_PRIORITY,
        "versionPriority": 15,
        "service": {"name": SERVICE, "namespace": "default", "port": port},
    }
    await created(api, API_SERVICES, {"metadata": {"name": API_SERVICE}, "spec": spec})


async def available(api: Api) -> None:
    """Waits until the API server reaches the port."""
    while True:
        found = (await api.get(f"{API_SERVICES}/{API_SERVICE}")).get("status", {}).get("conditions", [])
        if any(each["type"] == "Available" and each["status"] == "True" for each in found):
            return
        await asyncio.sleep(0.1)


async def submit(place: OperatorPlace, team: str, name: str, behaviour: Behaviour, gpus: int = 1) -> None:
    await place.submit(name, behaviour, gpus)
    path = "/apis/windlass.dev/v1alpha1/namespaces/{}/trainingjobs"
    manifest = await place.api.get(f"{path.format('default')}/{name}")
    await place.delete(name)
    copied = {"apiVersion": manifest["apiVersion"], "kind": "TrainingJob", "spec": manifest["spec"]}
    await place.api.post(path.format(team), {**copied, "metadata": {"name": name}})


def test_a_user_sees_the_jobs_of_the_own_namespace_only(tell):
    async def story(tenants: Tenants) -> None:
        place, ann, bob = tenants.place, tenants.ann, tenants.bob
        await submit(place, "team-a", "secret-plan", Behaviour.FAIL)
        await place.phase("team-a/secret-plan", "Failed")
        await submit(place, "team-a", "big", Behaviour.RUN, gpus=2)
        await place.phase("team-a/big", "Running")
        await submit(place, "team-a", "wide", Behaviour.RUN, gpus=2)
        await place.phase("team-a/wide", "Running")
        await submit(place, "team-b", "mine", Behaviour.RUN)
        await place.until("/v1/jobs/team-b/mine", lambda job: job["phase"] == "Queued")

        # 1. Ann asks about her namespace
        path = f"{PREFIX}/namespaces/team-a"
        assert {job["id"] for job in (await ann.get(f"{path}/jobs"))["jobs"]} == {"team-a/big", "team-a/wide"}
        assert (await ann.get(f"{path}/jobs/secret-plan"))["exit_code"] == 3
        assert (await ann.get(f"{path}/jobs/secret-plan/why"))["job"]["phase"] == "Failed"
        assert {"logs"} == set(await ann.get(f"{path}/jobs/secret-plan/log"))
        assert [job["id"] for job in (await ann.get(f"{path}/history"))["jobs"]] == ["team-a/secret-plan"]

        # 2. Bob may not
        of_jobs = ("jobs/big", "jobs/secret-plan/why", "jobs/secret-plan/log", "jobs/big/prospect")
        for question in ("jobs", "history", "reasons", *of_jobs):
            error = await refused(bob.get(f"{path}/{question}"))
            assert 'User "bob" cannot' in str(error)
        for question in ("jobs", "history", "reasons", "snapshots/current"):
            await refused(bob.get(f"{PREFIX}/{question}"))
        assert (await tenants.eve.get(f"{PREFIX}/jobs"))["jobs"]

        # 3. Bob's own answers, and those about the cluster, name no job of Ann's
        own = f"{PREFIX}/namespaces/team-b"
        answers = [
            await bob.get(f"{own}/{each}")
            for each in ("jobs", "history", "reasons", "jobs/mine", "jobs/mine/why", "jobs/mine/prospect")
        ]
        cluster = [await bob.get(f"{PREFIX}/{each}") for each in OF_CLUSTER]
        text = json.dumps([*answers, *cluster])
        assert "team-a" not in text
        assert "secret-plan" not in text
        assert [job["id"] for job in answers[0]["jobs"]] == ["team-b/mine"]
        assert [job["id"] for node in cluster[1]["nodes"] for job in node["jobs"]] == [OTHER, OTHER]
        [default] = cluster[2]["queues"]
        assert (default["running"], default["waiting"]) == (2, 1)
        assert "team-a/big" in json.dumps(await tenants.eve.get(f"{PREFIX}/nodes"))

        # 4. a name of another namespace is no way around
        for name in ("team-a:big", "big", "..:team-a:big", "team-a%2Fbig"):
            with pytest.raises(ApiError) as caught:
                await bob.get(f"{own}/jobs/{name}")
            assert caught.value.status in (403, 404)
            assert "team-a/big" not in str(caught.value)

    tell(story)


def test_the_command_line_shows_a_tenant_the_own_jobs_and_refuses_others(tell):
    async def story(tenants: Tenants) -> None:
        place, ann, bob = tenants.place, tenants.terminal("ann"), tenants.terminal("bob")
        await submit(place, "team-a", "big", Behaviour.RUN, gpus=2)
        await place.phase("team-a/big", "Running")
        await submit(place, "team-a", "wide", Behaviour.RUN, gpus=2)
        await place.phase("team-a/wide", "Running")
        await submit(place, "team-b", "mine", Behaviour.RUN)
        await place.until("/v1/jobs/team-b/mine", lambda job: job["phase"] == "Queued")

        assert (await ann.done("queue", "-n", "team-a", "-o", "name")).split() == ["team-a/big", "team-a/wide"]
        assert "Running" in await ann.done("status", "-n", "team-a", "big")
        assert (await bob.done("queue", "-n", "team-b", "-o", "name")).split() == ["team-b/mine"]
        verbs = (("nodes",), ("why", "-n", "team-b", "mine"), ("share",))
        shown = await asyncio.gather(*(bob.done(*words) for words in verbs))
        assert "team-a" not in "".join(shown)
        rows = json.loads(await bob.done("nodes", "-o", "json"))
        assert [(row["used"]["gpu"], [job["id"] for job in row["jobs"]]) for row in rows] == [(2, [OTHER])] * 2
        refused_verbs = (
            ("queue", "-n", "team-a"),
            ("history", "-n", "team-a"),
            ("why", "-n", "team-a"),
            ("why", "-n", "team-a", "big"),
            ("status", "-n", "team-a", "big"),
            ("logs", "-n", "team-a", "big"),
            ("top", "-n", "team-a"),
            ("snapshot",),
        )
        for words, ran in zip(
            refused_verbs, await asyncio.gather(*(bob(*each) for each in refused_verbs)), strict=True
        ):
            assert (ran.code, ran.out) == (77, ""), (words, ran)
            assert 'User "bob" cannot' in ran.err

    tell(story)


def test_only_get_requests_reach_the_operator(tell):
    async def story(tenants: Tenants) -> None:
        for method in ("post", "put", "delete"):
            with pytest.raises(ApiError) as caught:
                await getattr(tenants.eve, method)(f"{PREFIX}/namespaces/team-a/jobs/big", {"metadata": {}})
            assert caught.value.status in (405, 413)

    tell(story)


def test_the_port_itself_needs_a_token_of_this_cluster(tell):
    async def story(tenants: Tenants) -> None:
        path = f"{PREFIX}/namespaces/team-a/jobs"
        accounts = f"{NAMESPACES}/team-a/serviceaccounts/default/token"

        async def token(**spec: Any) -> str:
            request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
            return (await tenants.eve.post(accounts, request))["status"]["token"]

        # 1. no identity, and names without proof
        status, answer = await tenants.direct(path)
        assert (status, answer["error"]["code"]) == (401, "not_authenticated")
        assert (await tenants.direct(path, **{"X-Remote-User": "ann", "X-Remote-Group": "system:masters"}))[0] == 401
        for wrong in ("", "x", "a.b.c", "a" * 10_000):
            assert (await tenants.direct(path, Authorization=f"Bearer {wrong}"))[0] == 401
        assert (await tenants.direct(path, Authorization="Basic YWRtaW46YWRtaW4="))[0] == 401

        # 2. tokens of another audience, expired, or signed by another key
        other = await token(audiences=["vault"])
        assert (await tenants.direct(path, Authorization=f"Bearer {other}"))[0] == 401
        good = await token()
        key = serialization.load_pem_private_key(tenants.plane.tokens.key.read_bytes(), None)
        assert isinstance(key, rsa.RSAPrivateKey)
        now = int(time.time())
        still_valid = signed(good, key, {})
        assert (await tenants.direct(path, Authorization=f"Bearer {still_valid}"))[0] == 403  # a known user
        expired = signed(good, key, {"exp": now - 3600, "iat": now - 7200, "nbf": now - 7200})
        assert (await tenants.direct(path, Authorization=f"Bearer {expired}"))[0] == 401
        foreign = signed(good, rsa.generate_private_key(public_exponent=65537, key_size=2048), {})
        assert (await tenants.direct(path, Authorization=f"Bearer {foreign}"))[0] == 401

        # 3. a token without rights, and with them
        status, answer = await tenants.direct(path, Authorization=f"Bearer {good}")
        assert (status, answer["error"]["code"]) == (403, "not_allowed")
        assert answer["error"]["message"] == (
            "user system:serviceaccount:team-a:default may not list jobs.queries.windlass.dev in namespace team-a"
        )
        assert "ClusterRole view in namespace team-a" in answer["error"]["fix"]
        assert (await tenants.direct(f"{PREFIX}/nodes", Authorization=f"Bearer {good}"))[0] == 200

    tell(story)


def signed(token: str, key: rsa.RSAPrivateKey, changes: dict[str, int]) -> str:
    """The token with other claims, signed by this key."""
    head, claims, _ = token.split(".")
    changed = {**json.loads(base64.urlsafe_b64decode(claims + "==")), **changes}
    body = f"{head}.{encoded(json.dumps(changed).encode())}"
    return f"{body}.{encoded(key.sign(body.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def test_a_client_certificate_of_a_user_does_not_make_a_front_proxy(tell):
    async def story(tenants: Tenants) -> None:
        headers = {"X-Remote-User": "eve", "X-Remote-Group": "system:masters"}
        pair = tenants.plane.authority.client(tenants.plane.folder, "front-proxy-client-of-users", ["system:masters"])
        context = ssl.create_default_context()
        context.load_cert_chain(pair.certificate, pair.key)
        with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
            await tenants.direct(f"{PREFIX}/jobs", context, **headers)

        folder = tenants.plane.folder
        context = ssl.create_default_context()
        context.load_cert_chain(folder / "front-proxy-client.crt", folder / "front-proxy-client.key")
        assert (await tenants.direct(f"{PREFIX}/jobs", context, **headers))[0] == 200
        assert (await tenants.direct(f"{PREFIX}/jobs", context, **{"X-Remote-User": "bob"}))[0] == 403
        assert (await tenants.direct(f"{PREFIX}/jobs", context))[0] == 401

    tell(story)


def test_kubectl_shows_the_objects_whose_names_queries_share(tell):
    async def story(tenants: Tenants) -> None:
        command = [find("kubectl"), "--kubeconfig", tenants.plane.kubeconfig, "get"]
        for kind in ("queues", "reservations"):
            words = [*command, kind, "--cache-dir", tenants.folder / "discovery"]
            ran = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, check=False)
            assert (ran.returncode, ran.stderr) == (0, "No resources found\n")

    tell(story)


def test_metrics_need_the_right_to_get_them(tell):
    async def story(tenants: Tenants) -> None:
        accounts = f"{NAMESPACES}/team-b/serviceaccounts/default/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = (await tenants.eve.post(accounts, request))["status"]["token"]
        assert (await tenants.direct("/metrics"))[0] == 401
        status, answer = await tenants.direct("/metrics", Authorization=f"Bearer {token}")
        assert (status, answer["error"]["message"].split(" may ")[1]) == (403, "not get /metrics")
        subject = {"kind": "ServiceAccount", "namespace": "team-b", "name": "default"}
        role = {"metadata": {"name": "scrape"}, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]}
        await created(tenants.eve, f"{RBAC}/clusterroles", role)
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scrape"}
        binding = {"metadata": {"name": "scrape"}, "roleRef": reference, "subjects": [subject]}
        await created(tenants.eve, f"{RBAC}/clusterrolebindings", binding)
        while (answer := await tenants.direct("/metrics", Authorization=f"Bearer {token}"))[0] == 403:  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.2)  # reviews are used again for some seconds
        assert "windlass_leader 1.0" in answer[1].splitlines()

    tell(story)


def test_a_replica_that_follows_says_so(tell):
    async def story(tenants: Tenants) -> None:
        tenants.place.endpoints.leader = lambda: "windlass-1_7"
        await tenants.place.endpoints.follow()
        with pytest.raises(ApiError) as caught:
            await tenants.ann.get(f"{PREFIX}/namespaces/team-a/jobs")
        assert caught.value.status == 503

    tell(story)
