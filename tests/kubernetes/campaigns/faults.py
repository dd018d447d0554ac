"""Carries out one planned fault: each is a context manager that begins the fault, and ends it on exit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace

from faults import jobs
from faults.fault_scenario import FaultScenario
from planes.fault_proxy import FaultProxy, Rule

from windlass.controlplane.fake_pod import End, FakePod
from windlass.controlplane.processes import Server

from .schedule import PlannedFault

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
NOT_WATCH = "^(?!.*watch=)"
_CHANCE = 0.5
"""Share of the requests that a burst refuses."""
_LONGEST_STEP_MS = 3_600_000
_REFUSED_BY_WEBHOOK = (
    ("", "v1", "pods", "CREATE"),
    ("", "v1", "pods/binding", "CREATE"),
    ("windlass.dev", "v1alpha1", "trainingjobs/status", "UPDATE"),
    ("kubeflow.org", "*", "*/status", "UPDATE"),
    ("", "v1", "services", "CREATE"),
)
"""Group, version, resource and operation of requests for which the webhook that is down is called."""


@dataclass
class Clock:
    """The clock of the operators: that of the machine, and an offset in ms."""

    time: Callable[[], int]
    offset: int = 0

    def __call__(self) -> int:
        return self.time() + self.offset


@dataclass
class Rig:
    """Cluster, proxy and clock that faults act on. Operators reach the API server through `proxy`."""

    on: FaultScenario
    proxy: FaultProxy
    clock: Clock
    server_down: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while one of the servers is away: there is no rule for two at once."""


