"""The outcome of a case: the job's status, its objects and its events, in a form that two operators can be compared in.

Times, uids, addresses, the operator's own marks and what the API server adds by itself are left out. Names that a
controller draws by chance end with `*`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp

from windlass.controlplane.api import Api, ApiError
from windlass.controlplane.fake_pod import ANNOTATION

from .kinds import KINDS, Kind

Object = dict[str, Any]
PATHS = {
    "pods": "/api/v1/pods",
    "services": "/api/v1/services",
    "configmaps": "/api/v1/configmaps",
    "secrets": "/api/v1/secrets",
    "serviceaccounts": "/api/v1/serviceaccounts",
    "roles": "/apis/rbac.authorization.k8s.io/v1/roles",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "jobs": "/apis/batch/v1/jobs",
    "autoscalers": "/apis/autoscaling/v2/horizontalpodautoscalers",
    "events": "/api/v1/events",
}
OWN = ("windlass.dev/", "fake-kubelet/", "batch.kubernetes.io/", "kubectl.kubernetes.io/")
"""Beginnings of labels and annotations that are an operator's or a controller's own."""
DRAWN = re.compile(r"-[a-z0-9]{5}$")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}")
_WHEN = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z?")
_BY_SERVER: Mapping[str, object] = {
    "dnsPolicy": "ClusterFirst",
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
    "priority": 0,
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "serviceAccount": "default",
    "serviceAccountName": "default",
    "terminationGracePeriodSeconds": 30,
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
    "protocol": "TCP",
    "resources": {},
    "type": "ClusterIP",
    "internalTrafficPolicy": "Cluster",
    "sessionAffinity": "None",
    "ipFamilyPolicy": "SingleStack",
    "ipFamilies": ["IPv4"],
    "creationTimestamp": None,
    "completionMode": "NonIndexed",
    "parallelism": 1,
    "completions": 1,
    "manualSelector": False,
}
"""Fields with the value that the API server gives them where no one else does."""
_LEFT_OUT = ("nodeName", "tolerations", "clusterIP", "clusterIPs", "defaultMode", "selector_of_job")
_ACCESS = "kube-api-access-"


class Watcher:
    """The objects of a cluster, by kind and namespace, and when a namespace last changed."""

    def __init__(self, api: Api, kinds: tuple[Kind, ...] = KINDS) -> None:
        self._api = api
        group = {f"{kind.plural}.{kind.version}": f"/apis/{kind.version}/{kind.plural}" for kind in kinds}
        self._paths = PATHS | group
        self.found: dict[str, dict[tuple[str, str], Object]] = {each: {} for each in self._paths}
        self.changed: dict[str, float] = {}
        """By namespace: time of the last change, of the monotonic clock."""
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._follow(name, path)) for name, path in self._paths.items()]
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, name: str, path: str) -> None:
        while True:
            try:
                listed = await self._api.get(path)
                for each in listed["items"]:
                    self._keep(name, "ADDED", each)
                version = listed["metadata"]["resourceVersion"]
                async for event in self._api.watch(path, version):
                    if event["type"] != "BOOKMARK":
                        self._keep(name, event["type"], event["object"])
            except (ApiError, aiohttp.ClientError):
                await asyncio.sleep(0.2)

    def _keep(self, name: str, change: str, value: Object) -> None:
        meta = value["metadata"]
        key = meta["namespace"], meta["name"]
        self.changed[meta["namespace"]] = time.monotonic()
        if change == "DELETED":
            self.found[name].pop(key, None)
        else:
            self.found[name][key] = value

    def of(self, name: str, namespace: str) -> list[Object]:
        """The objects of a kind in a namespace, in the order of their names."""
        return [value for key, value in sorted(self.found[name].items()) if key[0] == namespace]

    def status(self, kind: Kind, namespace: str) -> Object | None:
        """The status that clients read of a namespace's one job, if it has one."""
        jobs = self.of(f"{kind.plural}.{kind.version}", namespace)
        return status_of(jobs[0]) if jobs and jobs[0].get("status") else None

    async def noticed(self, kind: Kind, namespace: str, before: Object | None, within: float) -> None:
        """Waits until the status of a job differs from what it was, or until `within` seconds are over."""
        end = time.monotonic() + within
        while self.status(kind, namespace) == before and time.monotonic() < end:  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.1)

    async def settle(self, namespace: str, quiet: float, longest: float) -> None:
        """Waits until nothing has changed in a namespace for `quiet` seconds, or until `longest` are over."""
        end = time.monotonic() + longest
        while (now := time.monotonic()) < end:
            left = self.changed.get(namespace, 0.0) + quiet - now
            if left <= 0:
                return
            await asyncio.sleep(min(left, end - now))


