import { paced, soon } from "../client.js";
import { empty, encodeId, h, jobLink, noJobs, section as partOf, stateOf, swap } from "../dom.js";
import { explanationOf } from "../explanation.js";
import { count, duration, gang, iso, seconds, starts, trimmed } from "../format.js";
import { Schedules } from "../schedules.js";
import { Table } from "../table.js";
import { TimeAxis } from "../timeaxis.js";
import { WhatIf } from "../whatif.js";

const STEP = 100;
const MOST_SAVED = 100_000; // jobs in a CSV
const AXIS_MS = 5_000; // between two computations of expected starts

export function create({ get, about }) {
  const parameters = new URLSearchParams(location.search);
  let limit = STEP;
  let now = 0;
  const since = (row) => now - (row.running_since || row.queued_at || row.created_at);
  const table = new Table([
    ["#", (row) => (row.position ? String(row.position) : ""), { num: true, optional: true }],
    ["Job", (row) => jobLink(row.id)],
    ["State", stateOf, { short: true }],
    ["Queue", (row) => row.queue, { wide: true }],
    ["User", (row) => row.user, { wide: true }],
    ["Gang", gang, { num: true }],
    ["For", (row) => duration(since(row)), { num: true, csv: (row) => seconds(since(row)), csvTitle: "For (s)" }],
    ["Starts", (row) => starts(row, now) || expected(row), { short: true, optional: true, csv: (row) => iso(row.eta || expectedAt.get(row.id)) }],
    ["Why", (row) => (row.phase === "Queued" ? h("button", { type: "button", class: "small", "aria-label": `Why ${row.id} waits`, on: { click: () => explain(row.id) } }, "why") : ""), { csv: null, optional: true }],
    ["Nodes, progress or reason", (row) => (row.phase === "Queued" ? h("span", {}, row.message, " ", h("span", { class: "reason" }, row.reason)) : progress(row)), { whole: true }],
  ], (row) => row.id, "Running and waiting jobs");
  table.always = true; // durations grow
  const search = h("input", { type: "search", placeholder: "Job, user or queue", "aria-label": "Search jobs", value: parameters.get("search") || "" });
  const phase = h("select", { "aria-label": "State" },
    [["", "All states"], ["Queued", "Waiting"], ["Running", "Running"], ["Suspended", "Suspended"]].map(([value, text]) =>
      h("option", { value, selected: value === (parameters.get("phase") || "") }, text)));
  const change = () => {
    for (const [name, value] of [["search", search.value], ["phase", phase.value]]) {
      if (value) parameters.set(name, value); else parameters.delete(name);
    }
    store();
    page.update();
  };
  const store = () => history.replaceState(null, "", `/queue${parameters.size ? `?${parameters}` : ""}`);
  search.addEventListener("input", change);
  phase.addEventListener("change", change);
  const more = h("p", { class: "more" }, h("button", { type: "button", on: { click: () => { limit += STEP; page.update(); } } }, "Show more"));
  const total = h("p", { class: "about", role: "status" });
  const section = h("section", {}, table.element, more);
  const explained = h("div", { class: "explained" });
  const why = partOf("why", "Why it waits", explained);
  const axis = new TimeAxis();
  const schedules = about.views.includes("schedules") ? new Schedules(get, about) : null;
  const axisSection = partOf("time", "Runs, expected starts and reservations", axis.element);
  const askWhy = paced((id) => get(`/api/why/${encodeId(id)}`));
  let supposed = null;
  let axisAt = 0;
  let axisDrawn = false;
  let expectedAt = new Map(); // of waiting jobs, on the time axis
  const expected = (row) => (expectedAt.has(row.id) ? starts({ eta: expectedAt.get(row.id), certainty: "expected" }, now) : "");
  const page = {
    keys: { w: { text: "Why the chosen job waits", act: () => explain(document.activeElement.closest("tr")?.querySelector("a")?.textContent) } },
    elements: [h("div", { class: "head" }, h("div", {}, h("h1", {}, "Queue"), total), h("div", { class: "tools" }, search, phase, table.button("queue", async () => (await rowsOf(MOST_SAVED)).jobs))), section, why, axisSection, ...(schedules ? [schedules.section] : [])],
    async update() {
      const found = await rowsOf(limit);
      now = found.now;
      table.update(found.jobs);
      total.textContent = `${count(found.total, "job")}${parameters.get("queue") ? ` in ${parameters.get("queue")}` : ""}`;
      more.hidden = found.total <= found.jobs.length;
      section.querySelector(".empty")?.remove();
      table.element.hidden = !found.total;
      if (!found.total) section.append(parameters.size ? noMatch() : noJobs(about));
      const drawn = showAxis();
      if (axisDrawn) drawn.catch(() => {}); // with many jobs it takes a second, for which no change of a row waits
      const first = location.hash === "#time" ? drawn : soon(drawn);
      await Promise.all([soon(showWhy()), axisDrawn ? null : first, schedules && soon(schedules.update())]);
    },
  };

  // Without a match the job may have ended.
  function noMatch() {
    const name = parameters.get("search");
    const ended = name ? h("a", { href: `/history?name=${encodeURIComponent(name)}` }, `Look for ${name} among those that have ended.`) : h("a", { href: "/history" }, "Those that have ended are in the history.");
    return h("p", { class: "empty" }, "No running or waiting job matches these filters. ", ended);
  }

  function rowsOf(most) {
    return get(`/api/queue?${new URLSearchParams([...[...parameters].filter(([name]) => name !== "why"), ["limit", String(most)]])}`);
  }

  async function explain(id) {
    if (!id) return;
    parameters.set("why", id);
    store();
    const row = table.rows.find((each) => each.id === id);
    if (row && supposed?.of !== id) showKnown(row);
    await showWhy();
    why.scrollIntoView();
    why.querySelector("input")?.focus();
  }

  // What the table knows of a job, until the scheduler has answered: far down a long queue it takes seconds.
  function showKnown(row) {
    if (supposed) supposed.element.hidden = true;
    why.hidden = false;
    const seen = expectedAt.has(row.id) ? { ...row, eta: expectedAt.get(row.id), certainty: "expected" } : row;
    swap(explained, headOf(row.id), ...(seen.eta ? explanationOf({ ...seen, now }, {}) : explanationOf({ ...seen, now }, {}).slice(0, 1)),
      h("p", { class: "about", role: "status" }, "The scheduler is asked what frees it …"));
    why.scrollIntoView();
  }

  function headOf(id) {
    const close = h("button", { type: "button", class: "small", "data-close": true, on: { click: () => { parameters.delete("why"); store(); why.hidden = true; } } }, "close");
    return h("p", { class: "spread" }, jobLink(id), close);
  }

  async function showWhy() {
    const id = parameters.get("why");
    if (!id) return;
    const found = await askWhy(id);
    if (!found || parameters.get("why") !== id) return;
    why.hidden = !found.explanation;
    if (why.hidden) return;
    if (supposed?.of !== id) supposed = Object.assign(new WhatIf(id, get), { of: id });
    supposed.suggest(found.job);
    supposed.element.hidden = false;
    swap(explained, headOf(id), ...explanationOf({ ...found.job, now: found.now }, found));
    if (explained.nextSibling !== supposed.element) { explained.nextSibling?.remove(); why.append(supposed.element); }
  }

  async function showAxis() {
    if (Date.now() - axisAt < AXIS_MS) return;
    axisAt = Date.now();
    const found = await get("/api/time_axis");
    const before = expectedAt.size;
    expectedAt = new Map(found.rows.filter((row) => row.kind === "waiting").map((row) => [row.name, row.start]));
    if (!before && expectedAt.size) table.update(table.rows);
    axisSection.hidden = !found.rows.length;
    axis.update(found);
    axisDrawn = true;
  }

  return page;
}

function progress(row) {
  const nodes = row.nodes.length > 4 ? `${row.nodes.slice(0, 3).join(", ")} and ${row.nodes.length - 3} more` : row.nodes.join(", ");
  const seen = row.progress;
  if (!seen || seen.step === null) return nodes || row.message;
  const of = seen.steps ? `/${seen.steps}` : "";
  const loss = seen.loss === null ? "" : `, loss ${trimmed(seen.loss, 4)}`;
  const slow = seen.slow.length ? `, waits for rank ${seen.slow.join(", ")}` : "";
  return `${nodes}: step ${seen.step}${of}${loss}${slow}`;
}
