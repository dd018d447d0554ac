"""Runs golden scripts through a real API server.

The script's jobs are TrainingJobs, its nodes Node objects, its queues Queue objects, its policy and topology levels the
one SchedulingPolicy; the ends of members are written into the status of their pods, as a kubelet does. The controller
receives all of it through the watches of a `KubernetesBackend`. Its decisions are committed into the jobs' objects and
carried out in pods: after each Launch the pods of the gang are on the chosen nodes, and after each Stop they are being
deleted.

Differences from a production cluster, and their reasons:
- Time is the script's: the backend's clock is set by hand, node changes are reported at once (`cluster_settling=0`).
- Events of the backend wait until the script has them. A cluster reports that a gang has started before one of its
  members ends, that it is gone when all have ended, and that a suspended job has another spec; scripts have the first
  two on lines of their own, and not the third.
- `saved`, `diagnosed` and `preempt` reach the controller directly: they come from a running program, from a diagnosis
  and from the controller's own API, not from the API server.
- The script's users are in annotations, as if admission had checked them.
- The controller may refuse jobs, as the local backend does, because the scripts expect it; the operator lets them wait.
- Names: `a` is `default/a` here, `s-1_0` the object `s-1--0`. Texts: an end is reported by pod and exit code here, by
  code or signal alone in the scripts; a job suspended through its object is suspended by "its owner".
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from kubernetes_host import cancel_task
from operator_account import operator_access
from planes.tidy import clear
from stage import Stage, _diagnosed, _exit, _job

import strays
from windlass.backends.kubernetes.backend import KubernetesBackend
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.cluster.admission_guard import AdmissionGuard
from windlass.backends.kubernetes.gangs.gang import Gang
from windlass.backends.kubernetes.served_kinds import served_kinds
from windlass.backends.kubernetes.settings import BackendSettings
from windlass.backends.kubernetes.watches import watch_all
from windlass.backends.port import BackendEvent, Changes, ClusterChanged, JobArrived, JobEvent
from windlass.controller.controller import Controller
from windlass.controlplane import fake_status
from windlass.controlplane.api import Api, ApiError
from windlass.controlplane.cluster import ControlPlane
from windlass.controlplane.fake_pod import now as stamp
from windlass.core.lifecycle import events as e
from windlass.core.lifecycle.commands import Launch, Stop
from windlass.core.model.job import Job
from windlass.core.model.status import JobState
from windlass.jobs.kubernetes.labels import CANCEL
from windlass.jobs.kubernetes.manifests.trainingjob_manifest import training_job
from windlass.jobs.kubernetes.pods.pod_assembly import GENERATION

from .scripted_cluster import CLUSTER_VERBS, NODES, OURS, POLICIES, QUEUES, ScriptedCluster, default_queue

T = TypeVar("T")
NAMESPACE = "default"
JOBS = f"{OURS}/trainingjobs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
MINE = f"{OURS}/namespaces/{NAMESPACE}/trainingjobs"
SCRIPTED = ("trainingjobs", "queues", "schedulingpolicies")
"""Watched kinds of which scripts have objects, besides those of every cluster."""
_END = re.compile(r"\S+ on \S+ (?:exited with code (\d+)(?: \(SIG\w+\))?|[^:;()]*\(exit code (\d+)\))")


class KubernetesStage(Stage):
    """A backend on a control plane with our kinds. `close` empties the cluster for the next stage."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.runner = asyncio.Runner()
        self.api = Api(plane.admin)
        self.do(self.api.__aenter__())
        self.received: list[BackendEvent] = []
        """Events of the backend that the script has not reached."""
        self.cluster = ScriptedCluster(self.api, lambda: self.backend, self._until)
        self.backend: KubernetesBackend | None = None
        self.now = 0
        self.do(self.api.post(QUEUES, default_queue()))
        super().__init__()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def close(self) -> None:
        try:
            self.do(self._leave())
            self.do(clear(self.api, JOBS, QUEUES, POLICIES, "/api/v1/services"))
            self.do(self.api.__aexit__(None, None, None))
        finally:
            self.runner.close()

    # --- controllers ---------------------------------------------------------------------------------

    def _new_controller(self) -> Controller:
        if self.backend is not None:
            self.do(self._leave())
        return self.do(self._open())

    async def _open(self) -> Controller:
        self.received.clear()  # uncommitted events are reported again
        self.connection = Connection(operator_access(self.plane))
        await self.connection.__aenter__()
        self.backend = KubernetesBackend(
            self.connection, lambda: self.now, BackendSettings(cluster_settling=0, failure_settling=0)
        )
        self.backend.monitor.lookups.see_guard(AdmissionGuard(since=0))
        known = asyncio.Event()
        kinds = [kind for kind in await served_kinds(self.connection) if kind.plural in SCRIPTED]
        self.watching = asyncio.create_task(watch_all(self.backend, kinds, known.set))
        await asyncio.wait_for(known.wait(), strays.TIMEOUT_S)
        return Controller(self.backend.recover(), self.backend.finished)

    async def _leave(self) -> None:
        assert self.backend is not None
        await cancel_task(self.watching)
        await self.backend.close()
        await self.connection.__aexit__(None, None, None)

    def _ended(self, job_id: str) -> JobState | None:
        assert self.backend is not None
        return self.backend.finished(job_id)

    # --- events of the script ------------------------------------------------------------------------

    def _events(self, verb: str, words: list[str], options: dict[str, str]) -> list[BackendEvent]:
        if verb in CLUSTER_VERBS:
            return self.do(self._have(self.cluster.change(verb, words, options), None))
        names = [_id(words[0]), *words[1:]]
        if verb == "submit":
            return self.do(self._have(self._submit(words[0], options), _arrival(names[0])))
        asked, event = self._of_job(verb, names, options)
        return self.do(self._have(asked, event))

    def _of_job(
        self, verb: str, words: list[str], options: dict[str, str]
    ) -> tuple[Coroutine[Any, Any, None], Callable[[BackendEvent], bool]]:
        """The action for an event of a job, and the event that the controller receives."""
        job_id, generation = words[0], self._generation(words[0])
        if verb == "started":
            return self._start(job_id), _told(job_id, e.Started, generation=generation)
        if verb == "exit":
            number = int(words[1])
            is_reported = _told(job_id, e.MemberExited, generation=generation, member=number)
            return self._end(job_id, number, _exit(options)), is_reported
        if verb == "gone":
            self.alive.discard((job_id, generation))
            return self._remove_pods(job_id, generation), _told(job_id, e.GangGone, generation=generation)
        if verb in _BY_THE_OBJECT:
            patch, event = _BY_THE_OBJECT[verb]
            return self._patch(f"{MINE}/{_name(job_id)}", patch), _told(job_id, event)
        if verb == "diagnosed":
            return self._inject(job_id, _diagnosed(generation, options)), _told(job_id, e.Diagnosed)
        directly: dict[str, e.Event] = {
            "saved": e.Saved(generation, self.now),
            "preempt": e.Preempt("its nodes are needed"),
            "kill": e.Kill("ada"),
        }
        return self._inject(job_id, directly[verb]), _told(job_id, type(directly[verb]))

    async def _have(
        self, asked: Coroutine[Any, Any, None], expected: Callable[[BackendEvent], bool] | None
    ) -> list[BackendEvent]:
        """Carries out an event of the script; returns what the controller receives: the cluster and the event."""
        await asked
        found = [] if expected is None else [await self._until(lambda: next(filter(expected, self.received), None))]
        pictures = [each for each in self.received if isinstance(each, ClusterChanged)]
        self.received = [each for each in self.received if each not in (*found, *pictures)]
        return [*pictures[-1:], *found]

    async def _submit(self, word: str, options: dict[str, str]) -> None:
        job = _runnable(_job(word, options))
        await self.api.post(MINE, training_job(job, _name(word), NAMESPACE))

    async def _start(self, job_id: str) -> None:
        for pod in (await self._pods(job_id)).values():
            if pod["status"]["phase"] == "Pending":
                await self._report(pod, fake_status.running(pod, stamp(), "10.0.0.1", "10.0.0.2"))

    async def _end(self, job_id: str, number: int, exit: e.Exit) -> None:
        await self._start(job_id)  # a member ends only after all members have started
        gang = self._gang(job_id)
        assert gang.run is not None
        name = next(name for name, each in gang.pod_names(gang.run).items() if each == number)
        pod = (await self._pods(job_id))[name]
        code = exit.code if exit.code is not None else 128 + (exit.signal or 0)
        codes = {each["name"]: code for each in pod["spec"]["containers"]}
        await self._report(pod, fake_status.ended(pod, stamp(), codes))

    async def _remove_pods(self, job_id: str, generation: int) -> None:
        for name in await self._pods(job_id):
            try:
                await self.api.delete(f"{PODS}/{name}", gracePeriodSeconds=0)
            except ApiError as failed:
                if failed.status != 404:
                    raise
        run = self._gang(job_id).run
        if run is not None and not run.stopping:  # the script reports it before the controller has requested it
            await self._inject(job_id, e.GangGone(generation))

    async def _report(self, pod: dict[str, Any], patch: dict[str, Any]) -> None:
        await self.api.patch(f"{PODS}/{pod['metadata']['name']}/status", patch, "strategic")

    async def _patch(self, path: str, patch: dict[str, Any]) -> None:
        await self.api.patch(path, patch)

    async def _inject(self, job_id: str, event: e.Event) -> None:
        assert self.backend is not None
        self.backend.inbox.put(JobEvent(job_id, event))

    async def _pods(self, job_id: str) -> dict[str, dict[str, Any]]:
        """Pods of the current generation, by name."""
        selector = f"{GENERATION}={self._generation(job_id)}"
        listed = (await self.api.get(PODS, labelSelector=selector))["items"]
        mine = [pod for pod in listed if pod["metadata"]["ownerReferences"][0]["name"] == _name(job_id)]
        return {pod["metadata"]["name"]: pod for pod in mine}

    def _gang(self, job_id: str) -> Gang:
        assert self.backend is not None
        gang = self.backend.jobs.get(job_id)
        assert gang is not None
        return gang

    # --- commands of the controller ------------------------------------------------------------------

    def _settle(self, changes: Changes) -> list[str]:
        self.do(self._carry_out(changes))
        return [_in_words(line) for line in super()._settle(changes)]

    def _waiting(self) -> list[str]:
        return [_in_words(line) for line in super()._waiting()]

    async def _carry_out(self, changes: Changes) -> None:
        """Carries out commands like `controller.run`, and waits for their effects."""
        assert self.backend is not None
        await self.backend.commit(changes)
        self.backend.perform(changes.commands)
        stopped = {(each.job_id, each.generation) for each in changes.commands if isinstance(each, Stop)}
        for command in changes.commands:
            if isinstance(command, Launch) and (command.job_id, command.generation) not in stopped:
                nodes = [node for each in command.placement.nodes.values() for node in each]
                await self._until_bound(command.job_id, command.generation, Counter(nodes))
            if isinstance(command, Stop):
                await self._until_told_to_go(command.job_id, command.generation)

    async def _until_bound(self, job_id: str, generation: int, places: Counter[str]) -> None:
        """Waits until the pods are bound in the API server."""

        async def bound() -> bool:
            pods = await self._of_generation(job_id, generation)
            return Counter(pod["spec"].get("nodeName") for pod in pods) == places and not self._gang(job_id).run.busy

        await self._until_so(bound, f"{job_id} is on {places}")

    async def _until_told_to_go(self, job_id: str, generation: int) -> None:
        async def is_stopping() -> bool:
            nodes = {
                node["metadata"]["name"]
                for node in (await self.api.get(NODES))["items"]
                if not node["spec"].get("taints")  # the script's only taint: out of service
            }
            pods = await self._of_generation(job_id, generation)
            return all(
                "deletionTimestamp" in pod["metadata"]
                or pod["status"]["phase"] in ("Succeeded", "Failed")
                or pod["spec"].get("nodeName") not in nodes
                for pod in pods
            )

        await self._until_so(is_stopping, f"{job_id} is told to go")

    async def _of_generation(self, job_id: str, generation: int) -> list[dict[str, Any]]:
        listed = (await self.api.get(PODS, labelSelector=f"{GENERATION}={generation}"))["items"]
        return [pod for pod in listed if pod["metadata"]["ownerReferences"][0]["name"] == _name(job_id)]

    # --- waiting -------------------------------------------------------------------------------------

    async def _until(self, found: Callable[[], T | None]) -> T:
        """Waits for events of the backend until the expected one is there."""
        answer: list[T] = []

        async def there() -> bool:
            answer[:] = [each for each in [found()] if each is not None]
            return bool(answer)

        await self._until_so(there, "what the script tells")
        return answer[0]

    async def _until_so(self, so: Callable[[], Coroutine[Any, Any, bool]], what: str) -> None:
        assert self.backend is not None
        try:
            async with asyncio.timeout(strays.TIMEOUT_S):
                while True:
                    self.received += await self.backend.wait(self.now)
                    if await so():
                        return
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"not reached: {what}; received {self.received}") from None


