// Output of the ranks: only the rows in sight are elements, whatever the number of lines.
import { colourName, encodeId, h, remember, tint } from "./dom.js";
import { clock, count } from "./format.js";

const MOST_LINES = 100_000;
const [POLL_MS, LOST_MS] = [500, 5_000]; // between two requests: while there are answers, and after none

export class LogView {
  constructor(id, get) {
    this.path = `/api/jobs/${encodeId(id)}/log`;
    this.get = get;
    this.lines = [];
    this.offsets = {};
    this.height = 19;
    this.space = h("div");
    this.space.style.position = "relative";
    this.box = h("div", { class: "log mono", tabindex: "0", role: "log", "aria-label": "Output of the ranks", "aria-live": "off", on: { scroll: () => this.onScroll() } }, this.space);
    const asked = new URLSearchParams(location.search);
    this.filter = (asked.get("find") ?? "").toLowerCase();
    this.search = h("input", { type: "search", placeholder: "Search in the output", "aria-label": "Search in the output", value: this.filter,
      on: { input: () => { remember("find", this.search.value); this.refilter(); } } });
    this.rank = this.chooser("Rank", "rank", "All ranks", asked.get("rank"));
    this.attempt = this.chooser("Attempt", "attempt", "Latest attempt", asked.get("attempt"));
    this.count = h("span", { class: "about", role: "status" });
    this.element = h("div", {}, h("div", { class: "head" }, this.count, h("div", { class: "tools" }, this.search, this.rank, this.attempt)), this.box);
    this.shown = [];
    this.follows = true; // until its reader scrolls up
    new ResizeObserver(() => { if (this.follows) this.toEnd(); this.paint(); }).observe(this.box);
    this.timer = setTimeout(() => this.poll(), 0);
  }

  // A list that is kept in the address; a value from there is in it before the first answer is.
  chooser(label, name, all, chosen) {
    const known = /^-?\d{1,9}$/.test(chosen ?? "") ? h("option", { value: chosen, selected: true }, `${label} ${chosen}`) : null;
    const select = h("select", { "aria-label": label }, h("option", { value: "" }, all), known);
    select.addEventListener("change", () => { remember(name, select.value); this.restart(); });
    return select;
  }

  close() {
    clearTimeout(this.timer);
    this.closed = true;
  }

  restart() {
    this.lines = [];
    this.shown = [];
    this.offsets = {};
    this.follows = true;
    clearTimeout(this.timer);
    this.poll();
  }

  async poll() {
    const parameters = new URLSearchParams({ after: JSON.stringify(this.offsets) });
    if (this.rank.value) parameters.set("rank", this.rank.value);
    if (this.attempt.value) parameters.set("attempt", this.attempt.value);
    const asked = parameters.toString();
    let pause = POLL_MS;
    try {
      const found = await this.get(`${this.path}?${asked}`);
      if (!this.closed && JSON.stringify(this.offsets) === parameters.get("after")) this.add(found);
    } catch (error) {
      this.count.textContent = error.message;
      if (error.status === 404) return; // there is no such job
      pause = LOST_MS;
    }
    if (!this.closed) this.timer = setTimeout(() => this.poll(), document.hidden ? LOST_MS : pause);
  }

  add(found) {
    this.offsets = found.offsets;
    const ranks = [...found.ranks].sort((a, b) => (a < 0 && b < 0 ? b - a : a - b));
    options(this.rank, ranks, (rank) => (rank < 0 ? `Agent ${-1 - rank}` : `Rank ${rank}`));
    options(this.attempt, found.attempts, (number) => `Attempt ${number}`);
    for (const line of found.lines) this.lines.push(line);
    if (this.lines.length > MOST_LINES) { this.lines.splice(0, this.lines.length - MOST_LINES); this.refilter(); return; }
    const fresh = this.filter ? found.lines.filter((line) => this.has(line)) : found.lines;
    for (const line of fresh) this.shown.push(line);
    if (fresh.length || !this.painted) this.resize();
  }

  refilter() {
    this.filter = this.search.value.toLowerCase();
    this.shown = this.filter ? this.lines.filter((line) => this.has(line)) : [...this.lines];
    this.follows = true;
    this.resize();
  }

  has(line) {
    return line[3].toLowerCase().includes(this.filter);
  }

  onScroll() {
    if (this.box.clientHeight) this.follows = this.box.scrollTop + this.box.clientHeight >= this.space.clientHeight - 2 * this.height;
    this.paint();
  }

  toEnd() {
    this.box.scrollTop = this.space.clientHeight;
  }

  resize() {
    this.painted = true;
    this.height = parseFloat(tint("--row")) || 19;
    this.space.style.height = `${this.shown.length * this.height}px`;
    this.box.style.height = `${Math.max(4, Math.min(22, Math.max(this.shown.length, this.lines.length) + 1)) * this.height}px`;
    if (this.follows) this.toEnd();
    this.count.textContent = this.countText();
    this.paint();
  }

  countText() {
    if (!this.lines.length) return "No output yet.";
    if (!this.filter) return count(this.lines.length, "line");
    if (!this.shown.length) return `None of ${count(this.lines.length, "line")} contains "${this.filter}".`;
    return `${this.shown.length.toLocaleString("en")} of ${count(this.lines.length, "line")}`;
  }

  paint() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / this.height) - 10);
    const last = Math.min(this.shown.length, first + Math.ceil(this.box.clientHeight / this.height) + 20);
    this.space.replaceChildren(...this.shown.slice(first, last).map((line, index) => this.row(line, first + index)));
  }

  row([at, rank, stream, text], number) {
    const name = rank < 0 ? `agent ${-1 - rank}` : `r${rank}`;
    const row = h("div", { class: `row${stream === "err" ? " err" : ""}`, title: clock(at), vars: { top: `${number * this.height}px` } },
      h("b", { vars: { "--of": `var(${colourName(rank)})` } }, name));
    row.append(...marked(printable(text), this.filter));
    return row;
  }
}

// Without sequences for terminals; other control characters, and those that turn the direction of text, become a sign.
function printable(text) {
  return text.replace(/\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)/g, "")
    .replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

function marked(text, wanted) {
  if (!wanted) return [text];
  const parts = [];
  const lower = text.toLowerCase();
  let from = 0;
  for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, from)) {
    parts.push(text.slice(from, at), h("mark", {}, text.slice(at, at + wanted.length)));
    from = at + wanted.length;
  }
  return [...parts, text.slice(from)];
}

function options(select, values, name) {
  if (select.named === values.length) return;
  select.named = values.length;
  const chosen = select.value;
  select.replaceChildren(select.options[0], ...values.map((value) => h("option", { value, selected: String(value) === chosen }, name(value))));
}
