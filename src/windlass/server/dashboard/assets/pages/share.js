import { empty, h } from "../dom.js";
import { amount } from "../format.js";
import { ShareCourse } from "../sharecourse.js";
import { Table } from "../table.js";

const DEFAULTS = ["gpu", "cpu", "memory"];

export function create({ get }) {
  let resource = new URLSearchParams(location.search).get("resource") || "";
  const held = (row, part) => row[part][resource] || 0;
  const table = new Table([
    ["Queue", (row) => `${"· ".repeat(row.depth)}${row.queue}`],
    ["Weight", (row) => String(row.weight), { num: true }],
    ["Quota", (row) => (resource in row.quota ? amount(resource, row.quota[resource]) : "none"), { num: true }],
    ["Fair amount now", (row) => amount(resource, held(row, "target")), { num: true }],
    ["Held", (row) => amount(resource, held(row, "held")), { num: true }],
    ["Of its fair amount", meter],
    ["Borrowed", (row) => amount(resource, held(row, "borrowed")), { num: true, wide: true }],
    ["Lent", (row) => amount(resource, held(row, "lent")), { num: true, wide: true }],
    ["Share per weight", (row) => `${(row.share / 10_000).toFixed(1)} %`, { num: true }],
    ["Run", (row) => String(row.running), { num: true }],
    ["Wait", (row) => String(row.waiting), { num: true }],
  ], (row) => row.queue, "Fair shares by queue");
  table.always = true;
  const choice = h("select", { "aria-label": "Resource", on: { change: () => { resource = choice.value; history.replaceState(null, "", `/share?resource=${encodeURIComponent(resource)}`); page.update(); } } });
  const warnings = h("div");
  const course = new ShareCourse(get);
  const page = {
    elements: [
      h("div", { class: "head" }, h("div", {}, h("h1", {}, "Fair share"), h("p", { class: "about" },
        "Among siblings, the queue with the lowest share per weight goes first. An orange bar means more than the fair amount.")),
        h("div", { class: "tools" }, choice, table.button("share"))),
      h("section", {}, table.element, warnings), course.element],
    redraw: () => course.draw(),
    async update() {
      const found = await get("/api/share");
      const names = [...new Set(found.queues.flatMap((row) => ["quota", "target", "held"].flatMap((part) => Object.keys(row[part]))))];
      resource = resource || DEFAULTS.find((name) => names.includes(name)) || "cpu";
      const all = names.includes(resource) ? names : [...names, resource];
      choice.replaceChildren(...all.sort().map((name) => h("option", { value: name, selected: name === resource }, name)));
      table.update(found.queues);
      warnings.replaceChildren(...found.warnings.map((text) => h("p", { class: "finding" }, text)),
        ...(found.queues.length > 1 ? [] : [empty("All jobs are in one queue. A cluster file declares queues with quotas and weights:", "windlass up -d --cluster cluster.yaml")]));
      await course.update(found.queues, resource);
    },
  };
  function meter(row) {
    const target = held(row, "target");
    const share = target ? held(row, "held") / target : 0;
    const text = target ? `${Math.round(share * 100)} %` : "";
    return h("div", { class: "bars" }, h("div", { class: "meter", role: "img", "aria-label": `${text} of its fair amount` },
      h("i", { class: share > 1 ? "over" : null, vars: { width: `${Math.min(1, share) * 100}%` } })), h("span", {}, text));
  }
  return page;
}
