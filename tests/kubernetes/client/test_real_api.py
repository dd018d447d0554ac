"""A real API server behaves as the fake one."""

import asyncio
import contextlib
import itertools

import orjson
import pytest
from planes.fault_proxy import FaultProxy, Rule
from planes.tidy import clear

import strays
from windlass.backends.kubernetes.client import objects
from windlass.backends.kubernetes.client.access import from_kubeconfig
from windlass.backends.kubernetes.client.api_errors import ApiError, Unreachable
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.object_cache import ObjectCache
from windlass.backends.kubernetes.client.reflector import reflect
from windlass.backends.kubernetes.client.resources import CONFIG_MAPS, DISRUPTION_BUDGETS, NAMESPACES, PODS, named, path
from windlass.backends.kubernetes.client.watch import Scope, watch
from windlass.controlplane.fake_kubelet import FakeKubelets
from windlass.controlplane.tcp_proxy import TcpProxy

NS = "default"
NUMBERS = itertools.count()


@pytest.fixture
def name():
    """A name that no other test has used."""
    return f"client-{next(NUMBERS)}"


@contextlib.asynccontextmanager
async def connected(plane, url=None):
    """As the administrator, directly or through a proxy."""
    access = from_kubeconfig(str(plane.user("client-tests", ["system:masters"], url=url)))
    async with Connection(access) as connection:
        yield connection


@contextlib.asynccontextmanager
async def with_nodes(plane, *nodes):
    async with plane.api() as api, FakeKubelets(plane.admin) as fake:
        await fake.add_nodes(nodes)
        try:
            yield
        finally:
            await clear(api)


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NS}, "data": data}


def pod(name, **labels):
    spec = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "any"}]}
    metadata = {"name": name, "namespace": NS, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def running(connection, name):
    async with asyncio.timeout(strays.TIMEOUT_S * 3):
        while True:
            if (await connection.get(PODS, NS, name))["status"]["phase"] == "Running":
                return
            await asyncio.sleep(0.1)


async def refused(request):
    with pytest.raises(ApiError) as raised:
        await request
    return raised.value


def test_objects_are_created_changed_and_deleted(apiserver, name):
    async def story():
        async with connected(apiserver) as connection:
            first = await connection.create(CONFIG_MAPS, config_map(name, a="1"))
            assert (await refused(connection.create(CONFIG_MAPS, config_map(name)))).is_exists

            merged = await connection.patch(CONFIG_MAPS, NS, name, {"data": {"b": "2"}})
            assert merged["data"] == {"a": "1", "b": "2"}
            assert (await refused(connection.replace(CONFIG_MAPS, first))).is_conflict
            stale = {"metadata": {"resourceVersion": first["metadata"]["resourceVersion"]}, "data": {"c": "3"}}
            assert (await refused(connection.patch(CONFIG_MAPS, NS, name, stale))).is_conflict

            steps = [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "remove", "path": "/data/a"}]
            assert (await connection.patch(CONFIG_MAPS, NS, name, steps, kind="json"))["data"] == {"b": "2"}
            assert (await refused(connection.patch(CONFIG_MAPS, NS, name, steps, kind="json"))).is_invalid
            applied = await connection.patch(CONFIG_MAPS, NS, name, config_map(name, d="4"), kind="apply")
            assert applied["data"] == {"b": "2", "d": "4"}

            assert (await refused(connection.delete(CONFIG_MAPS, NS, name, uid="another"))).is_conflict
            await connection.delete(CONFIG_MAPS, NS, name, uid=first["metadata"]["uid"])
            assert (await refused(connection.get(CONFIG_MAPS, NS, name))).is_missing

    asyncio.run(story())


def test_refusals_are_distinguished(apiserver, name):
    async def story():
        async with connected(apiserver) as connection:
            bad = await refused(connection.create(CONFIG_MAPS, config_map("Not A Name")))
            assert (bad.is_invalid, bad.reason) == (True, "Invalid")
            assert (await refused(connection.list(named("nobody.dev/v1", "things", "Thing")))).is_missing
            await connection.create(NAMESPACES, {"metadata": {"name": name}})
            await connection.delete(NAMESPACES, None, name)
            late = {"metadata": {"name": "x", "namespace": name}}
            refusal = await refused(connection.create(CONFIG_MAPS, late))
            assert (refusal.is_terminating, refusal.is_denial) == (True, False)
        stranger = from_kubeconfig(str(apiserver.user("stranger")))
        async with Connection(stranger) as connection:
            denied = await refused(connection.list(PODS))
            assert (denied.is_forbidden, denied.is_denial) == (True, True)

    asyncio.run(story())


def test_a_pod_is_bound_once_and_only_with_its_uid(apiserver, name):
    async def story():
        async with connected(apiserver) as connection, with_nodes(apiserver, "n1", "n2"):
            uid = (await connection.create(PODS, pod(name)))["metadata"]["uid"]
            assert (await refused(connection.bind(NS, name, "another", "n1"))).is_conflict
            await connection.bind(NS, name, uid, "n1")
            assert (await connection.get(PODS, NS, name))["spec"]["nodeName"] == "n1"
            assert (await refused(connection.bind(NS, name, uid, "n2"))).is_conflict
            assert (await refused(connection.bind(NS, "missing", uid, "n1"))).is_missing

    asyncio.run(story())