_BY_THE_OBJECT: dict[str, tuple[dict[str, Any], type[e.Event]]] = {
    "cancel": ({"metadata": {"annotations": {CANCEL: "ada"}}}, e.Cancel),
    "suspend": ({"spec": {"suspend": True}}, e.Suspend),
    "resume": ({"spec": {"suspend": False}}, e.Resume),
}
"""Requests that a script makes by changing an object, and the events that the controller receives."""


def _id(word: str) -> str:
    return f"{NAMESPACE}/{word.replace('_', '--')}"


def _name(word: str) -> str:
    return word.removeprefix(f"{NAMESPACE}/").replace("_", "--")


def _in_words(line: str) -> str:
    """A line in the form of the script."""
    line = line.replace(f"{NAMESPACE}/", "").replace("its owner", "ada")
    line = re.sub(r"(?<=\w)--(?=\w)", "_", line)
    return _END.sub(lambda found: _ended_by(int(found[1] or found[2])), line)


def _ended_by(code: int) -> str:
    return f"signal {code - 128}" if code > 128 else f"code {code}"


def _arrival(job_id: str) -> Callable[[BackendEvent], bool]:
    return lambda event: isinstance(event, JobArrived) and event.job_id == job_id


def _told(job_id: str, kind: type[e.Event], **also: int) -> Callable[[BackendEvent], bool]:
    def is_it(event: BackendEvent) -> bool:
        inner = event.event if isinstance(event, JobEvent) and event.job_id == job_id else None
        return isinstance(inner, kind) and all(getattr(inner, name) == value for name, value in also.items())

    return is_it


def _runnable(job: Job) -> Job:
    """The job with a command, and with other jobs by the names of their objects."""
    (role,) = job.roles
    after = tuple(replace(each, job_id=_name(each.job_id)) for each in job.after)
    array = replace(job.array, array_id=_name(job.array.array_id)) if job.array else None
    roles = (replace(role, command=("true",), image="example.com/job:1"),)
    return replace(job, roles=roles, after=after, array=array, workdir="")
