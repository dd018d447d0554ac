"""The dashboard of a leading operator on a real API server, with users of two namespaces."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from backend_host import Behaviour
from kubernetes_host import cancel_task
from operator_account import operator_access
from operator_place import OperatorPlace, created, leading

import strays
from windlass.backends.kubernetes.client.connection import Connection
from windlass.controlplane.api import Api
from windlass.controlplane.cluster import ControlPlane, add_default_account
from windlass.deploy.roles import user_roles
from windlass.server.operator.dashboard.port import DashboardOptions, DashboardPort, DashboardTerms, serve_dashboard
from windlass.server.operator.endpoints import listen
from windlass.server.operator.serving_certificate import own_certificate

NAMESPACES = "/api/v1/namespaces"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
RBAC_GROUP = "rbac.authorization.k8s.io"
JOBS = "/apis/windlass.dev/v1alpha1/namespaces/{}/trainingjobs"
VIEW, EDIT = "windlass-view", "windlass-edit"


@dataclass
class Answer:
    """One answer of the dashboard. `text` is its body, `json` the same if it is JSON."""

    status: int
    headers: Any
    text: str
    json: Any = None


@dataclass
class Visitor:
    """A browser without JavaScript: a jar of one cookie, and the token of changes."""

    session: aiohttp.ClientSession
    url: str
    cookie: str = ""
    csrf: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    async def request(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Asks as the pages do: from their own origin, with the cookie."""
        sent = {"Origin": self.url, **self.headers, **({"Cookie": self.cookie} if self.cookie else {}), **headers}
        async with self.session.request(
            method, self.url + path, json=body, headers=sent, allow_redirects=False
        ) as answer:
            is_json = answer.content_type == "application/json"
            text = await answer.text()
            return Answer(answer.status, answer.headers, text, await answer.json() if is_json else None)

    async def get(self, path: str, **headers: str) -> Answer:
        return await self.request("GET", path, **headers)

    async def read(self, path: str) -> Any:
        """The content of an answer that must succeed."""
        answer = await self.get(path)
        assert answer.status == 200, (path, answer)
        return answer.json

    async def sign_in(self, token: str, **headers: str) -> Answer:
        answer = await self.request("POST", "/login", {"token": token}, **headers)
        if answer.status == 204:
            self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
            self.csrf = (await self.read("/api/session"))["csrf"]
        return answer

    async def act(self, verb: str, job: str, body: Any = None, **headers: str) -> Answer:
        sent = {"X-Windlass-CSRF": self.csrf, **headers}
        return await self.request("POST", f"/api/jobs/{job}/{verb}", body or {}, **sent)


@dataclass
class DashboardPlace:
    """Accounts `ann` of team-a and `bob` of team-b.

    `clock` moves the time of sessions, in ms; `reports`: lines of the log.
    """

    place: OperatorPlace
    url: str
    tls: ssl.SSLContext
    clock: list[int]
    reports: list[str]
    _sessions: list[aiohttp.ClientSession] = field(default_factory=list)

    def visitor(self, certificate: tuple[Path, Path] | None = None, **headers: str) -> Visitor:
        """A browser without a session, or a proxy with a client certificate."""
        context = self.tls
        if certificate is not None:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.load_cert_chain(*certificate)
        connector = aiohttp.TCPConnector(ssl=context)
        session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        self._sessions.append(session)
        return Visitor(session, self.url, headers=headers)

    async def signed_in(self, team: str, account: str) -> Visitor:
        visitor = self.visitor()
        assert (await visitor.sign_in(await self.token(team, account))).status == 204
        return visitor

    async def token(self, team: str, account: str, **spec: Any) -> str:
        """A token of a ServiceAccount of a team."""
        about = {"metadata": {"name": account}}
        await created(self.place.api, f"{NAMESPACES}/{team}/serviceaccounts", about)
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = await self.place.api.post(f"{NAMESPACES}/{team}/serviceaccounts/{account}/token", request)
        return str(answer["status"]["token"])

    async def grant(self, role: str, team: str, account: str, namespace: str = "") -> None:
        """Binds a ClusterRole to an account in its namespace, or in another one."""
        subject = {"kind": "ServiceAccount", "namespace": team, "name": account}
        await bind(self.place.api, f"{account}-{role}", role, subject, namespace or team)

    async def withdraw(self, role: str, account: str, namespace: str) -> None:
        await self.place.api.delete(f"{RBAC}/namespaces/{namespace}/rolebindings/{account}-{role}")

    async def submit(self, team: str, name: str, behaviour: Behaviour, gpus: int = 1, **more: Any) -> None:
        """Submits a job into the namespace of a team. `more`: further fields of its spec."""
        place = self.place
        await place.submit(name, behaviour, gpus)
        manifest = await place.api.get(f"{JOBS.format('default')}/{name}")
        await place.delete(name)
        copied = {"apiVersion": manifest["apiVersion"], "kind": "TrainingJob", "spec": {**manifest["spec"], **more}}
        await place.api.post(JOBS.format(team), {**copied, "metadata": {"name": name}})

    async def close(self) -> None:
        for session in self._sessions:
            await session.close()


async def bind(api: Api, name: str, role: str, subject: dict[str, str], namespace: str) -> None:
    reference = {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    await created(api, f"{RBAC}/namespaces/{namespace}/rolebindings", binding)


@asynccontextmanager
async def dashboard(
    plane: ControlPlane, folder: Path, options: DashboardOptions | None = None, history_url: str = ""
) -> AsyncIterator[DashboardPlace]:
    """Serves the dashboard of a leading operator until the end of the block."""
    options = options or DashboardOptions(0)
    listener = listen("127.0.0.1", 0)
    url = f"https://127.0.0.1:{listener.getsockname()[1]}"
    clock, reports = [0], list[str]()
    async with (
        leading(plane, folder, history_url=history_url) as place,
        Connection(operator_access(plane)) as connection,
    ):
        await _prepare(place.api)
        pair = await own_certificate(connection, "default")
        terms = DashboardTerms(lambda: place.endpoints.dashboard, lambda: "another")
        port = DashboardPort(listener, *pair)
        serving = asyncio.create_task(
            serve_dashboard(
                port, options, connection, terms, lambda: time.time_ns() // 1_000_000 + clock[0], reports.append
            )
        )
        tls = ssl.create_default_context(cadata=pair[0].decode())
        tls.check_hostname = False
        found = DashboardPlace(place, url, tls, clock, reports)
        try:
            yield found
        finally:
            await found.close()
            await cancel_task(serving)


async def _prepare(api: Api) -> None:
    """Creates the roles of users and their two namespaces."""
    for role in user_roles():
        await created(api, f"{RBAC}/{role['kind'].lower()}s", role)
    for team in ("team-a", "team-b"):
        if await created(api, NAMESPACES, {"metadata": {"name": team}}):
            await add_default_account(api, team)


async def until(condition: Any, within: float = strays.TIMEOUT_S) -> Any:
    """The result of a coroutine function, once it is true."""
    async with asyncio.timeout(within):
        while not (found := await condition()):  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.2)
        return found


def names(rows: Sequence[dict[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]
