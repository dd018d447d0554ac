import { empty, h, jobLink } from "../dom.js";
import { amount, count } from "../format.js";

const MOST_SLOTS = 64;
const MOST_NODES = 400;

export function create({ get }) {
  const search = h("input", { type: "search", placeholder: "Node, job or label", "aria-label": "Search nodes" });
  const total = h("p", { class: "about", role: "status" });
  const grid = h("div", { class: "nodes" });
  const section = h("section", {}, grid);
  const page = {
    elements: [h("div", { class: "head" }, h("div", {}, h("h1", {}, "Nodes"), total), h("div", { class: "tools" }, search)), section],
    async update() {
      const { nodes } = await get("/api/nodes");
      const text = search.value.trim().toLowerCase();
      const wanted = nodes.filter((node) => !text || textOf(node).includes(text));
      total.textContent = `${count(wanted.length, "node")}${wanted.length > MOST_NODES ? `, the first ${MOST_NODES} are shown: search for others` : ""}`;
      grid.replaceChildren(...wanted.slice(0, MOST_NODES).map(card));
      if (!wanted.length) grid.append(empty(nodes.length ? "No node matches." : "No node is known."));
    },
  };
  search.addEventListener("input", () => page.update());
  return page;
}

function textOf(node) {
  const labels = Object.entries(node.labels).map(([name, value]) => `${name}=${value}`);
  return [node.name, node.state, ...labels, ...node.jobs.map((job) => job.id)].join(" ").toLowerCase();
}

function card(node) {
  const device = node.capacity.gpu ? "gpu" : "cpu";
  const unit = device === "cpu" ? 1000 : 1;
  const whole = Math.floor((node.capacity[device] || 0) / unit);
  const used = node.jobs.flatMap((job, index) => Array.from({ length: Math.ceil((job.holds[device] || 0) / unit) }, () => index));
  const slots = Array.from({ length: Math.min(whole, MOST_SLOTS) }, (_, at) =>
    h("i", at < used.length ? { class: "used", vars: { "--of": `var(--p${used[at] % 8})` } } : {}));
  const state = node.state.replace(" ", "-");
  return h("article", { class: "node", "aria-label": node.name },
    h("header", {}, h("strong", {}, node.name), h("span", { class: `state ${state}`, title: node.cordoned }, node.state)),
    h("div", { class: "slots", role: "img", "aria-label": `${used.length} of ${whole} ${device} in use` }, slots),
    h("p", { class: "about" }, Object.entries(node.capacity).filter(([, value]) => value).map(([name, value]) =>
      `${amount(name, node.used[name] || 0)} of ${amount(name, value)}`).join(" · ")),
    node.cordoned ? h("p", { class: "about" }, node.cordoned) : null,
    node.jobs.length ? h("p", {}, node.jobs.flatMap((job, index) => [index ? ", " : "", jobLink(job.id)])) : null);
}