def test_a_bind_outlasts_a_full_etcd_which_the_api_server_reports_as_a_conflict(apiserver, name):
    async def story():
        async with connected(apiserver) as connection, with_nodes(apiserver, "n1"):
            uid = (await connection.create(PODS, pod(name)))["metadata"]["uid"]
            async with apiserver.etcd_full():
                target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
                body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
                error = await refused(connection.request("POST", path(PODS, NS, name, "binding"), body=body))
                assert (error.is_conflict, "etcdserver" in error.message) == (True, True)
                binding = asyncio.create_task(connection.bind(NS, name, uid, "n1"))
                await asyncio.sleep(0.1)
            await binding
            assert (await connection.get(PODS, NS, name))["spec"]["nodeName"] == "n1"

    asyncio.run(story())


def test_writes_whose_replies_are_lost_count_as_done(apiserver, name):
    async def story():
        lost = [Rule(0, "POST", performed=True, times=1), Rule(503, "POST", "/binding", performed=True, times=1)]
        async with (
            FaultProxy(apiserver, lost) as proxy,
            connected(apiserver, proxy.url) as connection,
            with_nodes(apiserver, "n1"),
        ):
            error = await refused(connection.create(PODS, pod(name)))
            assert (error.is_exists, error.unsure) == (True, True)
            uid = (await connection.get(PODS, NS, name))["metadata"]["uid"]
            await connection.bind(NS, name, uid, "n1")
            assert [rule.applied for rule in lost] == [1, 1]

    asyncio.run(story())


def test_a_busy_server_gets_every_write_once(apiserver, name):
    async def story():
        busy = [Rule(429, "POST", retry_after=0, chance=0.3), Rule(503, "POST", retry_after=0, chance=0.1)]
        async with FaultProxy(apiserver, busy, seed=5) as proxy, connected(apiserver, proxy.url) as connection:
            maps = [config_map(f"{name}-{number}") for number in range(60)]
            made = await asyncio.gather(*(connection.create(CONFIG_MAPS, each) for each in maps))
            assert len({each["metadata"]["uid"] for each in made}) == 60
            assert sum(rule.applied for rule in busy) > 5

    asyncio.run(story())


def test_a_budget_forbids_an_eviction_until_it_is_deleted(apiserver, name):
    async def story():
        async with connected(apiserver) as connection, with_nodes(apiserver, "n1"):
            uid = (await connection.create(PODS, pod(name, app=name)))["metadata"]["uid"]
            await connection.bind(NS, name, uid, "n1")
            await running(connection, name)
            spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}}
            await connection.create(DISRUPTION_BUDGETS, {"metadata": {"name": name, "namespace": NS}, "spec": spec})
            assert (await refused(connection.evict(NS, name, 0, uid=uid))).is_budget
            await connection.delete(DISRUPTION_BUDGETS, NS, name)
            assert (await refused(connection.evict(NS, name, 0, uid="another"))).is_conflict
            await connection.evict(NS, name, 0, uid=uid)
            assert (await refused(connection.get(PODS, NS, name))).is_missing

    asyncio.run(story())


def test_a_long_list_is_read_completely(apiserver, name):
    async def story():
        async with connected(apiserver) as connection:
            maps = [config_map(f"{name}-{number}") for number in range(1100)]
            for each in maps:
                each["metadata"]["labels"] = {"of": name}
            for first in range(0, len(maps), 50):  # a create without a timely answer is repeated, and refused
                await asyncio.gather(*(connection.create(CONFIG_MAPS, each) for each in maps[first : first + 50]))
            found = await connection.list(CONFIG_MAPS, NS, selector=f"of={name}")
            assert len({each["metadata"]["uid"] for each in found}) == 1100

    asyncio.run(story())


