import { empty, h, jobLink, stateOf } from "../dom.js";
import { amount, clock, count, duration } from "../format.js";
import { CourseView } from "../course.js";
import { Table } from "../table.js";

const KINDS = ["allocated", "fragmented", "idle", "broken"];
const MEANING = {
  allocated: "held by jobs", fragmented: "free on nodes in partial use", idle: "free on empty nodes", broken: "free on nodes that take no jobs",
};

export function create({ get }) {
  const capacity = h("section", {}, h("h2", {}, "Capacity"));
  const findings = h("section", {}, h("h2", {}, "Needs a person"));
  const queues = new Table([
    ["Queue", (row) => h("a", { href: `/queue?queue=${encodeURIComponent(row.queue)}` }, row.queue)],
    ["Running", (row) => String(row.running), { num: true }],
    ["Waiting", (row) => String(row.waiting), { num: true }],
    ["Suspended", (row) => String(row.suspended), { num: true }],
  ], (row) => row.queue, "Jobs by queue");
  const recent = new Table([
    ["Job", (row) => jobLink(row.id)], ["State", stateOf],
    ["Ended", (row) => clock(row.finished_at), { short: true }],
    ["Ran", (row) => duration(row.run_time), { num: true }],
    ["Message", (row) => row.message, { wide: true }],
  ], (row) => row.id, "Jobs that ended in the last hour");
  const course = new CourseView("/api/course", get, "Course of the cluster");
  const waiting = h("div");
  const queueSection = h("section", {}, h("h2", {}, "Jobs by queue"), queues.element, waiting);
  const recentSection = h("section", {}, h("h2", {}, "Ended in the last hour"), recent.element);
  return {
    elements: [h("div", { class: "head" }, h("h1", {}, "Overview")), capacity, h("div", { class: "columns" }, queueSection, findings), course.element, recentSection],
    redraw: () => course.draw(),
    async update() {
      course.update();
      const found = await get("/api/overview");
      capacity.replaceChildren(h("h2", {}, "Capacity"), ...found.capacity.map(bar));
      queues.update(found.queues);
      toggle(queueSection, queues, found.queues.length, empty("No job waits or runs.", "windlass submit -N 2 -- python train.py"));
      waiting.replaceChildren(...reasons(found.reasons));
      findings.replaceChildren(h("h2", {}, "Needs a person"), ...problems(found.findings));
      recent.update(found.recent);
      toggle(recentSection, recent, found.recent.length, empty("No job has ended within the last hour."));
    },
  };
}

function bar(row) {
  const parts = KINDS.map((kind) => [kind, row[kind]]);
  const text = parts.map(([kind, value]) => `${kind} ${amount(row.resource, value)}`).join(", ");
  return h("div", {},
    h("p", {}, h("b", {}, amount(row.resource, row.total)), " in all"),
    h("div", { class: "stack", role: "img", "aria-label": text },
      parts.map(([kind, value]) => h("i", { class: `of-${kind}`, vars: { width: `${row.total ? (value / row.total) * 100 : 0}%` } }))),
    h("p", { class: "legend" }, parts.map(([kind, value]) => h("span", { class: `of-${kind}`, title: MEANING[kind] }, h("b", {}, amount(row.resource, value)), ` ${kind}`))));
}

function reasons(found) {
  const all = Object.entries(found);
  if (!all.length) return [];
  return [h("p", { class: "about" }, `Waiting for: ${all.map(([reason, number]) => `${reason} (${number})`).join(", ")}`)];
}

function problems(found) {
  if (!found.length) return [empty("Nothing: every node is usable, and no job failed within the last hour.")];
  const shown = found.slice(0, 12).map((each) => h("p", { class: "finding" },
    h("span", {}, each.kind === "job" ? jobLink(each.name) : h("b", {}, each.name), ` ${each.text}`)));
  return found.length > 12 ? [...shown, h("p", { class: "about" }, `and ${count(found.length - 12, "more", "more")}`)] : shown;
}

function toggle(section, table, length, instead) {
  section.querySelector(".empty")?.remove();
  table.element.hidden = !length;
  if (!length) section.append(instead);
}