Fault = Callable[[Rig, PlannedFault], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def leader_killed(rig: Rig, _fault: PlannedFault) -> AsyncIterator[None]:
    """Kills the leading replica, or one if none leads, and starts another."""
    living = rig.on.replicas.living
    rig.on.replicas.kill(next((each for each in living if each.leads), living[0]))
    await rig.on.replicas.start(rig.proxy.url)
    yield


def _killed(server_of: Callable[[Rig], Server | None]) -> Fault:
    @asynccontextmanager
    async def killed(rig: Rig, _fault: PlannedFault) -> AsyncIterator[None]:
        server = server_of(rig)
        assert server is not None
        async with rig.server_down:
            server.kill()
            try:
                yield
            finally:
                await rig.on.plane.restart(server)

    return killed


@asynccontextmanager
async def connections_cut(rig: Rig, _fault: PlannedFault) -> AsyncIterator[None]:
    """Ends all connections of all operators, watches and requests."""
    for each in rig.on.replicas.living:
        each.proxy.cut()
    yield


@asynccontextmanager
async def watches_stalled(rig: Rig, _fault: PlannedFault) -> AsyncIterator[None]:
    """Watches stay open and deliver nothing."""
    rig.proxy.mute = True
    try:
        yield
    finally:
        rig.proxy.mute = False


def _burst(*rules: Rule) -> Fault:
    @asynccontextmanager
    async def burst(rig: Rig, _fault: PlannedFault) -> AsyncIterator[None]:
        given = [replace(each, applied=0) for each in rules]
        rig.proxy.rules += given
        try:
            yield
        finally:
            rig.proxy.rules[:] = [each for each in rig.proxy.rules if not any(each is mine for mine in given)]

    return burst


@asynccontextmanager
async def watches_expired(rig: Rig, fault: PlannedFault) -> AsyncIterator[None]:
    """Ends every connection; every watch that is requested again is answered 410, so that lists follow."""
    async with _burst(Rule(410, "GET", "watch="))(rig, fault):
        for each in rig.on.replicas.living:
            each.proxy.cut()
        yield


@asynccontextmanager
async def webhook_down(rig: Rig, fault: PlannedFault) -> AsyncIterator[None]:
    """Registers an admission webhook that nothing serves; requests of one kind fail."""
    api, name = rig.on.api, f"down-{fault.at:.3f}"
    body = _webhook(name, *_REFUSED_BY_WEBHOOK[int(fault.choice * len(_REFUSED_BY_WEBHOOK))])
    await rig.on.retry(lambda: api.post(WEBHOOKS, body))
    try:
        yield
    finally:
        await rig.on.retry(lambda: api.delete(f"{WEBHOOKS}/{name}"))


def _webhook(name: str, group: str, version: str, resource: str, operation: str) -> jobs.Manifest:
    rule = {"apiGroups": [group], "apiVersions": [version], "resources": [resource], "operations": [operation]}
    hook = {
        "name": "down.campaign.example",
        "clientConfig": {"url": "https://127.0.0.1:9/"},
        "rules": [rule],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
    }
    version = "admissionregistration.k8s.io/v1"
    return {
        "apiVersion": version,
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [hook],
    }


@asynccontextmanager
async def node_not_ready(rig: Rig, fault: PlannedFault) -> AsyncIterator[None]:
    """A node does not answer, and is marked so; its containers run on."""
    nodes = sorted(name for name, node in rig.on.kubelets.nodes.items() if node.answers.is_set())
    if not nodes:
        yield
        return
    name = nodes[int(fault.choice * len(nodes))]
    await rig.on.retry(lambda: rig.on.kubelets.silence(name))
    try:
        yield
    finally:
        await rig.on.retry(lambda: rig.on.kubelets.revive(name))


@asynccontextmanager
async def clock_step(rig: Rig, fault: PlannedFault) -> AsyncIterator[None]:
    """Steps the operators' clock by up to an hour, forward or back, and to the machine's time again."""
    rig.clock.offset = int((2 * fault.choice - 1) * _LONGEST_STEP_MS)
    try:
        yield
    finally:
        rig.clock.offset = 0


@asynccontextmanager
async def etcd_full(rig: Rig, _fault: PlannedFault) -> AsyncIterator[None]:
    """Raises etcd's alarm for a full disk: every write is refused, and reads go on."""
    async with rig.server_down, rig.on.plane.etcd_full():
        yield


@asynccontextmanager
async def rank_killed(rig: Rig, fault: PlannedFault) -> AsyncIterator[None]:
    """Kills the containers of a running pod whose gang restarts as a whole."""
    found = sorted(
        (each for each in rig.on.kubelets.pods.values() if _may_be_killed(each)),
        key=lambda pod: str(pod.pod["metadata"]["name"]),
    )
    if found:
        end = found[int(fault.choice * len(found))].requested_end
        assert end is not None
        end.set_result(End(code=137))
    yield


def _may_be_killed(pod: FakePod) -> bool:
    owners = pod.pod["metadata"].get("ownerReferences", ())
    kinds = {each["kind"] for each in owners}
    waits = pod.requested_end is not None and not pod.requested_end.done()
    return pod.alive and waits and "TrainingJob" in kinds and pod.script.code == 0


FAULTS: dict[str, Fault] = {
    "leader_killed": leader_killed,
    "apiserver_killed": _killed(lambda rig: rig.on.plane.apiserver),
    "etcd_killed": _killed(lambda rig: rig.on.plane.etcd),
    "controller_manager_killed": _killed(lambda rig: rig.on.plane.controllers),
    "connections_cut": connections_cut,
    "watches_stalled": watches_stalled,
    "watches_expired": watches_expired,
    "burst_of_500": _burst(Rule(500, path=NOT_WATCH, chance=_CHANCE)),
    "burst_of_409": _burst(
        Rule(409, "PATCH", chance=_CHANCE),
        Rule(409, "PUT", chance=_CHANCE),
        Rule(409, "POST", "/pods$", chance=_CHANCE),
    ),
    "burst_of_429": _burst(Rule(429, retry_after=1, chance=_CHANCE / 2), Rule(429, chance=_CHANCE / 2)),
    "answers_lost": _burst(
        Rule(0, path=NOT_WATCH, chance=_CHANCE / 4), Rule(0, path=NOT_WATCH, chance=_CHANCE / 4, performed=True)
    ),
    "webhook_down": webhook_down,
    "node_not_ready": node_not_ready,
    "clock_step": clock_step,
    "etcd_full": etcd_full,
    "rank_killed": rank_killed,
}
