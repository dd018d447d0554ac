"""Pages of the dashboard in chromium, of a cluster with 1,000 running and 9,000 waiting jobs.

First paint and the complete page with a cold cache, the time from the end of a job until its row has left the screen,
and frames per second while a heat-map of 4,096 ranks × 1,000 steps is dragged. Chromium has no GPU here: it draws on
the cores that the server uses too.
"""

import random
import statistics
import time
from typing import Any

from clusters.dashboard_cluster import DashboardCluster, chromium, claim, load, running_cluster

RUNNING, WAITING = 1_000, 9_000
VISITS, CHANGES = 7, 25
RANKS, STEPS, PANNING_MS = 4_096, 1_000, 4_000
READY = """new MutationObserver((_, watch) => {
  if (!document.querySelector("main[data-ready]")) return;
  window.readyAt = performance.now();
  watch.disconnect();
}).observe(document, { subtree: true, childList: true, attributes: true });"""
WATCH = """() => {
  const first = document.querySelector("tbody a").textContent;
  window.left = new Promise((resolve) => {
    const body = document.querySelector("tbody");
    new MutationObserver((_, watch) => {
      if (body.querySelector("a").textContent === first) return;
      watch.disconnect();
      requestAnimationFrame(() => setTimeout(() => resolve(performance.timeOrigin + performance.now())));
    }).observe(body, { childList: true });
  });
}"""
PAN = """async ([ranks, steps, lasts]) => {
  const { HeatMap } = await import("/assets/heatmap.js");
  const map = new HeatMap("busy", "s");
  document.getElementById("main").replaceChildren(map.element);
  const value = (step, rank) => 0.2 + ((rank * 7 + step * 13) % 101) / 1000;
  const ofRanks = (step) => Array.from({ length: ranks }, (_, rank) => value(step, rank));
  const values = Array.from({ length: steps }, (_, step) => ofRanks(step));
  const begin = performance.now();
  map.update(Array.from({ length: steps }, (_, step) => 1.7e12 + step * 2000), values);
  const drawn = performance.now() - begin;
  map.zoom(0.5, 0.5);
  const event = (kind, x) => new PointerEvent(kind, { pointerId: 1, clientX: 400 + x, clientY: 300 });
  const move = (kind, x) => map.canvas.dispatchEvent(event(kind, x));
  map.canvas.setPointerCapture = () => {};
  move("pointerdown", 0);
  const gaps = [];
  let last = performance.now();
  const until = last + lasts;
  for (let x = 0; last < until; x += 1) {
    await new Promise(requestAnimationFrame);
    move("pointermove", 200 * Math.sin(x / 20));
    gaps.push(performance.now() - last);
    last = performance.now();
  }
  return { drawn, gaps };
}"""


def main() -> None:
    with running_cluster(RUNNING, WAITING) as cluster, chromium() as browser:
        for path, name in (("/", "overview"), ("/queue", "queue")):
            visits = [visit(browser, cluster.link(), path) for _ in range(VISITS)]
            painted, ready = (statistics.median(times) for times in zip(*visits, strict=True))
            print(f"{name}: painted after {painted:.0f} ms, complete after {ready:.0f} ms; {load()}")
            claim(f"first paint, {name}, 10,000 jobs", painted / 1000, "s", 0.3)
            claim(f"page complete, {name}, 10,000 jobs", ready / 1000, "s", 0.6)
        report_changes(browser, cluster)
        report_panning(browser, cluster)


def visit(browser: Any, link: str, path: str) -> tuple[float, float]:
    """Milliseconds from the first request of a browser with an empty cache to the first paint and the whole page."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.add_init_script(READY)
    page.goto(f"{link}&to={path}")
    page.wait_for_selector("main[data-ready]")
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    ready = page.evaluate("window.readyAt")
    context.close()
    return painted, ready


def report_changes(browser: Any, cluster: DashboardCluster) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(f"{cluster.link()}&to=/queue")
    page.wait_for_selector("main[data-ready]")
    shown, chance = [], random.Random(1)  # noqa: S311 - only pauses
    for _ in range(CHANGES):
        time.sleep(chance.uniform(0.5, 1.5))  # at no fixed time of the ticks of versions
        page.evaluate(WATCH)
        ended = cluster.end_a_job()
        shown.append(page.evaluate("window.left") - ended)
    context.close()
    shown.sort()
    print(f"change on screen: {shown[0]:.0f} to {shown[-1]:.0f} ms, median {statistics.median(shown):.0f}; {load()}")
    claim("a job ends → its row has left the screen, 1,000 running jobs", statistics.median(shown), "ms", 150)


def report_panning(browser: Any, cluster: DashboardCluster) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(f"{cluster.link()}&to=/share")
    page.wait_for_selector("main[data-ready]")
    found = page.evaluate(PAN, [RANKS, STEPS, PANNING_MS])
    context.close()
    gaps = sorted(found["gaps"])
    rate = len(gaps) / sum(gaps) * 1000
    late = sum(gap > 25 for gap in gaps)
    print(f"heat-map drawn in {found['drawn']:.0f} ms; {len(gaps)} frames, {late} of them late; {load()}")
    claim(f"heat-map of {RANKS:,} ranks × {STEPS:,} steps while panning", rate, "frames/s", 59.5, better="higher")


if __name__ == "__main__":
    main()
