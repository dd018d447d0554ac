import { choice, empty, h, jobLink, noJobs, searchField, stateOf } from "../dom.js";
import { clock, count, duration, gang, iso, seconds } from "../format.js";
import { Table } from "../table.js";

const STATES = ["", "Succeeded", "Failed", "Cancelled"];
const SPANS = [["", "Any time"], ["1", "Last day"], ["7", "Last week"], ["30", "Last 30 days"]];

const waited = (row) => row.finished_at - row.created_at - row.run_time;
const ran = (row) => (row.attempts ? row.run_time : null);

export function create({ get, about }) {
  const parameters = new URLSearchParams(location.search);
  const table = new Table([
    ["Job", (row) => jobLink(row.id)], ["State", stateOf, { short: true }],
    ["Exit", (row) => (row.exit_code === null ? "" : String(row.exit_code)), { num: true }],
    ["Queue", (row) => row.queue, { wide: true }], ["User", (row) => row.user, { wide: true }],
    ["Gang", gang, { num: true }],
    ["Submitted", (row) => clock(row.created_at), { short: true, csv: (row) => iso(row.created_at) }],
    ["Ended", (row) => clock(row.finished_at), { short: true, csv: (row) => iso(row.finished_at) }],
    ["Waited", (row) => duration(waited(row)), { num: true, csv: (row) => seconds(waited(row)), csvTitle: "Waited (s)" }],
    ["Ran", (row) => duration(ran(row)), { num: true, csv: (row) => seconds(ran(row)), csvTitle: "Ran (s)" }],
    ["Attempts", (row) => String(row.attempts), { num: true }],
    ["Message", (row) => row.message, { whole: true }],
  ], (row) => row.id, "Jobs that have ended");
  const change = (name, value) => {
    if (value) parameters.set(name, value); else parameters.delete(name);
    history.replaceState(null, "", `/history${parameters.size ? `?${parameters}` : ""}`);
    page.update();
  };
  const fields = [searchField(parameters, "name", "Name of the job"), searchField(parameters, "user", "User"), searchField(parameters, "queue", "Queue")];
  for (const each of fields) each.addEventListener("change", () => change(each.name, each.value.trim()));
  const filters = [...fields,
    choice("State", STATES.map((name) => [name, name || "All states"]), parameters.get("state") ?? "", (value) => change("state", value)),
    choice("Span", SPANS, parameters.get("days") ?? "", (value) => change("days", value))];
  const total = h("p", { class: "about", role: "status" });
  const section = h("section", {}, table.element);
  const page = {
    elements: [h("div", { class: "head" }, h("div", {}, h("h1", {}, "History"), total), h("div", { class: "tools" }, filters, table.button("history"))), section],
    async update() {
      const asked = new URLSearchParams([...parameters].filter(([name]) => name !== "days"));
      if (parameters.get("days")) asked.set("since", String(Math.floor(Date.now() / 60_000) * 60_000 - Number(parameters.get("days")) * 86_400_000));
      const { jobs, total: number, is_cut: isCut } = await get(`/api/history?${asked}`);
      table.update(jobs);
      total.textContent = `${count(number, "job")}${number > jobs.length ? `, the last ${jobs.length} are shown` : ""}${isCut ? ", of the last 5,000 that ended" : ""}`;
      section.querySelector(".empty")?.remove();
      table.element.hidden = !jobs.length;
      if (!jobs.length) section.append(parameters.size ? empty("No ended job matches these filters.") : noneEnded(about));
    },
  };
  return page;
}

function noneEnded(about) {
  if (about.user) return about.sees_jobs ? empty("No job that you may see has ended yet.") : noJobs(about);
  return empty("No job has ended yet. One that ends at once is submitted by:", "windlass submit -- true");
}
