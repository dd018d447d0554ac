"""Tenants who ask for the name, the queue and the rank of others, on a real API server with the admission policy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from backend_host import Behaviour
from cli.cluster_terminal import Terminal
from operator_place import OperatorPlace, created, leading
from planes.tidy import clear

import strays
from windlass.backends.kubernetes.client.resources import path
from windlass.backends.kubernetes.cluster import admission_guard
from windlass.controlplane import kubeconfig
from windlass.controlplane.api import Api, ApiError
from windlass.controlplane.cluster import ControlPlane
from windlass.deploy.install.resources import resource_of
from windlass.deploy.job_policies import job_policies, user_policies
from windlass.deploy.pod_policy import pod_policies
from windlass.deploy.roles import user_roles
from windlass.jobs.kubernetes.schedules.schedule_state import StoredSchedule, state_text
from windlass.jobs.schedules.schedule import ScheduleStatus

pytestmark = pytest.mark.apiserver

OURS = "/apis/windlass.dev/v1alpha1"
NAMESPACES = "/api/v1/namespaces"
PODS = f"{NAMESPACES}/red/pods"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
USER, QUEUE, CANCEL = "windlass.dev/user", "windlass.dev/queue", "windlass.dev/cancel"
QUEUES = {"blue": {"namespaceSelector": {"matchLabels": {"color": "blue"}}, "quota": {"gpu": 2}}, "shared": {}}
CREATES_JOBS = {"apiGroups": ["windlass.dev"], "resources": ["trainingjobs"], "verbs": ["create"]}
WRITES_PODS = {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["create", "patch"]}
USES_SHARED = {
    "apiGroups": ["windlass.dev"],
    "resources": ["queues"],
    "resourceNames": ["shared"],
    "verbs": ["use"],
}


@dataclass
class Tenants:
    """Ann may edit the namespace red, and Bob blue; Cid may only create jobs in red. Ann and Cid may write pods there.

    In red the ServiceAccount `runner` may use the queue `shared`.
    """

    place: OperatorPlace
    plane: ControlPlane
    ann: Api
    bob: Api
    cid: Api

    async def accepted(self, namespace: str, name: str) -> tuple[str, str]:
        """Reason and message of the condition Accepted of a job, once it is false."""
        async with asyncio.timeout(strays.TIMEOUT_S):
            while True:
                job = await self.place.api.get(f"{jobs(namespace)}/{name}")
                for each in job.get("status", {}).get("conditions", ()):
                    if each["type"] == "Accepted":
                        assert each["status"] == "False"
                        return each["reason"], each["message"]
                await asyncio.sleep(0.1)

    async def running(self, job_id: str) -> dict[str, Any]:
        return await self.place.until(f"/v1/jobs/{job_id}", lambda job: job["phase"] == "Running")


def jobs(namespace: str) -> str:
    return f"{OURS}/namespaces/{namespace}/trainingjobs"


def job(name: str, annotations: Any = None, labels: Any = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "windlass.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "annotations": annotations or {}, "labels": labels or {}},
        "spec": {"command": [Behaviour.RUN.value], "image": "example.com/job:1", "gpus": 1, **spec},
    }


def pod(name: str, queue: str = "", account: str = "default", *, controlled: bool = False) -> dict[str, Any]:
    """A pod of another controller, or of none."""
    about = {"name": name, "labels": {QUEUE: queue} if queue else {}}
    if controlled:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "0", "controller": True}
        about["ownerReferences"] = [owner]
    containers = [{"name": "c", "image": "example.com/job:1"}]
    spec = {"schedulerName": "windlass", "serviceAccountName": account, "containers": containers}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}


async def refusal(request: Any) -> str:
    with pytest.raises(ApiError) as caught:
        await request
    assert caught.value.status == 403, caught.value
    return str(caught.value)


@asynccontextmanager
async def tenants(plane: ControlPlane, folder: Path) -> AsyncIterator[Tenants]:
    users = [Api(kubeconfig.read(plane.user(name))) for name in ("ann", "bob", "cid")]
    async with leading(plane, folder) as place, users[0] as ann, users[1] as bob, users[2] as cid:
        made: list[str] = []
        try:
            for where, body in objects():
                # without a controller-manager no namespace ends, so that the next test uses these again
                if await created(place.api, where, body) and where != NAMESPACES:
                    made.append(f"{where}/{body['metadata']['name']}")
            await until_guarded(place.api, cid, guarded=True)
            guard = await admission_guard.read_guard(place.world.connection)
            place.world.monitor.lookups.see_guard(guard)
            yield Tenants(place, plane, ann, bob, cid)
        finally:
            await clear(place.api, f"{OURS}/trainingjobs")
            for where in reversed(made):
                await place.api.delete(where)
            await until_guarded(place.api, cid, guarded=False)


def _installed() -> list[dict[str, Any]]:
    return [*user_roles(), *job_policies(), *pod_policies(), *user_policies()]


def objects() -> list[tuple[str, dict[str, Any]]]:
    """Roles, the policy, queues and namespaces with their members."""
    found = [(path(resource_of(each)), each) for each in _installed()]
    for name, spec in QUEUES.items():
        queue = {"apiVersion": "windlass.dev/v1alpha1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}
        found.append((f"{OURS}/queues", queue))
    for namespace, user in (("red", "ann"), ("blue", "bob")):
        found.append((NAMESPACES, {"metadata": {"name": namespace, "labels": {"color": namespace}}}))
        roles = f"{RBAC}/namespaces/{namespace}/rolebindings"
        found += [(roles, binding(user, "ClusterRole", role)) for role in ("windlass-view", "windlass-edit")]
    roles = {"creator": [CREATES_JOBS], "pods": [WRITES_PODS], "shared": [USES_SHARED]}
    for name, rules in roles.items():
        found.append((f"{RBAC}/namespaces/red/roles", {"metadata": {"name": name}, "rules": rules}))
    bindings = [binding("cid", "Role", "creator"), *(binding(user, "Role", "pods") for user in ("ann", "cid"))]
    runner = binding("runner", "Role", "shared")
    runner["subjects"] = [{"kind": "ServiceAccount", "name": "runner", "namespace": "red"}]
    found += [(f"{RBAC}/namespaces/red/rolebindings", each) for each in (*bindings, runner)]
    for namespace, account in (("red", "default"), ("red", "runner"), ("blue", "default")):
        found.append((f"{NAMESPACES}/{namespace}/serviceaccounts", {"metadata": {"name": account}}))
    return found


def binding(user: str, kind: str, role: str) -> dict[str, Any]:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    return {"metadata": {"name": f"{user}-{role}"}, "roleRef": reference, "subjects": [subject]}


async def until_guarded(api: Api, cid: Api, *, guarded: bool) -> None:
    """Waits until the API server has noticed that the policies for jobs and for pods are there, or gone."""
    async with asyncio.timeout(strays.TIMEOUT_S):
        while True:
            forged = api.post(jobs("default"), job("forged", {USER: "nobody"}), dryRun="All")
            unnamed = api.post(jobs("default"), job("unnamed"), dryRun="All")
            queued = cid.post(PODS, pod("queued", "shared"), dryRun="All")
            answer, made, queue = await asyncio.gather(forged, unnamed, queued, return_exceptions=True)
            if isinstance(made, dict):  # an API server that has just got kinds may answer 503 to the mutating policy
                is_named = USER in (made["metadata"].get("annotations") or {})
                is_kept_out = isinstance(queue, ApiError) and "may not use the queue" in str(queue)
                if (isinstance(answer, ApiError), is_named, is_kept_out) == (guarded, guarded, guarded):
                    return
            await asyncio.sleep(0.1)


@pytest.fixture
def tell(apiserver: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    monkeypatch.setattr(admission_guard, "_EFFECT_MS", 0)

    def run(story: Any) -> None:
        async def told() -> None:
            async with asyncio.timeout(strays.TIMEOUT_S * 4), tenants(apiserver, tmp_path) as place:
                await story(place)

        asyncio.run(told())

    return run


def test_a_tenant_gets_neither_the_name_nor_the_queue_nor_the_rank_of_others(tell, tmp_path):
    async def story(on: Tenants) -> None:
        ann, bob, place = on.ann, on.bob, on.place
        # 1. another user's name, at creation and afterwards
        text = await refusal(ann.post(jobs("red"), job("forged", {USER: "bob"})))
        assert f"the annotation {USER} names bob, and the job is created by ann" in text
        await ann.post(jobs("red"), job("mine", {USER: "ann"}))
        await ann.post(jobs("red"), job("unnamed"))
        for name, value in (("mine", "bob"), ("mine", None), ("unnamed", "bob")):
            change = {"metadata": {"annotations": {USER: value}}}
            assert "cannot be changed" in await refusal(ann.patch(f"{jobs('red')}/{name}", change))
        forged = {"metadata": {"annotations": {CANCEL: "bob"}}}
        assert "names who cancels the job: write ann" in await refusal(ann.patch(f"{jobs('red')}/mine", forged))
        assert (await on.running("red/mine"))["user"] == "ann"
        assert (await on.running("red/unnamed"))["user"] == "ann"  # the API server has written it
        # 2. another team's queue, by the spec, by the label, and by a change of a running job
        closed = "the queue blue is closed to the namespace red: it is open to namespaces with color in (blue)"
        await ann.post(jobs("red"), job("greedy", queue="blue"))
        await ann.post(jobs("red"), job("labelled", labels={QUEUE: "blue"}))
        assert await on.accepted("red", "greedy") == ("Waiting", closed)
        assert await on.accepted("red", "labelled") == ("Waiting", closed)
        anns = Terminal(on.plane.user("ann"), tmp_path)
        assert closed in await anns.done("why", "-n", "red", "greedy")
        await ann.patch(f"{jobs('red')}/mine", {"spec": {"queue": "blue"}})
        reason, message = await on.accepted("red", "mine")
        assert (reason, message.partition(";")[0]) == ("Denied", closed)
        assert (await place.get("/v1/jobs/red/mine"))["queue"] == "default"
        # 3. a rank before everybody
        await ann.post(jobs("red"), job("first", priority=1_000_000_000))
        assert "asks for priority 1000000000, and jobs of queue default may ask for 0" in str(
            await on.accepted("red", "first")
        )
        # 4. a user without the permission to use queues names none
        text = await refusal(on.cid.post(jobs("red"), job("quiet", queue="shared")))
        assert "cid may not use the queue shared in the namespace red" in text
        await on.cid.post(jobs("red"), job("quiet", {USER: "cid"}), dryRun="All")
        # 5. meanwhile the queue is there for those to whom it belongs, with the name that the command line writes
        bobs = Terminal(on.plane.user("bob"), tmp_path)
        words = ("submit", "-n", "blue", "--queue", "blue", "--gpus", "1", "--image", "example.com/job:1")
        name = await bobs.done(*words, "--name", "b", "--", Behaviour.RUN.value)
        found = await on.running(name)
        assert (found["user"], found["queue"]) == ("bob", "blue")
        await bobs.done("cancel", name)
        cancelled = await bob.get(f"{jobs('blue')}/{name.partition('/')[2]}")
        assert cancelled["metadata"]["annotations"][CANCEL] == "bob"

    tell(story)


def test_a_label_that_names_no_possible_queue_of_kueue_is_refused(tell):
    async def story(on: Tenants) -> None:
        bad = {"kueue.x-k8s.io/queue-name": "Bad.Queue"}
        in_spec = job("lost")
        in_spec["spec"]["labels"] = bad
        for body in (job("lost", labels=bad), in_spec):
            assert "expects the name of a LocalQueue of Kueue" in await refusal(on.ann.post(jobs("red"), body))
        good = {"kueue.x-k8s.io/queue-name": "research"}
        await on.ann.post(jobs("red"), job("found", labels=good), dryRun="All")

    tell(story)


def test_a_pod_of_another_controller_gets_no_queue_that_its_account_may_not_use(tell):
    async def story(on: Tenants) -> None:
        ann, cid, need = on.ann, on.cid, "that needs the verb use on queues.windlass.dev"
        # 1. a pod without a controller: its creator must have the right, at creation and afterwards
        text = await refusal(cid.post(PODS, pod("p", "shared")))
        account = "the ServiceAccount default of the pod may not use the queue shared in the namespace red"
        assert f"cid may not, and {account}: {need}" in text
        await cid.post(PODS, pod("p"))
        label = {"metadata": {"labels": {QUEUE: "shared"}}}
        assert account in await refusal(cid.patch(f"{PODS}/p", label))
        assert account in await refusal(cid.patch(f"{PODS}/p/status", label))
        await ann.patch(f"{PODS}/p", label)
        await cid.patch(f"{PODS}/p", {"metadata": {"labels": {"other": "label"}}})  # the queue is not changed by this
        # 2. a pod of a controller: the right of the request's user, here that controller, says nothing
        text = await refusal(ann.post(PODS, pod("q", "shared", controlled=True)))
        assert f": {account}: {need}" in text
        await cid.post(PODS, pod("q", "shared", "runner", controlled=True), dryRun="All")
        assert "the queue blue" in await refusal(cid.post(PODS, pod("q", "blue", "runner", controlled=True)))
        # 3. queues that need no right
        await cid.post(PODS, pod("q", "default", controlled=True), dryRun="All")
        # 4. labels of members of jobs, by which a pod forms no gang, do not smuggle a queue in
        member = pod("m", "shared")
        member["metadata"]["labels"]["windlass.dev/role"] = "worker"
        await cid.post(PODS, member)
        assert account in await refusal(cid.patch(f"{PODS}/m", {"metadata": {"labels": {"windlass.dev/role": None}}}))
        await on.place.api.delete(f"{PODS}/p")
        await on.place.api.delete(f"{PODS}/m")

    tell(story)


def test_a_run_has_the_user_and_the_queue_of_the_creator_of_its_schedule(tell):
    async def story(on: Tenants) -> None:
        where = f"{OURS}/namespaces/red/crontrainingjobs"
        template = {"metadata": {"annotations": {USER: "bob"}}, "spec": job("x", queue="shared")["spec"]}
        schedule = {
            "apiVersion": "windlass.dev/v1alpha1",
            "kind": "CronTrainingJob",
            "metadata": {"name": "hourly"},
            "spec": {"schedule": "0 * * * *", "suspend": True, "jobTemplate": template},
        }
        forged = {**schedule, "metadata": {"name": "hourly", "annotations": {USER: "bob"}}}
        assert "names bob" in await refusal(on.ann.post(where, forged))
        foreign = {"kind": "CronTrainingJob", "apiVersion": "windlass.dev/v1alpha1", "name": "hourly", "uid": "0"}
        stolen = job("stolen", {USER: "bob"})
        stolen["metadata"]["ownerReferences"] = [foreign]
        assert "names bob" in await refusal(on.ann.post(jobs("red"), stolen)), "only the operator makes runs"
        made = await on.ann.post(where, schedule)
        assert made["metadata"]["annotations"][USER] == "ann"
        # three hours later, in the state of the schedule
        text = state_text(StoredSchedule(ScheduleStatus(int(time.time() * 1000) - 3 * 3_600_000), "0 * * * * UTC"))
        await on.place.api.patch(f"{where}/hourly/status", {"status": {"windlass": {"state": text}}})
        await on.ann.patch(f"{where}/hourly", {"spec": {"suspend": False}})
        await on.place.world.schedules.take_due_turns()
        [run] = (await on.place.api.get(jobs("red")))["items"]
        assert run["metadata"]["annotations"][USER] == "ann"
        await on.place.until(f"/v1/jobs/red/{run['metadata']['name']}", lambda job: job["user"] == "ann")
        await on.place.api.delete(f"{where}/hourly")

    tell(story)
