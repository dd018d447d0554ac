"""A fake cluster: objects in a dictionary, and an operator with scripted answers."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

import pytest

from windlass.backends.kubernetes.client import access
from windlass.backends.kubernetes.client.api_errors import ApiError
from windlass.backends.kubernetes.client.identity import constant_access
from windlass.backends.kubernetes.client.paging import ObjectList
from windlass.backends.kubernetes.client.resources import LEASES, Resource, path
from windlass.backends.kubernetes.gangs.stored_state import Stored, to_patch
from windlass.cli.kubernetes import api_session, submit_warnings
from windlass.cli.kubernetes.operator_client import query_path
from windlass.core.model.status import Phase, Status

Manifest = dict[str, Any]
_TEAMS = ("team", "other")


class FakeCluster:
    """`objects` by path; `says`: answers of the operator by path; `logs` of pods by name."""

    def __init__(self) -> None:
        self.objects: dict[str, Manifest] = {}
        self.says: dict[str, Any] = {}
        self.logs: dict[str, str] = {}
        self.asked: list[str] = []
        self.conditions: list[Manifest] = []
        """Conditions that the operator writes with the status of a job."""
        self.hidden: set[str] = set()
        """Plurals of resources that the user may not read."""
        self.lacks: set[str] = set()
        """Fields of `spec` that are missing from the definitions in this cluster."""
        self._numbers = itertools.count(1)
        self.lead()

    def lead(self, address: str = "") -> None:
        """Starts an operator in the pod `operator-0`, or at an address outside the cluster."""
        about = {"namespace": "windlass-system", "name": "windlass-operator", "annotations": {}}
        if address:
            about["annotations"] = {"windlass.dev/address": address}
        lease = {"metadata": about, "spec": {"holderIdentity": "operator-0_1_abc"}}
        self.objects[path(LEASES, "windlass-system", "windlass-operator")] = lease

    def put(self, resource: Resource, manifest: Manifest) -> Manifest:
        """Stores an object as the API server does."""
        metadata = manifest["metadata"]
        number = next(self._numbers)
        kept = {
            "uid": f"uid-{number}",
            "resourceVersion": str(number),
            "creationTimestamp": f"2026-11-21T12:{number // 60:02}:{number % 60:02}Z",
        }
        made = {**manifest, "metadata": {**kept, **metadata}}
        self.objects[path(resource, metadata.get("namespace"), metadata["name"])] = made
        return made

    def of_kind(self, kind: str) -> list[Manifest]:
        return [each for each in self.objects.values() if each.get("kind") == kind]

    def commit(self, name: str, **status: Any) -> None:
        """Writes a status into a job's object as the operator does."""
        manifest = next(each for each in self.of_kind("TrainingJob") if each["metadata"]["name"].startswith(name))
        manifest["status"] = {"windlass": to_patch(Stored(1, 1, Status(**status))), "conditions": self.conditions}

    def merge(self, where: str, body: Manifest) -> Manifest:
        self.objects[where] = _merged(self._get(where), body)
        return self.objects[where]

    def _get(self, where: str) -> Manifest:
        if where not in self.objects:
            raise ApiError(404, "NotFound", f"{where} not found")
        return self.objects[where]


def _merged(below: Any, above: Any) -> Any:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return {**below, **{name: _merged(below.get(name), value) for name, value in above.items()}}


