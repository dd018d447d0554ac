import { empty, h, jobLink, stateOf } from "../dom.js";
import { clock, count, duration, gang } from "../format.js";
import { Table } from "../table.js";

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
    ["Message", (row) => row.message],
  ], (row) => row.id, "Jobs that have ended");
  const field = (name, label) => h("input", { type: "search", name, placeholder: label, "aria-label": label, value: parameters.get(name) || "" });
  const filters = [field("name", "Name of the job"), field("user", "User")];
  for (const each of filters) each.addEventListener("change", () => {
    if (each.value) parameters.set(each.name, each.value); else parameters.delete(each.name);
    history.replaceState(null, "", `/history${parameters.size ? `?${parameters}` : ""}`);
    page.update();
  });
  const total = h("p", { class: "about", role: "status" });
  const section = h("section", {}, table.element);
  const page = {
    elements: [h("div", { class: "head" }, h("div", {}, h("h1", {}, "History"), total), h("div", { class: "tools" }, filters, table.button("history"))), section],
    async update() {
      const { jobs } = await get(`/api/history?${parameters}`);
      table.update(jobs);
      total.textContent = `The last ${count(jobs.length, "job")} that ended`;
      section.querySelector(".empty")?.remove();
      table.element.hidden = !jobs.length;
      if (!jobs.length) section.append(empty("No such job has ended yet."));
    },
  };
  return page;
}
