import { choice, empty, h, jobLink, searchField, stateOf } from "../dom.js";
import { clock, count, duration, gang } from "../format.js";
import { Table } from "../table.js";

const STATES = ["", "Succeeded", "Failed", "Cancelled"];
const SPANS = [["", "Any time"], ["1", "Last day"], ["7", "Last week"], ["30", "Last 30 days"]];

export function create({ get }) {
  const parameters = new URLSearchParams(location.search);
  const table = new Table([
    ["Job", (row) => jobLink(row.id)], ["State", stateOf, { short: true }],
    ["Exit", (row) => (row.exit_code === null ? "" : String(row.exit_code)), { num: true }],
    ["Queue", (row) => row.queue, { wide: true }], ["User", (row) => row.user, { wide: true }],
    ["Gang", gang, { num: true }],
    ["Submitted", (row) => clock(row.created_at), { short: true }], ["Ended", (row) => clock(row.finished_at), { short: true }],
    ["Waited", (row) => duration(row.finished_at - row.created_at - row.run_time), { num: true }],
    ["Ran", (row) => duration(row.attempts ? row.run_time : null), { num: true }],
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
      if (!jobs.length) section.append(empty(parameters.size ? "No ended job matches these filters." : "No job has ended yet. One that ends at once is submitted by:", parameters.size ? "" : "windlass submit -- true"));
    },
  };
  return page;
}
