// One figure for each chart: uPlot above, the same numbers as a table beneath.

const TIME_STEPS = [1, 5, 15, 60, 300, 900, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 432000, 864000, 1728000, 4320000, 8640000];
const LOG_TICKS = [0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 21600, 86400, 604800, 2592000, 31536000];
const TEN_STEPS = Array.from({ length: 24 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** (power - 8))).flat();

class Chart {
  constructor(data, policies) {
    this.data = data;
    this.policies = policies;
    this.view = 0;
    this.shown = policies.map(() => true);
    this.plot = null;
    this.holder = made("div", { class: "plot", role: "img", "aria-label": data.alt });
    this.table = made("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${data.title}, as a table` });
    this.figure = made("figure", { id: data.id, class: data.kind },
      made("figcaption", {}, made("h2", {}, data.title), made("p", { class: "about" }, data.about)),
      ...this.switches(), this.holder,
      made("details", { on: { toggle: () => this.fillTable() } }, made("summary", {}, "The numbers"), this.table));
    new ResizeObserver(() => this.resize()).observe(this.holder);
  }

  get series() {
    return this.data.views[this.view].series;
  }

  get unit() {
    return this.data.views[this.view].unit;
  }

  switches() {
    if (this.data.views.length < 2) return [];
    this.buttons = this.data.views.map((view, index) => made("button",
      { type: "button", "aria-pressed": String(index === 0), on: { click: () => this.look(index) } }, view.name));
    return [made("div", { class: "views", role: "group", "aria-label": `${this.data.title}: what is shown` }, ...this.buttons)];
  }

  look(index) {
    this.view = index;
    this.buttons.forEach((button, number) => button.setAttribute("aria-pressed", String(number === index)));
    this.draw();
    this.fillTable();
  }

  show(index, visible) {
    this.shown[index] = visible;
    if (this.plot) this.plot.setSeries(index + 1, { show: visible });
  }

  resize() {
    const width = Math.floor(this.holder.clientWidth);
    if (!width) return;
    if (this.plot) this.plot.setSize({ width, height: this.height() });
    else this.draw();
  }

  height() {
    return this.holder.clientWidth < 420 ? 230 : 280;
  }

  draw() {
    if (this.plot) this.plot.destroy();
    const options = {
      width: Math.floor(this.holder.clientWidth), height: this.height(),
      padding: [10, 14, 0, 0],
      cursor: { y: false, points: { size: 7 }, drag: { x: this.data.kind !== "bars", y: false } },
      legend: { live: true, markers: { width: 0, fill: (_, number) => colourOf(number - 1) } },
      scales: { x: this.scaleX(), y: this.scaleY() },
      axes: [this.axisX(), this.axisY()],
      series: [{ label: this.data.x_title, value: (_, value) => this.nameOf(value) },
        ...this.policies.map((name, index) => this.line(name, index))],
    };
    this.plot = new uPlot(options, this.columns(), this.holder);
  }

  // Bars stand beside each other: each policy has a place of its own around the category's.
  columns() {
    if (this.data.kind !== "bars") return [this.data.x, ...this.series];
    const count = this.policies.length, places = [];
    this.data.categories.forEach((_, index) => this.policies.forEach((_, number) => places.push(index + this.offset(number))));
    const floor = this.floor();
    return [places, ...this.series.map((values, number) => places.map((_, place) => {
      const value = values[Math.floor(place / count)];
      return place % count === number && value !== null ? Math.max(value, floor) : null;
    }))];
  }

  offset(number) {
    return (number - (this.policies.length - 1) / 2) * 0.8 / this.policies.length;
  }

  // The least that a logarithmic axis shows: one second, or a ratio of one.
  floor() {
    return this.data.views[this.view].log ? 1 : 0;
  }

  nameOf(value) {
    if (value === null || value === undefined) return "–";
    return this.data.kind === "bars" ? this.data.categories[Math.round(value)] : spanOf(value);
  }

  line(name, index) {
    const bars = this.data.kind === "bars";
    return {
      label: name, show: this.shown[index], stroke: colourOf(index), width: bars ? 0 : 1.75,
      fill: bars ? colourOf(index) : undefined,
      paths: bars ? uPlot.paths.bars({ size: [0.86, 46], radius: 0.12 })
        : this.data.kind === "cdf" ? uPlot.paths.stepped({ align: 1 }) : uPlot.paths.linear(),
      points: { show: false }, spanGaps: false,
      value: (_, value, __, at) => told(bars ? this.atCursor(index, at) : value, this.unit),
    };
  }

  // Every policy's bar of the category under the cursor, not only the one that it is on.
  atCursor(index, at) {
    return at === null || at === undefined ? null : this.series[index][Math.floor(at / this.policies.length)];
  }

  scaleX() {
    if (this.data.kind === "bars") return { time: false, range: [-0.55, this.data.categories.length - 0.45] };
    if (this.data.kind === "cdf") return { time: false, distr: 3, range: (_, low, high) => [low, high] };
    return { time: false };
  }

  scaleY() {
    if (this.data.kind === "cdf") return { range: [0, 1] };
    if (this.data.views[this.view].log) return { distr: 3, range: (_, __, high) => [1, Math.max(10, (high || 1) * 1.3)] };
    if (this.unit === "share") return { range: (_, __, high) => [0, Math.max(Math.min(1, (high || 1) * 1.1), 0.05)] };
    return { range: (_, __, high) => [0, (high || 1) * 1.08] };
  }

  axisX() {
    const plain = { stroke: tint("--quiet"), grid: { show: false }, ticks: { stroke: tint("--line"), size: 4 }, font: FONT, gap: 4, size: 30,
      label: this.data.x_title, labelSize: 20, labelFont: FONT, labelGap: 0 };
    if (this.data.kind === "bars") {
      const every = Math.ceil(this.data.categories.length * this.widestName() / Math.max(1, this.holder.clientWidth - 70));
      return { ...plain, splits: () => this.data.categories.map((_, index) => index), filter: (_, all) => all,
        values: (_, all) => all.map((index) => (index % every ? "" : this.data.categories[index])) };
    }
    if (this.data.kind === "cdf") {
      return { ...plain, filter: (_, all) => all, values: (_, all) => all.map((value) => ticked(value, "s")),
        splits: (_, __, low, high) => apart(LOG_TICKS.filter((tick) => tick >= low && tick <= high), this.holder.clientWidth) };
    }
    return { ...plain, incrs: TIME_STEPS, space: 64, values: (_, all) => all.map((value) => (value === 0 ? "0" : spanOf(value))) };
  }

  widestName() {
    return 7 * Math.max(...this.data.categories.map((name) => name.length)) + 10;
  }

  axisY() {
    const axis = { stroke: tint("--quiet"), grid: { stroke: tint("--grid"), width: 1 }, ticks: { show: false }, font: FONT, gap: 6,
      size: (_, values) => 14 + 6.6 * Math.max(3, ...(values || []).map((text) => (text || "").length)),
      values: (_, all) => all.map((value) => (value === null ? "" : ticked(value, this.unit))) };
    if (this.data.views[this.view].log) {
      const ticks = this.unit === "s" ? LOG_TICKS : [1, 3, 10, 30, 100, 300, 1e3, 3e3, 1e4, 1e5, 1e6];
      return { ...axis, filter: (_, all) => all, splits: (_, __, low, high) => ticks.filter((tick) => tick >= low && tick <= high) };
    }
    return this.unit === "s" ? { ...axis, incrs: TIME_STEPS } : { ...axis, incrs: TEN_STEPS };
  }

  fillTable() {
    if (!this.figure.querySelector("details").open) return;
    const names = this.data.categories || this.data.x;
    const step = Math.max(1, Math.ceil(names.length / 60));
    const rows = names.map((name, index) => index).filter((index) => index % step === 0);
    const cell = (index, series) => made("td", {}, told(series[index], this.unit));
    const row = (index) => made("tr", {}, made("th", { scope: "row" }, this.data.categories ? names[index] : spanOf(names[index])),
      ...this.series.map((series) => cell(index, series)));
    const head = [this.data.x_title, ...this.policies].map((name) => made("th", { scope: "col" }, name));
    this.table.replaceChildren(made("table", {}, made("thead", {}, made("tr", {}, ...head)), made("tbody", {}, ...rows.map(row))));
  }
}

const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif";

// Ticks that have room for their text.
function apart(ticks, width) {
  const most = Math.max(2, Math.floor(width / 62));
  const every = Math.ceil(ticks.length / most);
  return ticks.filter((_, index) => index % every === 0);
}
