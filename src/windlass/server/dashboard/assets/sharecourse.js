// Shares and held amounts of queues over time, one line for each queue.
import { LineChart } from "./chart.js";
import { choice, encodeId, h, remember, section } from "./dom.js";

const MOST = 8; // queues with lines of their own: those that hold the most
const PAUSE_MS = 8_000;
const SPANS = [["1", "Hour"], ["24", "Day"], ["168", "Week"], ["2160", "90 days"]];

export class ShareCourse {
  constructor(get) {
    this.get = get;
    const asked = new URLSearchParams(location.search).get("hours");
    this.hours = SPANS.some(([value]) => value === asked) ? asked : "1";
    this.share = new LineChart("Share of the cluster per weight", "1");
    this.held = new LineChart("Held", "");
    const span = choice("Span of the course", SPANS, this.hours, (value) => { remember("hours", value === "1" ? "" : value); this.hours = value; this.at = 0; this.update(...this.last); });
    this.element = section("time", "Over time", h("div", { class: "spread" }, h("span", { class: "about" }, `The ${MOST} queues that hold the most`), span),
      h("div", { class: "charts" }, this.share.element, this.held.element));
    this.at = 0;
  }

  async update(queues, resource) {
    this.last = [queues, resource];
    if (Date.now() - this.at < PAUSE_MS && this.resource === resource) return;
    Object.assign(this, { at: Date.now(), resource });
    const names = [...queues].sort((a, b) => (b.held[resource] || 0) - (a.held[resource] || 0)).slice(0, MOST).map((row) => row.queue).sort();
    const found = await Promise.all(names.map((name) => this.get(`/api/course/${encodeId(name)}?hours=${this.hours}`).catch(() => ({ series: [] }))));
    const lines = (series) => found.flatMap(({ series: all }, index) => all.filter((each) => each.series === series)
      .map((each) => ({ label: names[index], colour: index, times: each.times, values: each.values.map((row) => row[0]) })));
    const shares = lines("windlass_queue_share_ratio");
    this.element.hidden = !shares.length;
    this.share.update(shares);
    this.held.update(lines(`windlass_queue_held{resource="${resource}"}`));
    this.held.element.hidden = !this.held.lines.length;
    this.held.element.querySelector("h3").firstChild.textContent = `Held ${resource}`;
  }

  draw() {
    for (const chart of [this.share, this.held]) chart.draw();
  }
}