class Kept:
    """The objects that result from a reflector's changes, for comparison with the server."""

    def __init__(self, scope):
        self.objects, self.counts, self.fresh = {}, {}, ObjectCache()
        self._scope = scope
        self.synced = asyncio.Event()

    def apply(self, changes):
        for change in changes:
            meta = change.object["metadata"]
            held = self.objects.get(meta["name"])
            assert (held is None) == (change.kind == "added"), f"{change.kind} of {meta['name']}"
            self.counts[change.kind] = self.counts.get(change.kind, 0) + 1
            if change.kind == "deleted":
                del self.objects[meta["name"]]
            else:
                self.objects[meta["name"]] = change.object

    async def follow(self, connection):
        await reflect(
            connection,
            CONFIG_MAPS,
            decode=orjson.loads,
            apply=self.apply,
            synced=self.synced.set,
            cache=self.fresh,
            namespace=NS,
            selector=self._scope,
            silence=5.0,
        )

    async def until_it_is(self, connection):
        """Waits until the kept objects equal those of the server."""
        async with asyncio.timeout(strays.TIMEOUT_S * 3):
            while True:
                truth = {
                    each["metadata"]["name"]: each
                    for each in await connection.list(CONFIG_MAPS, NS, selector=self._scope)
                }
                kept = {name: each["metadata"]["resourceVersion"] for name, each in self.objects.items()}
                if kept == {name: each["metadata"]["resourceVersion"] for name, each in truth.items()}:
                    return
                await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def kept(connection, scope):
    following = Kept(scope)
    task = asyncio.create_task(following.follow(connection))
    await asyncio.wait_for(following.synced.wait(), 60)
    try:
        yield following
        assert not task.done()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def life_of(connection, name, scope):
    """Creates a config map, changes it three times, and deletes every second one."""
    made = config_map(name)
    made["metadata"]["labels"] = {"of": scope}
    await connection.create(CONFIG_MAPS, made)
    for number in range(3):
        await connection.patch(CONFIG_MAPS, NS, name, {"data": {"number": str(number)}})
    if name.endswith(("0", "2", "4", "6", "8")):
        await connection.delete(CONFIG_MAPS, NS, name)


def test_the_cache_equals_the_server_although_the_connection_breaks_often(apiserver, name):
    async def story():
        async with (
            TcpProxy(apiserver.url) as wire,
            connected(apiserver) as direct,
            connected(apiserver, wire.url) as through,
            kept(through, f"of={name}") as following,
        ):
            for round in range(20):
                await asyncio.gather(*(life_of(direct, f"{name}-{round}-{number}", name) for number in range(10)))
                wire.cut()
            await following.until_it_is(direct)
            assert len(following.objects) == 100

    asyncio.run(story())


def test_events_lost_by_a_silent_connection_arrive_later(apiserver, name):
    async def story():
        async with (
            TcpProxy(apiserver.url) as wire,
            connected(apiserver) as direct,
            connected(apiserver, wire.url) as through,
            kept(through, f"of={name}") as following,
        ):
            wire.drops = True
            await asyncio.gather(*(life_of(direct, f"{name}-{number}", name) for number in range(10)))
            assert not following.objects
            wire.drops = False
            wire.cut()
            await following.until_it_is(direct)
            assert len(following.objects) == 5

    asyncio.run(story())


def test_a_killed_and_restarted_server_loses_no_events(apiserver, name):
    async def story():
        async with connected(apiserver) as connection, kept(connection, f"of={name}") as following:
            await asyncio.gather(*(life_of(connection, f"{name}-a{number}", name) for number in range(10)))
            await apiserver.restart(apiserver.apiserver)
            await asyncio.gather(*(life_of(connection, f"{name}-b{number}", name) for number in range(10)))
            await following.until_it_is(connection)
            assert len(following.objects) == 10
            with pytest.raises(ApiError) as raised:
                async for _ in watch(connection, CONFIG_MAPS, "1", Scope(), silence=10.0):
                    pass
            assert raised.value.is_gone

    asyncio.run(story())


def test_a_writer_reads_its_own_write(apiserver, name):
    async def story():
        async with connected(apiserver) as connection, kept(connection, f"of={name}") as following:
            made = config_map(name, number="0")
            made["metadata"]["labels"] = {"of": name}
            following.apply(following.fresh.put(await connection.create(CONFIG_MAPS, made)))
            for number in range(50):
                reply = await connection.patch(CONFIG_MAPS, NS, name, {"data": {"number": str(number)}})
                following.apply(following.fresh.put(reply))
                held = following.fresh.get(NS, name)
                assert held is not None
                assert held["data"] == {"number": str(number)}
            await following.until_it_is(connection)

    asyncio.run(story())


def test_pods_and_nodes_of_a_real_server_are_read(apiserver, name):
    async def story():
        async with connected(apiserver) as connection, with_nodes(apiserver, "n1"):
            uid = (await connection.create(PODS, pod(name, app=name)))["metadata"]["uid"]
            await connection.bind(NS, name, uid, "n1")
            await running(connection, name)
            [found] = (await connection.list_decoded(PODS, objects.pod, selector=f"app={name}")).objects
            assert (found.metadata.uid, found.spec.node_name, found.status.phase) == (uid, "n1", "Running")
            assert found.status.container_statuses[0].state.running is not None
            [node] = (
                await connection.list_decoded(named("v1", "nodes", "Node", namespaced=False), objects.node)
            ).objects
            assert node.metadata.name == "n1"
            assert node.status.allocatable["cpu"]

    asyncio.run(story())


def test_a_stopped_server_is_unreachable(apiserver):
    async def story():
        async with TcpProxy(apiserver.url) as wire, connected(apiserver, wire.url) as connection:
            wire.refuses = True
            with pytest.raises(Unreachable):
                await connection.list(CONFIG_MAPS, within=0.5)
            wire.refuses = False
            await connection.list(CONFIG_MAPS)

    asyncio.run(story())
