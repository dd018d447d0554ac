"""The tests' own control plane: its servers, fake nodes, proxies and certificates work as documented."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import control_plane
import pytest
from planes.background import Background
from planes.fault_proxy import FaultProxy, Rule
from planes.tidy import clear

import strays
from windlass.controlplane import kubeconfig
from windlass.controlplane.api import Api, ApiError
from windlass.controlplane.build import place_of
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.fake_kubelet import FakeKubelets, names
from windlass.controlplane.fake_pod import End, Script
from windlass.controlplane.processes import Server
from windlass.controlplane.programs import PROGRAMS
from windlass.controlplane.services import Names, reply
from windlass.controlplane.tcp_proxy import TcpProxy

PODS = "/api/v1/namespaces/default/pods"


def test_a_plane_started_by_hand_waits_longer_than_its_nodes_heartbeats() -> None:
    parser = control_plane.parser()
    for words in ((), ("--heartbeat", "2"), ("--heartbeat", "0")):
        heartbeat = parser.parse_args(["up", "--controllers", *words]).heartbeat
        assert control_plane.grace_of(heartbeat) >= max(4 * heartbeat, 8)


def pod(name: str, script: Script | None = None, policy: str = "Never") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": (script or Script()).annotation()},
        "spec": {
            "schedulerName": "the test itself",
            "restartPolicy": policy,
            "containers": [{"name": "main", "image": "any", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        },
    }


async def start(api: Api, name: str, node: str, script: Script | None = None, policy: str = "Never") -> None:
    await api.post(PODS, pod(name, script, policy))
    target = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": node}}
    await api.post(f"{PODS}/{name}/binding", target)


async def until(api: Api, name: str, found: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """Waits until `found` is true for a pod, and returns it."""
    async with asyncio.timeout(strays.TIMEOUT_S * 3):
        while True:
            if found(one := await api.get(f"{PODS}/{name}")):
                return one
            await asyncio.sleep(0.1)


async def until_gone(api: Api, name: str) -> None:
    await until_missing(api, f"{PODS}/{name}")


async def until_missing(api: Api, path: str) -> None:
    async with asyncio.timeout(strays.TIMEOUT_S * 3):
        while True:
            try:
                await api.get(path)
            except ApiError as failed:
                if failed.status == 404:
                    return
                raise
            await asyncio.sleep(0.1)


def phase(wanted: str) -> Callable[[dict[str, Any]], bool]:
    return lambda one: one["status"]["phase"] == wanted


def state(one: dict[str, Any]) -> dict[str, Any]:
    return one["status"]["containerStatuses"][0]["state"]


def restarts(one: dict[str, Any]) -> int:
    return sum(each["restartCount"] for each in one["status"].get("containerStatuses", ()))


@asynccontextmanager
async def cluster_of(plane: ControlPlane, nodes: Sequence[str]) -> AsyncIterator[tuple[Api, FakeKubelets]]:
    async with plane.api() as api, FakeKubelets(plane.admin) as fake:
        await fake.add_nodes(nodes)
        try:
            yield api, fake
        finally:
            await clear(api)


def test_a_bound_pod_runs_and_ends_on_request(apiserver: ControlPlane) -> None:
    async def scenario() -> None:
        async with cluster_of(apiserver, ["n1"]) as (api, fake):
            await start(api, "good", "n1")
            running = await until(api, "good", phase("Running"))
            assert running["status"]["podIP"]
            await fake.end("default", "good")
            assert state(await until(api, "good", phase("Succeeded")))["terminated"]["exitCode"] == 0

            await start(api, "bad", "n1")
            await fake.end("default", "bad", End(137, "OOMKilled"))
            assert state(await until(api, "bad", phase("Failed")))["terminated"]["reason"] == "OOMKilled"

            await start(api, "evicted", "n1")
            await fake.end("default", "evicted", End(evicted="The node was low on resource: memory."))
            assert (await until(api, "evicted", phase("Failed")))["status"]["reason"] == "Evicted"

    asyncio.run(scenario())


def test_a_script_defines_a_pods_own_behaviour(apiserver: ControlPlane) -> None:
    async def scenario() -> None:
        async with cluster_of(apiserver, ["n1"]) as (api, _):
            await start(api, "works", "n1", Script(work=0.05, code=3))
            assert state(await until(api, "works", phase("Failed")))["terminated"]["exitCode"] == 3

            await start(api, "again", "n1", Script(work=0.05, code=3), policy="OnFailure")
            await until(api, "again", lambda one: restarts(one) >= 2)

            await start(api, "imageless", "n1", Script(image_error="no such image"))
            stuck = await until(api, "imageless", lambda one: "ImagePullBackOff" in str(one["status"]))
            assert stuck["status"]["phase"] == "Pending"

    asyncio.run(scenario())


def test_a_deleted_pod_ends_within_its_grace(apiserver: ControlPlane) -> None:
    async def scenario() -> None:
        async with cluster_of(apiserver, ["n1"]) as (api, fake):
            for name, obeys in (("obedient", True), ("stubborn", False)):
                await start(api, name, "n1", Script(obeys=obeys))
                await until(api, name, phase("Running"))
                await api.delete(f"{PODS}/{name}", gracePeriodSeconds=1)
                await until_gone(api, name)
            assert not list(fake.alive())

    asyncio.run(scenario())


def test_a_node_refuses_pods_beyond_its_devices(apiserver: ControlPlane) -> None:
    async def scenario() -> None:
        async with cluster_of(apiserver, ["n1"]) as (api, fake):
            for index in range(9):  # of one device each, where there are eight
                await start(api, f"p{index}", "n1")
                await until(api, f"p{index}", phase("Running" if index < 8 else "Failed"))
            assert [each["metadata"]["name"] for each in fake.refused] == ["p8"]
            assert (await api.get(f"{PODS}/p8"))["status"]["reason"] == "OutOfnvidia.com/gpu"
            await fake.end("default", "p0")
            await until(api, "p0", phase("Succeeded"))
            await start(api, "next", "n1")
            await until(api, "next", phase("Running"))

    asyncio.run(scenario())


def test_a_silent_node_keeps_its_containers_and_pods(apiserver: ControlPlane) -> None:
    async def scenario() -> None:
        async with cluster_of(apiserver, ["n1"]) as (api, fake):
            await start(api, "stays", "n1")
            await until(api, "stays", phase("Running"))
            await fake.silence("n1")
            node = await api.get("/api/v1/nodes/n1")
            assert {taint["key"] for taint in node["spec"]["taints"]} == {"node.kubernetes.io/unreachable"}
            await api.delete(f"{PODS}/stays", gracePeriodSeconds=1)
            await until(api, "stays", lambda one: "deletionTimestamp" in one["metadata"])
            assert [each["metadata"]["name"] for each in fake.alive()] == ["stays"]

            await fake.revive("n1")
            await until_gone(api, "stays")
            assert not list(fake.alive())
            assert "taints" not in (await api.get("/api/v1/nodes/n1"))["spec"]

    asyncio.run(scenario())


def test_killed_servers_restart_with_their_data(apiserver: ControlPlane) -> None:
    async def scenario() -> None:
        async with cluster_of(apiserver, ["n1"]) as (api, fake):
            for server in (apiserver.etcd, apiserver.apiserver):
                await start(api, server.name, "n1")
                await apiserver.restart(server)
                await until(api, server.name, phase("Running"))
                await fake.end("default", server.name)
                await until(api, server.name, phase("Succeeded"))

    asyncio.run(scenario())


def test_a_synchronous_test_runs_its_nodes_in_the_background(apiserver: ControlPlane) -> None:
    with Background() as there:
        api = there.enter(apiserver.api())
        fake = there.enter(FakeKubelets(apiserver.admin))
        there.do(fake.add_nodes(["n1"]))
        there.do(start(api, "pod", "n1"))
        there.do(fake.end("default", "pod", End(1)))
        there.do(until(api, "pod", phase("Failed")))
        there.do(clear(api))


def test_a_user_without_rights_is_refused(apiserver: ControlPlane) -> None:
    async def scenario() -> None:
        access = kubeconfig.read(apiserver.user("somebody", ["some-group"]))
        async with Api(access) as api:
            with pytest.raises(ApiError, match='403 Forbidden: pods is forbidden: User "somebody" cannot list'):
                await api.get(PODS)

    asyncio.run(scenario())


def test_a_service_account_gets_a_token(apiserver: ControlPlane) -> None:
    async def scenario() -> None:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "operator"}}
        async with apiserver.api() as admin:
            await admin.post("/api/v1/namespaces/default/serviceaccounts", account)
        access = kubeconfig.read(await apiserver.service_account("default", "operator"))
        async with Api(access) as api:
            with pytest.raises(ApiError, match='User "system:serviceaccount:default:operator" cannot list'):
                await api.get(PODS)

    asyncio.run(scenario())


def test_forty_nodes_run_their_pods(apiserver: ControlPlane) -> None:
    async def scenario() -> None:
        nodes = names(40)
        async with cluster_of(apiserver, nodes) as (api, fake):
            await asyncio.gather(*(start(api, f"on-{node}", node) for node in nodes))
            for node in nodes:
                await until(api, f"on-{node}", phase("Running"))
            assert len(list(fake.alive())) == 40

    asyncio.run(scenario())


def test_a_clients_connection_can_be_cut_and_silenced(apiserver: ControlPlane) -> None:
    async def scenario() -> None:
        async with TcpProxy(apiserver.url) as proxy:
            user = kubeconfig.read(apiserver.user("admin", ["system:masters"], url=proxy.url))
            async with Api(user) as api:
                version = (await api.get(PODS))["metadata"]["resourceVersion"]
                events = api.watch(PODS, version)
                await api.post(PODS, pod("seen"))
                assert (await anext(events))["type"] == "ADDED"
                proxy.refuses = True
                proxy.cut()
                with pytest.raises(aiohttp.ClientError):
                    await anext(events)
                with pytest.raises(aiohttp.ClientError):
                    await api.get(PODS)

                proxy.refuses, proxy.drops = False, True
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(api.get(PODS), 0.3)
                proxy.drops = False
                proxy.cut()
                await clear(api)

    asyncio.run(scenario())


def test_requests_can_be_refused_and_answers_lost(apiserver: ControlPlane) -> None:
    async def scenario() -> None:
        rules = [
            Rule(429, "POST", "/pods$", retry_after=1, times=1),
            Rule(0, "POST", "/pods$", performed=True, times=1),
        ]
        async with FaultProxy(apiserver, rules) as proxy, apiserver.api() as admin:
            async with Api(replace(apiserver.admin, url=proxy.url)) as api:
                with pytest.raises(ApiError, match="429 TooManyRequests"):
                    await api.post(PODS, pod("refused"))
                with pytest.raises(aiohttp.ClientError):
                    await api.post(PODS, pod("answer-lost"))
                assert [each["metadata"]["name"] for each in (await api.get(PODS))["items"]] == ["answer-lost"]
                version = (await api.get(PODS))["metadata"]["resourceVersion"]
                event = asyncio.create_task(anext(api.watch(PODS, version)))
                await api.post(PODS, pod("watched"))
                assert (await event)["type"] == "ADDED"
            await clear(admin)

    asyncio.run(scenario())


def test_a_token_keeps_its_rights_through_the_fault_proxy(apiserver: ControlPlane) -> None:
    async def scenario() -> None:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "through"}}
        async with apiserver.api() as admin, FaultProxy(apiserver) as proxy:
            await admin.post("/api/v1/namespaces/default/serviceaccounts", account)
            access = kubeconfig.read(await apiserver.service_account("default", "through", url=proxy.url))
            async with Api(access) as api:
                with pytest.raises(ApiError, match='User "system:serviceaccount:default:through" cannot list'):
                    await api.get(PODS)

    asyncio.run(scenario())


def test_controllers_detect_a_silent_node_and_evict_its_pods(controllers: ControlPlane) -> None:
    async def scenario() -> None:
        fake = FakeKubelets(controllers.admin, heartbeat=1.0, lease=4)
        async with controllers.api() as api, fake:
            await fake.add_nodes(["n1", "n2"])
            await start(api, "stays", "n1")
            await until(api, "stays", phase("Running"))
            await fake.silence("n1", noticed=False)
            await until(api, "stays", lambda one: "deletionTimestamp" in one["metadata"])
            assert [each["metadata"]["name"] for each in fake.alive()] == ["stays"]
            await fake.revive("n1")  # of a node that was deleted, the garbage collector would wait a minute
            await until_gone(api, "stays")
            await clear(api)

    asyncio.run(scenario())


def test_controllers_delete_dependents_and_namespaces(controllers: ControlPlane) -> None:
    async def scenario() -> None:
        maps = "/api/v1/namespaces/doomed/configmaps"
        async with controllers.api() as api:
            await api.post("/api/v1/namespaces", {"metadata": {"name": "doomed"}})
            owner = (await api.post(maps, {"metadata": {"name": "owner"}}))["metadata"]
            reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"]}
            await api.post(maps, {"metadata": {"name": "owned", "ownerReferences": [reference]}})
            await api.delete(f"{maps}/owner", propagationPolicy="Background")
            await until_missing(api, f"{maps}/owned")
            await api.delete("/api/v1/namespaces/doomed")
            await until_missing(api, "/api/v1/namespaces/doomed")

    asyncio.run(scenario())


def test_controllers_bind_a_pod_that_names_no_scheduler(controllers: ControlPlane) -> None:
    async def scenario() -> None:
        async with cluster_of(controllers, ["n1"]) as (api, _):
            plain = pod("plain")
            del plain["spec"]["schedulerName"]
            await api.post(PODS, plain)
            await until(api, "plain", phase("Running"))

    asyncio.run(scenario())


def test_native_pod_groups_are_served(apiserver: ControlPlane) -> None:
    async def scenario() -> None:
        groups = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
        async with apiserver.api() as api:
            await api.post(
                groups, {"metadata": {"name": "gang"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
            )
            member = pod("member")
            member["spec"]["schedulingGroup"] = {"podGroupName": "gang"}
            assert (await api.post(PODS, member))["spec"]["schedulingGroup"] == {"podGroupName": "gang"}
            await clear(api, "/apis/scheduling.k8s.io/v1alpha2/podgroups")

    asyncio.run(scenario())


def test_programs_of_kubebuilder_are_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etcd").touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert place_of(PROGRAMS["etcd"]) == tmp_path / "etcd"
    assert place_of(PROGRAMS["kubelet"]).parent.name == PROGRAMS["kubelet"].version


def test_names_of_services_resolve_to_addresses_of_their_pods() -> None:
    endpoints = [
        {"addresses": ["10.0.0.1"], "hostname": "job-worker-0", "conditions": {"ready": True}},
        {"addresses": ["10.0.0.2"], "hostname": "job-worker-1", "conditions": {"ready": False}},
    ]
    meta = {"uid": "1", "namespace": "default", "labels": {"kubernetes.io/service-name": "job"}}
    known = Names("10.96.0.1")
    known.apply("ADDED", {"metadata": meta, "endpoints": endpoints})
    assert known.addresses("job.default.svc.cluster.local") == ["10.0.0.1"]
    assert known.addresses("job-worker-0.job.default.svc.cluster.local.") == ["10.0.0.1"]
    assert known.addresses("kubernetes.default.svc.cluster.local") == ["10.96.0.1"]
    for unknown in ("job-worker-1.job.default.svc.cluster.local", "job.svc.cluster.local", "job", "other.example"):
        assert known.addresses(unknown) is None


def test_a_dns_query_is_answered() -> None:
    question = b"\x0akubernetes\x07default\x03svc\x07cluster\x05local\x00" + b"\x00\x01\x00\x01"
    header = b"\x12\x34\x01\x00\x00\x01" + bytes(6)
    answered = reply(header + question, Names("10.96.0.1"))
    assert answered == b"\x12\x34\x85\x80\x00\x01\x00\x01" + bytes(4) + question + (
        b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x01\x00\x04\x0a\x60\x00\x01"
    )
    elsewhere = reply(header + question.replace(b"local", b"nowhe"), Names("10.96.0.1"))
    assert elsewhere[3] & 0x0F == 3  # no such name


def test_a_server_that_ends_by_itself_is_started_again_and_a_killed_one_is_not(tmp_path: Path) -> None:
    server = Server("server", ["false"], tmp_path / "log")
    server.start()
    first = server.process
    assert first is not None
    first.wait()
    server.restart_if_ended()
    assert server.process not in (None, first)
    server.kill()
    server.restart_if_ended()
    assert server.process is None
