"""200 open pages of the dashboard: latency of each, CPU and memory of the server, 1,000 running jobs.

A page is a client that follows the stream of versions and asks for the queue at each new one, as the script of the page
does, over connections that stay open. A job ends twice a second. The latency is the time from the end of a job until a
page has the new queue. All clients are in this process and share the cores with the server.
"""

import asyncio
import http.client
import statistics
import time
import urllib.parse
from dataclasses import dataclass, field

from clusters.dashboard_cluster import DashboardCluster, claim, load, running_cluster

RUNNING, WAITING, PAGES = 1_000, 1_000, 200
CHANGES, PAUSE_S, IDLE_S = 40, 0.5, 15
QUEUE = "/api/queue?limit=100"


@dataclass
class Page:
    """One open page."""

    host: str
    port: int
    cookie: str
    received: list[float] = field(default_factory=list)
    """Times (ms) at which it had a new queue."""

    async def open(self) -> None:
        """Follows the stream until cancelled."""
        stream = await self._connect()
        self._send(stream, "/api/stream")
        ask = await self._connect()
        etag = ""
        while line := await stream[0].readline():
            if not line.startswith(b"data:"):
                continue
            self._send(ask, QUEUE, f"If-None-Match: {etag}\r\nAccept-Encoding: gzip\r\n" if etag else "")
            etag = await self._read(ask[0]) or etag
            self.received.append(time.time() * 1000)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.host, self.port)

    def _send(self, connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], path: str, more: str = "") -> None:
        head = f"GET {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nCookie: {self.cookie}\r\n{more}\r\n"
        connection[1].write(head.encode())

    async def _read(self, reader: asyncio.StreamReader) -> str:
        """Reads an answer and returns its ETag."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert head.startswith(("http/1.1 200", "http/1.1 304")), head
        fields = dict(line.split(": ", 1) for line in head.splitlines()[1:] if ": " in line)
        await reader.readexactly(int(fields.get("content-length", 0)))
        return fields.get("etag", "")


def main() -> None:
    with running_cluster(RUNNING, WAITING) as cluster:
        asyncio.run(measure(cluster, sign_in(cluster.link())))


def sign_in(link: str) -> tuple[str, int, str]:
    """Host, port and cookie of a session."""
    parts = urllib.parse.urlsplit(link)
    connection = http.client.HTTPConnection(parts.netloc)
    connection.request("GET", f"{parts.path}?{parts.query}")
    cookie = connection.getresponse().headers["set-cookie"].partition(";")[0]
    connection.close()
    return parts.hostname or "", parts.port or 0, cookie


async def measure(cluster: DashboardCluster, session: tuple[str, int, str]) -> None:
    nothing = await idle_cpu(cluster)
    one = await following(session, 1)
    with_one = await idle_cpu(cluster)
    many = one + await following(session, PAGES - 1)
    with_many = await idle_cpu(cluster)
    latencies, busy = await change(cluster, [page for page, _ in many])
    print(
        f"CPU of the server without changes: {nothing:.2%}, with one page {with_one:.2%}, with {PAGES} {with_many:.2%}"
    )
    print(f"with {1 / PAUSE_S:.0f} changes a second and {PAGES} pages {busy:.0%} of a core; {load()}")
    print(f"a page has the change after {statistics.median(latencies):.0f} ms, the last after {max(latencies):.0f} ms")
    claim("CPU of the server for the first open page", (with_one - nothing) * 100, "%", 1)
    claim(f"CPU of the server for each of {PAGES} open pages", (with_many - nothing) / PAGES * 100, "%", 1)
    claim(f"latest of {PAGES} pages, worst of {CHANGES} changes", max(latencies) / 1000, "s", 1)
    claim(f"memory of the server with {PAGES} pages", cluster.resident_mb(), "MB", 250)
    for _, task in many:
        task.cancel()


async def following(session: tuple[str, int, str], count: int) -> list[tuple[Page, asyncio.Task[None]]]:
    """Opens pages and waits until each has its first queue."""
    pages = [Page(*session) for _ in range(count)]
    found = [(page, asyncio.create_task(page.open())) for page in pages]
    while not all(page.received for page in pages):
        await asyncio.sleep(0.05)
        assert not any(task.done() for _, task in found), "a page could not follow"
    return found


async def idle_cpu(cluster: DashboardCluster) -> float:
    """CPU of the server while nothing changes, in cores."""
    before, begin = cluster.cpu_s(), time.monotonic()
    await asyncio.sleep(IDLE_S)
    return (cluster.cpu_s() - before) / (time.monotonic() - begin)


async def change(cluster: DashboardCluster, pages: list[Page]) -> tuple[list[float], float]:
    """Ends jobs. Returns how long each page waited for each change (ms), and the CPU of the server in cores."""
    latencies = []
    before, begin = cluster.cpu_s(), time.monotonic()
    for _ in range(CHANGES):
        ended = await asyncio.to_thread(cluster.end_a_job)
        await asyncio.sleep(PAUSE_S)
        while any(page.received[-1] < ended for page in pages):  # noqa: ASYNC110 - 200 pages have no common event
            await asyncio.sleep(0.01)
        latencies += [min(at for at in page.received if at >= ended) - ended for page in pages]
    return latencies, (cluster.cpu_s() - before) / (time.monotonic() - begin)


if __name__ == "__main__":
    main()
