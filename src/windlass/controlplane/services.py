"""Services of a cluster for its pods: DNS names of services, and the address of the API server.

Stands in for CoreDNS and kube-proxy: `<service>.<namespace>.svc.cluster.local` is the addresses of its ready pods,
headless or not, and `<hostname>.<service>…` that of one of them. Connections to the address of the service
`kubernetes` go to the API server. A process of its own, with our address and that of the service:

    python -m windlass.controlplane.services KUBECONFIG ADDRESS SERVICE
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import aiohttp

from . import kubeconfig
from .api import Api, ApiError
from .tcp_proxy import TcpProxy

DOMAIN = "cluster.local"
SLICES = "/apis/discovery.k8s.io/v1/endpointslices"
TTL = 1
"""Seconds; short, because a restarted gang has other addresses."""
_A, _ANY_CLASS = 1, 1
_NO_SUCH_NAME, _OK = 3, 0


class Names:
    """Addresses of every name, updated by a watch on endpoint slices."""

    def __init__(self, api_service: str) -> None:
        self._slices: dict[str, dict[str, Any]] = {}
        self._fixed = {f"kubernetes.default.svc.{DOMAIN}": [api_service]}

    def apply(self, kind: str, obj: dict[str, Any]) -> None:
        """Applies an event of the watch."""
        if kind == "DELETED":
            self._slices.pop(obj["metadata"]["uid"], None)
        elif kind != "BOOKMARK":
            self._slices[obj["metadata"]["uid"]] = obj

    def relist(self, items: Sequence[dict[str, Any]]) -> None:
        """Replaces all slices by those of a list."""
        self._slices = {each["metadata"]["uid"]: each for each in items}

    def addresses(self, name: str) -> Sequence[str] | None:
        """Returns the addresses of a name; None if it does not exist."""
        name = name.rstrip(".").lower()
        if name in self._fixed:
            return self._fixed[name]
        labels = name.removesuffix(f".svc.{DOMAIN}").split(".")
        if not name.endswith(f".svc.{DOMAIN}") or len(labels) < 2:
            return None
        *host, service, namespace = labels
        found = [
            address
            for each in self._slices.values()
            if (_service(each), each["metadata"]["namespace"]) == (service, namespace)
            for endpoint in each["endpoints"] or ()
            if endpoint.get("conditions", {}).get("ready", True) and host in ([], [endpoint.get("hostname")])
            for address in endpoint["addresses"]
        ]
        return found or None


def _service(endpoint_slice: dict[str, Any]) -> str:
    return str(endpoint_slice["metadata"].get("labels", {}).get("kubernetes.io/service-name", ""))


def reply(query: bytes, names: Names) -> bytes:
    """Returns the answer to a DNS query (RFC 1035) with one question."""
    identity, flags = struct.unpack_from("!HH", query)
    labels, at = [], 12
    while length := query[at]:
        labels.append(query[at + 1 : at + 1 + length].decode(errors="replace"))
        at += 1 + length
    kind, _ = struct.unpack_from("!HH", query, at + 1)
    question = query[12 : at + 5]
    found = names.addresses(".".join(labels))
    answers = found if found and kind == _A else ()
    code = _OK if found else _NO_SUCH_NAME
    # an authoritative (0x0400) response (0x8000) to a query with or without recursion desired (0x0100)
    header = struct.pack("!6H", identity, 0x8480 | (flags & 0x0100) | code, 1, len(answers), 0, 0)
    record = struct.pack("!HHHIH", 0xC00C, _A, _ANY_CLASS, TTL, 4)  # 0xC00C: the name in the question
    return header + question + b"".join(record + socket.inet_aton(address) for address in answers)


class _Udp(asyncio.DatagramProtocol):
    def __init__(self, names: Names) -> None:
        self.names = names

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        with suppress(IndexError, struct.error):  # no DNS query
            self.transport.sendto(reply(data, self.names), addr)


async def follow(api: Api, names: Names) -> None:
    """Keeps the names up to date, until cancelled."""
    while True:
        try:
            listed = await api.get(SLICES)
            names.relist(listed["items"])
            version = listed["metadata"]["resourceVersion"]
            async for event in api.watch(SLICES, version):
                names.apply(event["type"], event["object"])
        except (ApiError, aiohttp.ClientError, OSError):
            await asyncio.sleep(0.2)


async def serve(access: kubeconfig.Access, address: str, api_service: str) -> None:
    """Answers queries and connections, until cancelled."""
    names = Names(api_service)
    loop = asyncio.get_running_loop()
    await loop.create_datagram_endpoint(lambda: _Udp(names), local_addr=(address, 53))
    async with TcpProxy(access.url, listen=(api_service, 443)), Api(access) as api:
        await follow(api, names)


if __name__ == "__main__":
    asyncio.run(serve(kubeconfig.read(Path(sys.argv[1])), sys.argv[2], sys.argv[3]))
