"""A plain client of the API server, so that tests do not observe through the client under test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

from .kubeconfig import Access

_PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


class ApiError(Exception):
    """The API server refused a request."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason


class Api:
    """Requests of one user. Paths are whole: "/api/v1/namespaces/default/pods".

    Raises ApiError, and aiohttp.ClientError where no answer comes.
    """

    def __init__(self, access: Access, connections: int = 64) -> None:
        self.access = access
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=self.access.ssl(), limit=self._connections)
        self._session = aiohttp.ClientSession(
            self.access.url,
            connector=connector,
            headers=self.access.headers(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
        )
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self._open.close()

    @property
    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("no connection yet: use it as `async with Api(access) as api`")
        return self._session

    async def get(self, path: str, **query: str | int) -> dict[str, Any]:
        """The object or list at a path."""
        return await self.request("GET", path, query=query)

    async def rows(self, path: str, **query: str | int) -> list[dict[str, Any]]:
        """The rows of a list as `kubectl get` shows them: the value of each column by its name."""
        table = await self.request("GET", path, query=query, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        names = [each["name"] for each in table["columnDefinitions"]]
        return [dict(zip(names, row["cells"], strict=True)) for row in table["rows"] or ()]

    async def until_found(self, path: str, within: float = 60.0) -> dict[str, Any]:
        """Gets what the API server does not serve yet: a new kind, or an object that a controller creates."""
        async with asyncio.timeout(within):
            while True:
                try:
                    return await self.get(path)
                except ApiError:
                    await asyncio.sleep(0.05)

    async def post(self, path: str, body: object, **query: str | int) -> dict[str, Any]:
        """Creates an object."""
        return await self.request("POST", path, body, query=query)

    async def put(self, path: str, body: object, **query: str | int) -> dict[str, Any]:
        """Replaces an object."""
        return await self.request("PUT", path, body, query=query)

    async def patch(self, path: str, body: object, form: str = "merge", **query: str | int) -> dict[str, Any]:
        """`form` is merge, strategic, json or apply (which wants `fieldManager` in the query)."""
        return await self.request("PATCH", path, body, query=query, form=_PATCHES[form])

    async def delete(self, path: str, body: object = None, **query: str | int) -> dict[str, Any]:
        """For a pod, `gracePeriodSeconds=0` ends it in the API at once."""
        return await self.request("DELETE", path, body, query=query)

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str | int] | None = None,
        form: str = "application/json",
        accept: str = "application/json",
    ) -> dict[str, Any]:
        """Sends a request of any method; an answer that is no JSON object is in "text"."""
        data = None if body is None else orjson.dumps(body)
        headers = {"Content-Type": form, "Accept": accept}
        async with self._open.request(method, path, data=data, params=query, headers=headers) as answer:
            text = await answer.read()
        if answer.status >= 400:
            raise _error(answer.status, text)
        found: dict[str, Any] = orjson.loads(text) if text.startswith(b"{") else {"text": text.decode()}
        return found

    async def watch(self, path: str, version: str, **query: str | int) -> AsyncIterator[dict[str, Any]]:
        """Events since a resource version until the server ends the watch; a 410 is an ApiError."""
        params = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true", **query}
        async with self._open.get(path, params=params) as answer:
            if answer.status >= 400:
                raise _error(answer.status, await answer.read())
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = orjson.loads(line)
                    if event["type"] == "ERROR":
                        raise ApiError(event["object"]["code"], event["object"]["reason"], event["object"]["message"])
                    yield event


def _error(status: int, text: bytes) -> ApiError:
    try:
        body = orjson.loads(text)
    except orjson.JSONDecodeError:
        body = {"message": text.decode(errors="replace")}
    return ApiError(status, body.get("reason", ""), body.get("message", ""))
