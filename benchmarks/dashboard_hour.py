"""An hour of updates of an open page: memory of the server and of the page, before and after.

3,600 changes, one a second of that hour, are played as fast as the page shows them, with 1,000 running jobs. The page
is the queue, in chromium. The memory of the page is its JavaScript heap after a collection of garbage: the lowest of
several values, because the page goes on with its updates between a collection and the reading. That of the server is
its resident memory. Both are compared with those after the first 400 changes.
"""

import time
from typing import Any

from clusters.dashboard_cluster import DashboardCluster, chromium, claim, load, running_cluster

RUNNING, WAITING = 1_000, 4_000
FIRST, ALL = 400, 3_600
READINGS, PAUSE_S = 5, 0.5
"""Readings of the heap at one time, and the pause before each."""
COUNT = """() => {
  window.updates = 0;
  new MutationObserver(() => { window.updates += 1; }).observe(document.querySelector("tbody"), { childList: true });
}"""


def main() -> None:
    with running_cluster(RUNNING, WAITING) as cluster, chromium() as browser:
        page = browser.new_context().new_page()
        page.goto(f"{cluster.link()}&to=/queue")
        page.wait_for_selector("main[data-ready]")
        page.evaluate(COUNT)
        begin = time.monotonic()
        play(cluster, FIRST)
        first = memory(page, cluster)
        play(cluster, ALL - FIRST)
        last = memory(page, cluster)
        took, updates = time.monotonic() - begin, page.evaluate("window.updates")
    print(f"{ALL} changes in {took:.0f} s, {updates} updates of the page; {load()}")
    print(f"server {first[0]:.1f} MB, then {last[0]:.1f}; heap of the page {first[1]:.2f} MB, then {last[1]:.2f}")
    claim(f"server's memory after {ALL} changes, relative to that after {FIRST}", last[0] / first[0], "×", 1.1)
    claim("the same of the page's heap", last[1] / first[1], "×", 1.1)


def play(cluster: DashboardCluster, count: int) -> None:
    for _ in range(count):
        cluster.end_a_job()
        time.sleep(0.02)


def memory(page: Any, cluster: DashboardCluster) -> tuple[float, float]:
    """Resident memory of the server and heap of the page, in MB."""
    resident = cluster.resident_mb()
    session = page.context.new_cdp_session(page)
    heap = min(used_heap(session) for _ in range(READINGS))
    session.detach()
    return resident, heap / 1e6


def used_heap(session: Any) -> float:
    """Bytes of the heap after a collection of garbage."""
    time.sleep(PAUSE_S)
    session.send("HeapProfiler.collectGarbage")
    return float(session.send("Runtime.getHeapUsage")["usedSize"])


if __name__ == "__main__":
    main()
