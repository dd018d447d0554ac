import { empty, h, jobLink, stateOf } from "../dom.js";
import { count, duration, gang, starts, trimmed } from "../format.js";
import { Table } from "../table.js";

const STEP = 100;

export function create({ get, go }) {
  const parameters = new URLSearchParams(location.search);
  let limit = STEP;
  let now = 0;
  const table = new Table([
    ["#", (row) => (row.position ? String(row.position) : ""), { num: true }],
    ["Job", (row) => jobLink(row.id)],
    ["State", stateOf, { short: true }],
    ["Queue", (row) => row.queue, { wide: true }],
    ["User", (row) => row.user, { wide: true }],
    ["Gang", gang, { num: true }],
    ["For", (row) => duration(now - (row.running_since || row.queued_at || row.created_at)), { num: true }],
    ["Starts", (row) => starts(row, now), { short: true }],
    ["Nodes, progress or reason", (row) => (row.phase === "Queued" ? `${row.message}${row.reason ? ` (${row.reason})` : ""}` : progress(row))],
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
    history.replaceState(null, "", `/queue${parameters.size ? `?${parameters}` : ""}`);
    page.update();
  };
  search.addEventListener("input", change);
  phase.addEventListener("change", change);
  const more = h("p", { class: "more" }, h("button", { type: "button", on: { click: () => { limit += STEP; page.update(); } } }, "Show more"));
  const total = h("p", { class: "about", role: "status" });
  const section = h("section", {}, table.element, more);
  const page = {
    elements: [h("div", { class: "head" }, h("div", {}, h("h1", {}, "Queue"), total), h("div", { class: "tools" }, search, phase, table.button("queue"))), section],
    async update() {
      const found = await get(`/api/queue?${new URLSearchParams([...parameters, ["limit", String(limit)]])}`);
      now = found.now;
      table.update(found.jobs);
      total.textContent = `${count(found.total, "job")}${parameters.get("queue") ? ` in ${parameters.get("queue")}` : ""}`;
      more.hidden = found.total <= found.jobs.length;
      section.querySelector(".empty")?.remove();
      table.element.hidden = !found.total;
      if (!found.total) section.append(empty("No such job waits or runs.", "windlass submit -N 2 -- python train.py"));
    },
  };
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
