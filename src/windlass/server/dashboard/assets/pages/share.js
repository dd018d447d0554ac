import { empty, h, remember } from "../dom.js";
import { amount } from "../format.js";
import { ShareCourse } from "../sharecourse.js";
import { Table } from "../table.js";

const MOST_NAMED = 3;
const DEFAULTS = ["gpu", "cpu", "memory"];

export function create({ get, about }) {
  let resource = new URLSearchParams(location.search).get("resource") || "";
  const held = (row, part) => row[part][resource] || 0;
  const table = new Table([
    ["Queue", (row) => h("span", { class: "branch", vars: { "--depth": String(row.depth) } }, h("a", { href: `/queue?queue=${encodeURIComponent(row.queue)}` }, row.queue)), { csv: (row) => row.queue }],
    ["Weight", (row) => String(row.weight), { num: true }],
    ["Quota", (row) => (resource in row.quota ? amount(resource, row.quota[resource]) : "none"), { num: true, csv: (row) => row.quota[resource] ?? "" }],
    ["Fair amount now", (row) => amount(resource, held(row, "target")), { num: true, csv: (row) => held(row, "target") }],
    ["Held", (row) => amount(resource, held(row, "held")), { num: true, csv: (row) => held(row, "held") }],
    ["Of its fair amount", meter, { whole: true, csv: (row) => (held(row, "target") ? held(row, "held") / held(row, "target") : "") }],
    ["Borrowed", (row) => amount(resource, held(row, "borrowed")), { num: true, wide: true, csv: (row) => held(row, "borrowed") }],
    ["Lent", (row) => amount(resource, held(row, "lent")), { num: true, wide: true, csv: (row) => held(row, "lent") }],
    ["Share per weight", (row) => `${(row.share / 10_000).toFixed(1)} %`, { num: true, csv: (row) => row.share / 1_000_000 }],
    ["Run", (row) => row.running.toLocaleString("en"), { num: true }],
    ["Wait", (row) => row.waiting.toLocaleString("en"), { num: true }],
  ], (row) => row.queue, "Fair shares by queue");
  table.always = true;
  const choice = h("select", { "aria-label": "Resource", on: { change: () => { resource = choice.value; remember("resource", resource); page.update(); } } });
  const warnings = h("div");
  const above = h("p", { class: "statement", role: "status" });
  const course = new ShareCourse(get);
  const page = {
    elements: [
      h("div", { class: "head" }, h("div", {}, h("h1", {}, "Fair share"), h("p", { class: "about" },
        "Among siblings, the queue with the lowest share per weight goes first. An orange bar means more than the fair amount.")),
        h("div", { class: "tools" }, choice, table.button("share"))),
      h("section", {}, above, table.element, warnings), course.element],
    redraw: () => course.draw(),
    async update() {
      const found = await get("/api/share");
      const names = [...new Set(found.queues.flatMap((row) => ["quota", "target", "held"].flatMap((part) => Object.keys(row[part]))))];
      resource = resource || DEFAULTS.find((name) => names.includes(name)) || "cpu";
      const all = names.includes(resource) ? names : [...names, resource];
      choice.replaceChildren(...all.sort().map((name) => h("option", { value: name, selected: name === resource }, name)));
      table.update(found.queues);
      above.textContent = overShare(found.queues);
      warnings.replaceChildren(...found.warnings.map((text) => h("p", { class: "finding" }, text)),
        ...(found.queues.length > 1 ? [] : [about.user ? empty("All jobs are in one queue. Objects of the kind Queue declare quotas and weights:", "kubectl apply -f queues.yaml")
          : empty("All jobs are in one queue. A cluster file declares queues with quotas and weights:", "windlass up -d --cluster cluster.yaml")]));
      await course.update(found.queues, resource);
    },
  };
  // Queues that hold more than their fair amount, the one with the most first.
  function overShare(queues) {
    const over = queues.map((row) => [row, held(row, "held") - held(row, "target")]).filter(([, more]) => more > 0).sort((a, b) => b[1] - a[1]);
    if (!over.length) return `No queue holds more ${resource} than its fair amount.`;
    return `${over.slice(0, MOST_NAMED).map(([row, more]) => `${row.queue} holds ${amount(resource, more)} more than its fair amount`).join("; ")}.`;
  }

  function meter(row) {
    const target = held(row, "target");
    const share = target ? held(row, "held") / target : 0;
    const text = target ? `${Math.round(share * 100)} %` : "";
    return h("div", { class: "bars" }, h("div", { class: "meter", role: "img", "aria-label": `${text} of its fair amount` },
      h("i", { class: share > 1 ? "over" : null, vars: { width: `${Math.min(1, share) * 100}%` } })), h("span", {}, text));
  }
  return page;
}
