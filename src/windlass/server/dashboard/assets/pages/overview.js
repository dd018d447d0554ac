import { empty, encodeId, h, jobLink, noJobs } from "../dom.js";
import { amount, clock, count, iso, words } from "../format.js";
import { CourseView } from "../course.js";
import { Table } from "../table.js";

const ENDED = ["Succeeded", "Failed"];
const KINDS = ["allocated", "fragmented", "idle", "broken"];
const MEANING = {
  allocated: "held by jobs", fragmented: "free on nodes in partial use", idle: "free on empty nodes", broken: "free on nodes that take no jobs",
};

export function create({ get, go, about }) {
  const search = h("input", { type: "search", name: "search", placeholder: "Find a job", "aria-label": "Find a job" });
  const find = h("form", { class: "tools", role: "search", on: { submit: (event) => { event.preventDefault(); findJob(search.value.trim()); } } }, search);
  const capacity = h("section", {}, h("h2", {}, "Capacity"));
  const findings = h("section", {}, h("h2", {}, "Needs a person"));
  const queues = new Table([
    ["Queue", (row) => h("a", { href: `/queue?queue=${encodeURIComponent(row.queue)}` }, row.queue)],
    ["Running", (row) => row.running.toLocaleString("en"), { num: true }],
    ["Waiting", (row) => h("a", { href: `/queue?queue=${encodeURIComponent(row.queue)}&phase=Queued` }, row.waiting.toLocaleString("en")), { num: true }],
    ["Suspended", (row) => row.suspended.toLocaleString("en"), { num: true }],
  ], (row) => row.queue, "Jobs by queue");
  const changes = new Table([
    ["When", (row) => clock(row.at), { short: true, csv: (row) => iso(row.at) }], ["Job", (row) => jobLink(row.job)], ["Change", (row) => row.change, { short: true }],
    ["Queue", (row) => row.queue, { wide: true }], ["Nodes or reason", (row) => row.message, { whole: true }],
  ], (row) => `${row.job} ${row.change} ${row.at}`, "Changes of the last hour");
  const course = new CourseView("/api/course", get, "Course of the cluster");
  const waiting = h("div");
  const queueSection = h("section", {}, h("h2", {}, "Jobs by queue"), queues.withButton("jobs by queue"), waiting);
  const sums = h("p", { class: "about" });
  const changesSection = h("section", {}, h("h2", {}, "What changed in the last hour"), sums, changes.withButton("changes"));
  // A job that has ended is in no queue: its own page is opened.
  async function findJob(name) {
    const found = name ? await get(`/api/job/${encodeId(name)}`).catch(() => null) : null;
    go(found && ENDED.includes(found.phase) ? `/jobs/${encodeId(found.id)}` : `/queue?search=${encodeURIComponent(name)}`);
  }

  return {
    elements: [h("div", { class: "head" }, h("h1", {}, "Overview"), find), capacity, h("div", { class: "columns" }, queueSection, findings), course.element, changesSection],
    redraw: () => course.draw(),
    async update() {
      const [found] = await Promise.all([get("/api/overview"), course.update()]);
      capacity.replaceChildren(h("h2", {}, "Capacity"), ...found.capacity.map(bar));
      queues.update(found.queues);
      toggle(queueSection, queues, found.queues.length, noJobs(about));
      waiting.replaceChildren(...reasons(found.reasons));
      findings.replaceChildren(h("h2", {}, "Needs a person"), ...problems(found.findings));
      changes.update(found.changes);
      sums.textContent = Object.entries(found.ended).map(([state, number]) => `${number} ${state.toLowerCase()}`).join(", ");
      toggle(changesSection, changes, found.changes.length, empty("No job has started or ended within the last hour."));
    },
  };
}

function bar(row) {
  const parts = KINDS.map((kind) => [kind, row[kind]]);
  const text = parts.map(([kind, value]) => `${kind} ${amount(row.resource, value)}`).join(", ");
  return h("div", {},
    h("p", {}, h("b", {}, amount(row.resource, row.total)), " in all"),
    h("div", { class: "stack", role: "img", "aria-label": text },
      parts.filter(([, value]) => value).map(([kind, value]) => h("i", { class: `of-${kind}`, vars: { width: `${row.total ? (value / row.total) * 100 : 0}%` } }))),
    h("p", { class: "legend" }, parts.map(([kind, value]) => h("span", { class: `of-${kind}`, title: MEANING[kind] }, h("b", {}, amount(row.resource, value)), ` ${kind}`))));
}

function reasons(found) {
  const all = Object.entries(found);
  if (!all.length) return [];
  return [h("p", { class: "about" }, "Why they wait: ", h("a", { href: "/queue?phase=Queued" }, all.map(([reason, number]) => `${number.toLocaleString("en")} ${words(reason)}`).join(", ")))];
}

function problems(found) {
  if (!found.length) return [empty("Nothing: every node is usable, and no job failed within the last hour.")];
  const shown = found.slice(0, 12).map((each) => h("p", { class: "finding" },
    h("span", {}, each.kind === "job" ? jobLink(each.name) : h("b", {}, each.name), ` ${each.text}`)));
  return found.length > 12 ? [...shown, h("p", { class: "about" }, `and ${count(found.length - 12, "more", "more")}`)] : shown;
}

function toggle(section, table, length, instead) {
  section.querySelector(".empty")?.remove();
  table.element.parentElement.hidden = !length;
  if (!length) section.append(instead);
}
