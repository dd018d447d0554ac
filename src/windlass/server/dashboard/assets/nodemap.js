// Nodes × GPUs on a canvas, in the order of the topology: a cell is a GPU, its colour what the page asks for.
import { h, jobLink, tint } from "./dom.js";
import { count } from "./format.js";

const RAMP = [[66, 146, 198], [171, 217, 233], [254, 224, 144], [253, 141, 60], [215, 48, 39]];
const SIZES = [[12, 30], [40, 22], [200, 12], [1000, 8], [Infinity, 5]]; // nodes up to, edge of a cell
const MOST_SLOTS = 16;
const TITLE = 20;
const GAP = 3;
const LABELLED = 16; // edge of a cell from which nodes have their names
const STATES = { ready: "--good", reserved: "--accent", maintenance: "--fragmented", cordoned: "--fragmented", "not ready": "--bad" };

export const MODES = [["job", "Colour: job"], ["use", "Colour: use"], ["temperature", "Colour: temperature"], ["health", "Colour: health"]];
const COLOURS = 8;
const HOT = 90; // °C that are red; 30 °C are blue

export class NodeMap {
  constructor(choose) {
    this.choose = choose;
    this.canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": "Map of nodes" });
    this.output = h("output", {}, "Point at a node, or use the arrow keys; Enter opens it.");
    this.legend = h("p", { class: "legend" });
    this.element = h("div", { class: "map" }, this.canvas, this.legend, this.output);
    this.places = [];
    this.at = 0;
    this.nodes = [];
    new ResizeObserver(() => this.paint()).observe(this.element);
    this.canvas.addEventListener("pointermove", (event) => this.point(this.find(event.offsetX, event.offsetY)));
    this.canvas.addEventListener("click", (event) => { const found = this.find(event.offsetX, event.offsetY); if (found >= 0) choose(this.places[found].node.name); });
    this.canvas.addEventListener("keydown", (event) => this.onKey(event));
  }

  update(groups, mode, uses) {
    Object.assign(this, { groups, mode, uses, colours: coloursOf(groups) });
    this.canvas.setAttribute("aria-label", `Map of ${count(groups.reduce((sum, group) => sum + group.nodes.length, 0), "node")} by ${mode}`);
    this.paint();
  }

  paint() {
    const width = Math.floor(this.element.clientWidth);
    if (!width || !this.groups) return;
    const unit = parseFloat(tint("--u")) || 1;
    const height = this.arrange(width, unit);
    const scale = devicePixelRatio || 1;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    context.font = `600 ${12 * unit}px system-ui, 'DejaVu Sans', sans-serif`;
    context.textBaseline = "middle";
    for (const title of this.titles) { context.fillStyle = tint("--quiet"); context.fillText(title.text, title.x, title.y); }
    const tints = new Map();
    const colour = (name) => { if (!tints.has(name)) tints.set(name, tint(name)); return tints.get(name); };
    for (const [index, place] of this.places.entries()) this.drawNode(context, place, colour, index === this.at && document.activeElement === this.canvas);
    this.legend.replaceChildren(...legendOf(this.mode, this.colours));
  }

  // Groups below each other, their nodes from left to right.
  arrange(width, unit) {
    const number = this.groups.reduce((sum, group) => sum + group.nodes.length, 0);
    const edge = Math.round(SIZES.find(([most]) => number <= most)[1] * unit);
    const title = TITLE * unit;
    this.titles = [];
    this.places = [];
    let y = 2;
    for (const group of this.groups) {
      if (group.title) { this.titles.push({ text: group.title, x: 2, y: y + title / 2 }); y += title; }
      let [x, deepest] = [2, 0];
      for (const node of group.nodes) {
        const slots = slotsOf(node);
        const columns = Math.min(4, slots);
        const label = edge >= LABELLED * unit ? Math.round(18 * unit) : 0;
        const size = { w: Math.max(columns * edge + 4, label && 70 * unit), h: Math.ceil(slots / columns) * edge + 4 + label, label };
        if (x + size.w > width - 2 && x > 2) { x = 2; y += deepest + GAP; deepest = 0; }
        this.places.push({ node, x, y, ...size, edge, columns, slots });
        x += size.w + GAP;
        deepest = Math.max(deepest, size.h);
      }
      y += deepest + GAP + 6;
    }
    return Math.max(40, y);
  }

