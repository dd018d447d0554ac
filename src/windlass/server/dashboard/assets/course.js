// Recorded courses of the cluster or of a queue: what was held, and how many jobs ran and waited.
import { LineChart } from "./chart.js";
import { choice, h, remember } from "./dom.js";

const SPANS = [["1", "Hour"], ["24", "Day"], ["168", "Week"], ["2160", "90 days"]];
const HELD = /^windlass_(allocated|capacity|queue_held|queue_quota)\{resource="(.*)"\}$/;
const NAMES = { allocated: "allocated", capacity: "in all", queue_held: "held", queue_quota: "quota" };
const BOUNDS = ["in all", "quota"]; // nothing to see without what is used of them
const COUNTED = { windlass_queue_running: "running", windlass_queue_waiting: "waiting" };
const PHASE = /^windlass_jobs\{phase="(.*)"\}$/;

export class CourseView {
  constructor(path, get, title) {
    this.path = path;
    this.get = get;
    this.charts = new Map();
    const asked = new URLSearchParams(location.search).get("hours") ?? "1";
    this.span = choice("Span of the course", SPANS, asked, (value) => { remember("hours", value === "1" ? "" : value); this.update(); });
    this.box = h("div", { class: "charts" });
    this.element = h("section", { hidden: true }, h("div", { class: "head" }, h("h2", {}, title), this.span), this.box);
  }

  async update() {
    let found;
    try { found = await this.get(`${this.path}?hours=${this.span.value}`); } catch { return; }
    const groups = new Map();
    for (const each of found.series) {
      const [group, label] = place(each.series);
      if (!group) continue;
      const line = { label, times: each.times, values: each.values.map((row) => (group === "cpu" && row[0] !== null ? row[0] / 1000 : row[0])) };
      if (line.values.some((value) => value)) groups.set(group, [...(groups.get(group) ?? []), line]);
    }
    for (const [group, lines] of groups) if (lines.every((line) => BOUNDS.includes(line.label))) groups.delete(group);
    this.element.hidden = !groups.size && !this.charts.size;
    for (const [group, lines] of groups) {
      if (!this.charts.has(group)) {
        this.charts.set(group, new LineChart(group, group === "memory" ? "By" : ""));
        this.box.append(this.charts.get(group).element);
      }
      this.charts.get(group).update(lines.sort((a, b) => a.label.localeCompare(b.label)));
    }
  }

  draw() {
    for (const chart of this.charts.values()) chart.draw();
  }
}

function place(series) {
  const held = HELD.exec(series);
  if (held) return [held[2], NAMES[held[1]]];
  const phase = PHASE.exec(series);
  if (phase) return ["jobs", phase[1]];
  return series in COUNTED ? ["jobs", COUNTED[series]] : ["", ""];
}
