// Ranks × times as an image: one cell a value, drawn once into a buffer and scaled by the browser while panning.
import { h, tint } from "./dom.js";
import { clock, measured } from "./format.js";

const EMPTY = packed([128, 128, 128, 40]);
const SHADES = 256;
const MOST_HEIGHT = 420;

const CALM = 1.25; // multiple of the median that is red at least: small differences are no stripes

// Values are coloured by their place between the 5th and the 95th percentile; the lowest rank is on top. Where
// there are more ranks than rows of pixels, a row has the slowest of its ranks, so that a single one is seen.
export class HeatMap {
  constructor(title, unit) {
    this.unit = unit;
    this.canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": title });
    this.output = h("output", {}, "Point at a cell, or use the arrow keys.");
    this.element = h("div", { class: "heat" }, this.canvas, this.output);
    this.buffer = document.createElement("canvas");
    this.at = { column: 0, rank: 0 };
    this.view = null;
    this.listen();
    new ResizeObserver(() => this.paint()).observe(this.canvas);
  }

  update(times, values) {
    const ranks = Math.max(0, ...values.map((row) => row.length));
    const key = `${times.length} ${times.at(-1)} ${ranks}`;
    if (!ranks || key === this.key) return;
    const follows = !this.view || this.view.to >= this.times.length;
    this.key = key;
    Object.assign(this, { times, values, ranks });
    if (follows) this.view = { from: 0, to: times.length };
    [this.low, this.high] = bounds(values);
    this.fill();
    this.paint();
  }

  // In the colours of the theme.
  redraw() {
    if (!this.ranks) return;
    this.fill();
    this.paint();
  }

  fill() {
    const ramp = tint("--heat").split(",").map((colour) => colour.trim().split(" ").map(Number));
    const shades = Uint32Array.from({ length: SHADES }, (_, index) => packed([...shade(ramp, index / (SHADES - 1)), 255]));
    this.buffer.width = this.times.length;
    this.each = Math.ceil(this.ranks / MOST_HEIGHT); // ranks of a row
    this.rows = Math.ceil(this.ranks / this.each);
    this.buffer.height = this.rows;
    const image = new ImageData(this.times.length, this.rows);
    const cells = new Uint32Array(image.data.buffer);
    const scale = this.high > this.low ? (SHADES - 1) / (this.high - this.low) : 0;
    const width = this.times.length;
    for (let column = 0; column < width; column += 1) {
      const values = this.values[column];
      for (let row = 0; row < this.rows; row += 1) {
        const value = values[this.slowestOf(row, column)];
        const known = value !== null && value !== undefined;
        cells[row * width + column] = known ? shades[Math.max(0, Math.min(SHADES - 1, Math.round((value - this.low) * scale)))] : EMPTY;
      }
    }
    this.buffer.getContext("2d").putImageData(image, 0, 0);
  }

  // The rank of a row with the highest value in a column.
  slowestOf(row, column) {
    const values = this.values[column];
    let slowest = row * this.each;
    for (let rank = slowest + 1; rank < Math.min(this.ranks, (row + 1) * this.each); rank += 1) {
      if ((values[rank] ?? -1) > (values[slowest] ?? -1)) slowest = rank;
    }
    return slowest;
  }

  paint() {
    if (!this.ranks) return;
    const unit = parseFloat(tint("--u")) || 1;
    const height = Math.max(48, Math.min(MOST_HEIGHT, this.ranks * 18)) * unit;
    const scale = devicePixelRatio || 1;
    this.canvas.style.height = `${height}px`;
    const size = { width: Math.floor(this.canvas.clientWidth * scale), height: Math.floor(height * scale) };
    if (this.canvas.width !== size.width || this.canvas.height !== size.height) Object.assign(this.canvas, size);
    const context = this.canvas.getContext("2d");
    context.imageSmoothingEnabled = false;
    const { from, to } = this.view;
    context.clearRect(0, 0, size.width, size.height);
    context.drawImage(this.buffer, from, 0, to - from, this.rows, 0, 0, this.canvas.width, this.canvas.height);
  }

  listen() {
    let held = null;
    this.canvas.addEventListener("pointerdown", (event) => { held = { x: event.offsetX, ...this.view }; this.canvas.setPointerCapture(event.pointerId); });
    this.canvas.addEventListener("pointerup", () => { held = null; });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!this.ranks) return;
      if (held) this.pan(held.from - ((event.offsetX - held.x) / this.canvas.clientWidth) * (held.to - held.from));
      this.point(Math.floor(this.view.from + (event.offsetX / this.canvas.clientWidth) * (this.view.to - this.view.from)),
        Math.floor((event.offsetY / this.canvas.clientHeight) * this.rows), true);
    });
    this.canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 0.8 : 1.25, event.offsetX / this.canvas.clientWidth);
    }, { passive: false });
    this.canvas.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (steps) this.point(this.at.column + steps[0], this.at.rank + steps[1]);
      else if (event.key === "+") this.zoom(0.8, 0.5);
      else if (event.key === "-") this.zoom(1.25, 0.5);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  pan(from) {
    const width = this.view.to - this.view.from;
    const start = Math.max(0, Math.min(this.times.length - width, from));
    this.view = { from: start, to: start + width };
    this.paint();
  }

  zoom(factor, around) {
    if (!this.ranks) return;
    const width = Math.max(8, Math.min(this.times.length, (this.view.to - this.view.from) * factor));
    const centre = this.view.from + (this.view.to - this.view.from) * around;
    this.view = { from: 0, to: width };
    this.pan(centre - width * around);
  }

  // `isRow`: a row of the image is meant, and in it the slowest rank.
  point(column, place, isRow = false) {
    if (!this.ranks) return;
    const inside = Math.max(0, Math.min(this.times.length - 1, column));
    const rank = isRow ? this.slowestOf(Math.max(0, Math.min(this.rows - 1, place)), inside) : place;
    this.at = { column: Math.max(0, Math.min(this.times.length - 1, column)), rank: Math.max(0, Math.min(this.ranks - 1, rank)) };
    const value = this.values[this.at.column][this.at.rank];
    this.output.textContent = `rank ${this.at.rank}, ${clock(this.times[this.at.column])}: ${measured(value, this.unit)}`;
  }
}

// The bytes of a colour as one number, in the order of image data.
function packed(colour) {
  return new Uint32Array(Uint8ClampedArray.from(colour).buffer)[0];
}

// Colour at a place between 0 and 1 of a ramp.
function shade(ramp, place) {
  const scaled = place * (ramp.length - 1);
  const at = Math.min(ramp.length - 2, Math.floor(scaled));
  return ramp[at].map((part, index) => part + (ramp[at + 1][index] - part) * (scaled - at));
}

// Of at most 20,000 values, evenly chosen.
function bounds(values) {
  const cells = values.reduce((sum, row) => sum + row.length, 0);
  const stride = Math.max(1, Math.ceil(cells / 20000));
  const sample = [];
  let next = 0; // index of the next chosen value in its row
  for (const row of values) {
    for (; next < row.length; next += stride) if (row[next] !== null) sample.push(row[next]);
    next -= row.length;
  }
  sample.sort((a, b) => a - b);
  const at = (share) => sample[Math.min(sample.length - 1, Math.floor(sample.length * share))];
  return [at(0.05) ?? 0, Math.max(at(0.95) ?? 1, (at(0.5) ?? 0) * CALM)];
}