class FakeConnection:
    """`Connection` over a FakeCluster."""

    cluster: FakeCluster

    def __init__(self, found: access.Access, **_settings: Any) -> None:
        self.access = found

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return

    async def request(self, _method: str, where: str, **_more: Any) -> bytes:
        self.cluster.asked.append(where)
        plain = self._told(where)
        if plain not in self.cluster.says:
            error = ApiError(404, "", "")
            message = {"error": {"code": "no_such_job", "message": f"nobody has told what {plain} says", "fix": ""}}
            error.body = json.dumps(message).encode()
            raise error
        answer = self.cluster.says[plain]
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer).encode()

    def _told(self, where: str) -> str:
        """The path in `says` of a path of the operator's aggregated API."""
        known = (told for told in self.cluster.says for each in (None, *_TEAMS) if query_path(told, each) == where)
        return next(known, where)

    async def get(self, resource: Resource, namespace: str | None, name: str, **_: Any) -> Manifest:
        self._look(resource)
        return self.cluster._get(path(resource, namespace, name))

    async def list(self, resource: Resource, namespace: str | None = None, **asked: Any) -> list[Manifest]:
        self._look(resource)
        key, equals, value = (asked.get("selector") or "").partition("=")
        wanted = {key: value} if equals else {}
        return [
            each
            for where, each in list(self.cluster.objects.items())
            if f"/{resource.plural}/" in where
            and where.startswith(path(resource).rpartition("/")[0])
            and namespace in (None, each["metadata"].get("namespace"))
            and wanted.items() <= (each["metadata"].get("labels") or {}).items()
            and (not key or key in each["metadata"]["labels"])
        ]

    async def list_decoded(self, resource: Resource, decode: Any, *, namespace: str | None = None, **asked: Any) -> Any:
        del asked["fields"]
        found = await self.list(resource, namespace, **asked)
        return ObjectList("1000", [decode(json.dumps(each).encode()) for each in found])

    async def create(self, resource: Resource, body: Manifest, *, strict: bool = False, **_: Any) -> Manifest:
        where = path(resource, body["metadata"].get("namespace"), body["metadata"]["name"])
        lacking = sorted(self.cluster.lacks & body.get("spec", {}).keys())
        if strict and lacking:
            raise ApiError(400, "BadRequest", f'strict decoding error: unknown field "spec.{lacking[0]}"')
        if where in self.cluster.objects:
            raise ApiError(409, "AlreadyExists", f"{where} exists")
        return self.cluster.put(resource, body)

    async def patch(self, resource: Resource, namespace: str, name: str, body: Manifest, **_: Any) -> Manifest:
        return self.cluster.merge(path(resource, namespace, name), body)

    async def delete(self, resource: Resource, namespace: str | None, name: str, **_: Any) -> Manifest:
        where = path(resource, namespace, name)
        self.cluster._get(where)
        return self.cluster.objects.pop(where)

    @asynccontextmanager
    async def stream(self, where: str, params: dict[str, str], _silence: float) -> AsyncIterator[Any]:
        yield self._pieces(where, params)

    async def _pieces(self, where: str, params: dict[str, str]) -> AsyncIterator[bytes]:
        if params.get("watch"):
            await asyncio.sleep(3600)
        yield self.cluster.logs.get(where.split("/")[-2], "").encode()

    def _look(self, resource: Resource) -> None:
        if resource.plural in self.cluster.hidden:
            raise ApiError(403, "Forbidden", f"you may not see {resource.plural}")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path) -> FakeCluster:
    """The cluster of `--on kubernetes`, with the namespace `team`; the current folder is empty."""
    fake = FakeCluster()
    monkeypatch.setattr(FakeConnection, "cluster", fake, raising=False)
    monkeypatch.setattr(api_session, "Connection", FakeConnection)
    monkeypatch.setattr(submit_warnings, "_TIMEOUT_S", 0.1)
    found = constant_access("https://cluster.example")
    object.__setattr__(found, "namespace", "team")
    monkeypatch.setattr(api_session.access, "find", lambda _on: found)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return fake


@pytest.fixture
def submit(cluster, windlass):
    """Submits a job, which the operator handles at once."""
    put = cluster.put

    def seen(resource, manifest):
        made = put(resource, manifest)
        if resource.kind == "TrainingJob":
            cluster.commit(made["metadata"]["name"], phase=Phase.QUEUED, created_at=1)
        return made

    cluster.put = seen
    return lambda *words: windlass("submit", "--on", "kubernetes", *words)
