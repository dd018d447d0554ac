// Jobs and reservations as bars on one time axis, and the same as a table.
import { h, jobLink } from "./dom.js";
import { clock, count, duration } from "./format.js";
import { Table } from "./table.js";

const MINUTE = 60_000;
const STEPS = [5, 15, 30, 60, 120, 240, 480, 720, 1440, 2880, 10080].map((minutes) => minutes * MINUTE);
const MOST_TICKS = 8;
const LONGEST = 14 * 1440 * MINUTE;
const KINDS = { running: "runs", waiting: "expected to run", reservation: "reserved" };

export class TimeAxis {
  constructor() {
    this.chart = h("div", { class: "axis" });
    this.note = h("p", { class: "about" });
    this.table = new Table([
      ["Job or reservation", nameOf], ["Kind", (row) => KINDS[row.kind]], ["Queue", (row) => row.queue, { wide: true }],
      ["Starts", (row) => clock(row.start), { short: true }], ["Ends at the latest", (row) => (row.end === null ? "no time limit" : clock(row.end)), { short: true }],
      ["Nodes", nodesOf], ["Note", (row) => row.note],
    ], (row) => `${row.kind} ${row.name}`, "Jobs and reservations over time");
    this.element = h("div", {}, this.chart, legend(), this.note,
      h("details", {}, h("summary", {}, "As a table"), this.table.withButton("time axis")));
  }

  update(found) {
    this.table.update(found.rows);
    this.note.textContent = [
      "Starts are expected ones: every job uses its whole time limit, and no other arrives.",
      found.unknown ? `${count(found.unknown, "waiting job")} without a known start.` : "",
      found.left_out ? `${count(found.left_out, "row")} more.` : "",
    ].filter(Boolean).join(" ");
    const ends = found.rows.flatMap((row) => [row.start, row.end ?? row.start]);
    const until = Math.min(Math.max(found.now + 30 * MINUTE, ...ends), found.now + LONGEST);
    const from = found.now - (until - found.now) * 0.06;
    const place = (at) => Math.max(0, Math.min(100, ((at - from) / (until - from)) * 100));
    this.chart.replaceChildren(
      h("div", { class: "ticks", "aria-hidden": "true" }, ticks(found.now, until).map((at) => h("span", { vars: { left: `${place(at)}%` } }, tickText(at, found.now)))),
      ...found.rows.map((row) => this.row(row, place, found.now)));
  }

  row(row, place, now) {
    const [left, right] = [place(row.start), row.end === null ? 100 : place(row.end)];
    const bar = h("i", { class: `bar-${row.kind}${row.end === null ? " endless" : ""}`, vars: { left: `${left}%`, width: `${Math.max(0.4, right - left)}%` } });
    const when = row.start <= now ? `until ${row.end === null ? "an unknown time" : clock(row.end)}` : `from ${clock(row.start)}, in ${duration(row.start - now)}`;
    const text = `${KINDS[row.kind]} ${when} on ${nodesOf(row)}${row.note ? `, ${row.note}` : ""}`;
    return h("div", { class: "axis-row" }, h("span", { class: "axis-name" }, nameOf(row)),
      h("div", { class: "track", role: "img", "aria-label": `${row.name} ${text}`, title: text }, h("i", { class: "now", vars: { left: `${place(now)}%` } }), bar),
      h("span", { class: "about axis-note" }, row.note || nodesOf(row)));
  }
}

function nameOf(row) {
  return row.kind === "reservation" ? row.name : jobLink(row.name);
}

function nodesOf(row) {
  const more = row.node_count - row.nodes.length;
  return `${row.nodes.join(", ")}${more ? ` and ${count(more, "other")}` : ""}`;
}

function ticks(now, until) {
  const step = STEPS.find((each) => (until - now) / each <= MOST_TICKS) ?? STEPS.at(-1);
  const offset = new Date(now).getTimezoneOffset() * MINUTE;
  const found = [];
  for (let at = Math.ceil((now - offset) / step) * step + offset; at < until; at += step) if (at - now > step * 0.4) found.push(at);
  return [now, ...found];
}

function tickText(at, now) {
  if (at === now) return "now";
  const time = new Date(at).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  return new Date(at).toDateString() === new Date(now).toDateString() ? time : `${new Date(at).toLocaleDateString("en-GB", { weekday: "short" })} ${time}`;
}

function legend() {
  return h("p", { class: "legend" }, Object.entries(KINDS).map(([kind, text]) => h("span", { class: `key-${kind}` }, text)));
}
