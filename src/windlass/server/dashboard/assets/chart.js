// Line charts by uPlot, which page loads before the modules. Times in ms, values in the unit of the metric.
import { colourOf, h, tint } from "./dom.js";
import { clock, measured } from "./format.js";

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif";
const HEIGHT = 180;
const BINARY = Array.from({ length: 50 }, (_, power) => 2 ** power); // steps of an axis in bytes
const SHORT_S = 120; // a step of the axis below which its labels have seconds

// lines: [{label, times, values}]; all of one unit. stacked: each line is drawn on the sum of those before it.
export class LineChart {
  constructor(title, unit, about = "", stacked = false) {
    this.unit = unit;
    this.stacked = stacked;
    this.holder = h("div", { class: "plot", role: "img", "aria-label": title });
    this.element = h("div", { class: "chart" }, h("h3", {}, title, " ", h("small", {}, about)), this.holder);
    this.lines = [];
    new ResizeObserver(() => { if (this.holder.isConnected) this.draw(); else this.release(); }).observe(this.holder);
  }

  // Frees the plot of a page that was left: until then the window's listeners hold it, and with it all of the page.
  release() {
    this.plot?.destroy();
    this.plot = this.labels = undefined;
  }

  update(lines) {
    const text = JSON.stringify(lines.map((line) => [line.label, line.times.length, line.times.at(-1), line.values.at(-1)]));
    if (text === this.text) return;
    this.text = text;
    this.lines = lines;
    this.draw();
  }

  draw() {
    const width = Math.floor(this.holder.clientWidth);
    if (!width || !this.lines.length) return;
    const data = this.columns();
    const labels = JSON.stringify([width, this.lines.map((line) => line.label), tint("--ink")]);
    if (this.plot && this.labels === labels) { this.plot.setData(data); return; }
    this.plot?.destroy();
    this.labels = labels;
    this.plot = new uPlot(this.options(width), data, this.holder);
  }

  columns() {
    const times = [...new Set(this.lines.flatMap((line) => line.times))].sort((a, b) => a - b);
    const values = this.lines.map((line) => {
      const at = new Map(line.times.map((time, index) => [time, line.values[index]]));
      return times.map((time) => at.get(time) ?? null);
    });
    if (this.stacked) for (let row = 1; row < values.length; row += 1) values[row] = values[row].map((value, at) => (value ?? 0) + (values[row - 1][at] ?? 0));
    return [times.map((time) => time / 1000), ...values];
  }

  options(width) {
    const unit = parseFloat(tint("--u")) || 1;
    const axis = { stroke: tint("--quiet"), font: `${Math.round(12 * unit)}px ${FONT}`, grid: { stroke: tint("--grid"), width: 1 }, ticks: { show: false } };
    const own = (index) => (_, value, __, at) => {
      const place = at ?? lastOf(this.plot?.data[index + 1]);
      const shown = value ?? this.plot?.data[index + 1][place];
      if (shown === null || shown === undefined) return "–";
      const below = this.stacked && index ? this.plot.data[index][place] ?? 0 : 0;
      return measured(shown - below, this.unit);
    };
    return {
      width, height: Math.round(HEIGHT * unit), padding: [8, 30 * unit, 0, 0], cursor: { y: false, drag: { x: true, y: false } },
      legend: { live: true }, scales: { x: { time: true }, y: { range: (_, low, high) => [Math.min(0, low || 0), (high || 1) * 1.05] } },
      axes: [{ ...axis, size: 34 * unit, space: 76 * unit, values: times }, { ...axis, size: 64 * unit, space: 34 * unit, ...(this.unit === "By" ? { incrs: BINARY } : {}), values: (_, all) => all.map((value) => measured(value, this.unit)) }],
      series: [{ label: "", value: (_, value) => (value ? clock(value * 1000) : "latest") }, ...this.lines.map((line, index) => ({
        label: line.label, stroke: colourOf(line.colour ?? index), width: 1.6, spanGaps: false, points: { show: line.times.length < 3 },
        value: own(index), fill: this.stacked && index === 0 ? `${colourOf(0)}40` : undefined,
      }))],
      bands: this.stacked ? this.lines.slice(1).map((_, index) => ({ series: [index + 2, index + 1], fill: `${colourOf(index + 1)}40` })) : [],
    };
  }
}

function lastOf(values = []) {
  return values.findLastIndex((value) => value !== null && value !== undefined);
}

// Labels of the time axis: the day where it changes, and seconds only on a short axis.
function times(_, all, __, ___, step) {
  let before = "";
  return all.map((seconds) => {
    const at = new Date(seconds * 1000);
    const day = at.toLocaleDateString("en-GB", { weekday: "short", day: "numeric", month: "short" });
    const time = at.toLocaleTimeString("en-GB", step < SHORT_S && step % 60 ? {} : { hour: "2-digit", minute: "2-digit" });
    const isNew = day !== before && (step >= 86_400 || before || day !== new Date().toLocaleDateString("en-GB", { weekday: "short", day: "numeric", month: "short" }));
    before = day;
    if (step >= 86_400) return day;
    return isNew ? `${time}\n${day}` : time;
  });
}