  drawNode(context, place, colour, isChosen) {
    const { node, x, y, w, h: high, edge, columns, slots, label } = place;
    context.fillStyle = colour("--grid");
    context.fillRect(x, y, w, high);
    context.strokeStyle = colour(isChosen ? "--ink" : STATES[node.state] ?? "--line");
    context.lineWidth = isChosen ? 2 : 1;
    if (isChosen || this.mode === "health" || node.state !== "ready") context.strokeRect(x + 0.5, y + 0.5, w - 1, high - 1);
    if (label) { context.fillStyle = colour("--ink"); context.fillText(shortened(context, node.name, w - 8), x + 4, y + label / 2 + 1); }
    const owners = ownersOf(node, slots);
    for (let slot = 0; slot < slots; slot += 1) {
      const fill = this.fillOf(node, owners[slot], colour);
      if (!fill) continue;
      context.fillStyle = fill;
      context.fillRect(x + 2 + (slot % columns) * edge, y + 2 + label + Math.floor(slot / columns) * edge, edge - 1, edge - 1);
    }
  }

  fillOf(node, owner, colour) {
    if (this.mode === "health") return colour(STATES[node.state] ?? "--quiet");
    if (!owner) return null;
    if (this.mode === "job") return colour(this.colours.get(owner));
    const value = this.uses[node.name]?.[owner]?.[this.mode];
    if (value === null || value === undefined) return colour("--idle");
    return ramp(this.mode === "use" ? value : (value - 30) / (HOT - 30));
  }

  find(x, y) {
    return this.places.findIndex((place) => x >= place.x && x <= place.x + place.w && y >= place.y && y <= place.y + place.h);
  }

  point(index) {
    if (index < 0 || index >= this.places.length) return;
    this.at = index;
    const { node } = this.places[index];
    const jobs = node.jobs.map((job) => `${job.id}${measuredText(this.uses[node.name]?.[job.id])}`).join(", ");
    this.output.textContent = `${node.name}, ${node.state}: ${jobs || "no job"}`;
  }

  onKey(event) {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (by) { this.point(this.at + by); this.paint(); }
    else if (event.key === "Enter" && this.places[this.at]) this.choose(this.places[this.at].node.name);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

function shortened(context, text, width) {
  let end = text.length;
  while (end > 3 && context.measureText(text.slice(0, end)).width > width) end -= 1;
  return end < text.length ? `${text.slice(0, end - 1)}…` : text;
}

function slotsOf(node) {
  return Math.max(1, Math.min(MOST_SLOTS, node.capacity.gpu || 1));
}

// The job of each slot, or null; a node without GPUs has one slot for all of its jobs.
export function ownersOf(node, slots) {
  if (!node.capacity.gpu) return [node.jobs[0]?.id ?? null];
  const scale = Math.min(1, slots / node.capacity.gpu);
  const owners = node.jobs.flatMap((job) => Array.from({ length: Math.ceil((job.holds.gpu || (job.holds.gpu_milli || 0) / 1000) * scale) }, () => job.id));
  return Array.from({ length: slots }, (_, slot) => owners[slot] ?? null);
}

function measuredText(found) {
  if (!found) return "";
  const parts = [found.use === null ? "" : `${Math.round(found.use * 100)} % in use`, found.temperature === null ? "" : `${Math.round(found.temperature)} °C`];
  return parts.some(Boolean) ? ` (${parts.filter(Boolean).join(", ")})` : "";
}

function ramp(share) {
  const scaled = Math.max(0, Math.min(1, share)) * (RAMP.length - 1);
  const at = Math.min(RAMP.length - 2, Math.floor(scaled));
  return `rgb(${RAMP[at].map((part, index) => Math.round(part + (RAMP[at + 1][index] - part) * (scaled - at))).join(" ")})`;
}

// Job → colour: always the same for a job where others leave it, and different ones as long as there are enough.
function coloursOf(groups) {
  const jobs = [...new Set(groups.flatMap((group) => group.nodes.flatMap((node) => node.jobs.map((job) => job.id))))].sort();
  const taken = new Set();
  return new Map(jobs.map((job) => {
    let at = hash(job) % COLOURS;
    for (let tries = 0; taken.size < COLOURS && taken.has(at) && tries < COLOURS; tries += 1) at = (at + 1) % COLOURS;
    taken.add(at);
    return [job, `--p${at}`];
  }));
}

function hash(text) {
  let value = 0;
  for (const letter of text) value = (value * 31 + letter.charCodeAt(0)) >>> 0;
  return value;
}

function legendOf(mode, colours) {
  if (mode === "health") return Object.entries(STATES).map(([state, name]) => h("span", { vars: { "--of": `var(${name})` } }, state));
  const free = h("span", { vars: { "--of": "var(--grid)" } }, "free");
  if (mode === "job" && colours.size > COLOURS) return [h("span", {}, "jobs share eight colours"), free];
  if (mode === "job") return [...[...colours].map(([job, name]) => h("span", { vars: { "--of": `var(${name})` } }, jobLink(job))), free];
  const ends = mode === "use" ? ["0 %", "100 %"] : ["30 °C", `${HOT} °C`];
  return [h("span", { vars: { "--of": ramp(0) } }, ends[0]), h("span", { vars: { "--of": ramp(1) } }, ends[1]),
    h("span", { vars: { "--of": "var(--idle)" } }, "held, not reported"), free];
}
