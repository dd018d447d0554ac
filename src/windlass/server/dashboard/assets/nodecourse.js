// Use of one node over time: ranks that its jobs had there, and what telemetry has recorded of the node itself.
import { LineChart } from "./chart.js";
import { encodeId, h } from "./dom.js";

const SPANS_H = [1, 24, 168, 2160];
const PAUSE_MS = 10_000;
const HOUR_MS = 3_600_000;
const NAME = /^windlass_node_(.*?)(?:_(?:ratio|bytes|celsius|seconds))?(?:\{(.*)\})?$/;

export class NodeCourse {
  constructor(name, get) {
    this.path = `/api/node_course/${encodeId(name)}`;
    this.get = get;
    this.at = 0;
    this.ranks = new LineChart("Ranks on this node", "");
    this.measured = new Map();
    this.box = h("div", { class: "charts" }, this.ranks.element);
    this.element = h("div", {}, h("h3", {}, "Its use over time"), this.box);
  }

  async update(past, now) {
    this.element.hidden = !past.some((row) => row.started_at);
    if (this.element.hidden) return;
    this.ranks.update([occupancy(past, now)]);
    if (Date.now() - this.at < PAUSE_MS) return;
    this.at = Date.now();
    const first = Math.min(...past.map((row) => row.started_at).filter(Boolean));
    const hours = SPANS_H.find((span) => now - first <= span * HOUR_MS) ?? SPANS_H.at(-1);
    const found = await this.get(`${this.path}?hours=${hours}`).catch(() => ({ series: [] }));
    for (const [title, { unit, lines }] of grouped(found.series)) {
      if (!this.measured.has(title)) {
        this.measured.set(title, new LineChart(title, unit));
        this.box.append(this.measured.get(title).element);
      }
      this.measured.get(title).update(lines);
    }
  }

  draw() {
    for (const chart of [this.ranks, ...this.measured.values()]) chart.draw();
  }
}

// A line with a step at each start and end of an attempt.
export function occupancy(past, now) {
  const changes = past.filter((row) => row.started_at).flatMap((row) => [[row.started_at, row.ranks], ...(row.ended_at ? [[row.ended_at, -row.ranks]] : [])]);
  changes.sort(([a], [b]) => a - b);
  const [times, values] = [[], []];
  let held = 0;
  for (const [at, by] of changes) {
    times.push(at, at + 1);
    values.push(held, held + by);
    held += by;
  }
  return { label: "ranks", times: [...times, Math.max(now, (times.at(-1) ?? 0) + 1)], values: [...values, held] };
}

// "gpu_memory_used" → "GPU memory used"
function titleOf(name) {
  const text = name.replaceAll("_", " ").replace(/\b(?:gpu|cpu)(?=s?\b)/g, (word) => word.toUpperCase());
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// Series of one metric in one chart, a line for each of its labels.
function grouped(series) {
  const found = new Map();
  for (const each of series) {
    const [, name, labels] = NAME.exec(each.series) ?? [];
    if (!name) continue;
    const title = titleOf(name);
    const group = found.get(title) ?? { unit: each.unit, lines: [] };
    const width = each.values[0]?.length ?? 1;
    for (let at = 0; at < width; at += 1) {
      const label = [labels?.replace(/"/g, ""), width > 1 ? `GPU ${at}` : ""].filter(Boolean).join(" ") || title;
      group.lines.push({ label, times: each.times, values: each.values.map((row) => row[at]) });
    }
    found.set(title, group);
  }
  return found;
}