class CaseView:
    """View of one case, each time that it is looked at."""

    def __init__(self, watcher: Watcher, kind: Kind, namespace: str) -> None:
        self._watcher, self._kind, self._namespace = watcher, kind, namespace
        self._uids: dict[str, list[str]] = {}
        """By name of a pod: the uids that it had, one after the other."""
        self._shown: dict[tuple[str, str], Object] = {}
        """By kind and name of an object: its facts, as they were shown last. They are shown again once they differ."""

    def look(self) -> Object:
        """Returns the objects as they are now. Facts that were shown before are left out."""
        seen, self._shown = self._seen()
        return seen

    def peek(self) -> Object:
        """The same, without a memory of it."""
        return self._seen()[0]

    def _seen(self) -> tuple[Object, dict[tuple[str, str], Object]]:
        shown = dict(self._shown)
        jobs = self._watcher.of(f"{self._kind.plural}.{self._kind.version}", self._namespace)
        objects = {name: dict(self._objects(name, shown)) for name in PATHS if name != "events"}
        seen: Object = {"job": status_of(jobs[0]) if jobs else None}
        seen |= {name: found for name, found in objects.items() if found}
        seen["events"] = sorted(set(self._events()))
        return seen, shown

    def _objects(self, name: str, shown: dict[tuple[str, str], Object]) -> Iterator[tuple[str, Object]]:
        for each in self._watcher.of(name, self._namespace):
            meta = each["metadata"]
            if meta["name"] in ("kube-root-ca.crt", "default") and not meta.get("ownerReferences"):
                continue
            steady, found = self._steady_name(each), facts(each)
            is_new = shown.get((name, steady)) != found
            shown[name, steady] = found
            yield steady, (found if is_new else {}) | (self._pod(each) if name == "pods" else {})

    def _steady_name(self, value: Object) -> str:
        """The name, without an ending drawn by chance: by the Job controller."""
        name = str(value["metadata"]["name"])
        owners = {each["kind"] for each in value["metadata"].get("ownerReferences", ())}
        return DRAWN.sub("-*", name) if "Job" in owners else name

    def _pod(self, pod: Object) -> Object:
        uid = pod["metadata"]["uid"]
        uids = self._uids.setdefault(self._steady_name(pod), [])
        if uid not in uids:
            uids.append(uid)
        status = pod.get("status", {})
        restarts = sum(each["restartCount"] for each in status.get("containerStatuses", ()))
        return {"phase": status.get("phase"), "containerRestarts": restarts, "number": uids.index(uid) + 1}

    def _events(self) -> Iterator[str]:
        for each in self._watcher.of("events", self._namespace):
            about = each["involvedObject"]
            if about["kind"] == self._kind.name:
                yield f"{each['type']} {each['reason']}: {text(each.get('message', ''))}"


def status_of(job: Object) -> Object:
    """The status that clients read, without times and our own fields."""
    status = job.get("status") or {}
    conditions = [
        {name: text(str(each.get(name, ""))) for name in ("type", "status", "reason", "message")}
        for each in status.get("conditions") or ()
    ]
    counts = {
        role: {name: count for name, count in (each or {}).items() if isinstance(count, int) and count}
        for role, each in (status.get("replicaStatuses") or {}).items()
    }
    counts = {role: each for role, each in counts.items() if each}
    times = {name: name in status for name in ("startTime", "completionTime")}
    return {"conditions": conditions, "replicaStatuses": counts, **times}


def facts(value: Object) -> Object:
    """An object without what differs from run to run, and what the API server adds to it."""
    meta = value["metadata"]
    owners = [
        {"kind": each["kind"], "controller": each.get("controller", False), "block": each.get("blockOwnerDeletion")}
        for each in meta.get("ownerReferences", ())
    ]
    kept: Object = {"labels": _marks(meta.get("labels")), "annotations": _marks(meta.get("annotations"))}
    kept = {name: each for name, each in kept.items() if each}
    if owners:
        kept["owners"] = owners
    for name in ("spec", "data", "rules", "roleRef", "subjects", "type", "immutable"):
        if name in value:
            kept[name] = sorted(value["data"]) if value["kind"] == "Secret" and name == "data" else plain(value[name])
    return kept


def _marks(found: Mapping[str, str] | None) -> dict[str, str]:
    return {
        name: text(value)
        for name, value in (found or {}).items()
        if not name.startswith(OWN) and name not in (ANNOTATION, "controller-uid")
    }


def plain(value: Any) -> Any:
    """A value without defaults of the API server, variables and volumes of an operator's own."""
    if isinstance(value, dict):
        kept = {name: plain(each) for name, each in value.items() if not _is_default(name, each)}
        if isinstance(selector := kept.get("selector"), dict):
            selector.pop("matchLabels", None) if "batch.kubernetes.io/controller-uid" in str(selector) else None
        return {name: each for name, each in kept.items() if each not in ({}, [])}
    if isinstance(value, list):
        return [plain(each) for each in value if not _is_own(each)]
    return text(value) if isinstance(value, str) else value


def _is_default(name: str, value: object) -> bool:
    return name in _LEFT_OUT or name.startswith(OWN) or (name in _BY_SERVER and _BY_SERVER[name] == value)


def _is_own(value: object) -> bool:
    name = str(value.get("name", "")) if isinstance(value, dict) else ""
    return name.startswith((_ACCESS, "WINDLASS_", "windlass-"))


def text(value: str) -> str:
    """A text without times and uids."""
    return _WHEN.sub("TIME", _UID.sub("UID", value))
