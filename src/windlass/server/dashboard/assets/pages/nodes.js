import { choice, empty, encodeId, facts, h, jobLink, searchField, section as partOf, swap } from "../dom.js";
import { amount, clock, count, duration, iso, seconds } from "../format.js";
import { NodeCourse } from "../nodecourse.js";
import { MODES, NodeMap, ownersOf } from "../nodemap.js";
import { Table } from "../table.js";

const MOST_SLOTS = 64;
const MOST_NODES = 200;
const VIEWS = [["map", "Map"], ["cards", "Cards"]];

export function create({ get }) {
  const parameters = new URLSearchParams(location.search);
  const search = searchField(parameters, "search", "Node, job or label");
  search.setAttribute("aria-label", "Search nodes");
  const total = h("p", { class: "about", role: "status" });
  const cards = h("div", { class: "topology" });
  const map = new NodeMap((name) => open(name));
  const about = h("p", { class: "about" });
  const section = h("section", {}, map.element, about, cards);
  const [described, past] = [h("div"), h("div")];
  const detail = partOf("node", "Node");
  const list = new Table([
    ["Node", (row) => row.name], ["State", (row) => row.state], ["Place", (row) => row.place.join(" / ")],
    ["GPUs in use", (row) => String(row.used.gpu || 0), { num: true }], ["GPUs", (row) => String(row.capacity.gpu || 0), { num: true }],
    ["Cores in use", (row) => String((row.used.cpu || 0) / 1000), { num: true }], ["Cores", (row) => String((row.capacity.cpu || 0) / 1000), { num: true }],
    ["Jobs", (row) => row.jobs.map((job) => job.id).join(" ")],
  ], (row) => row.name, "Nodes");
  const change = (name) => (value) => {
    if (value) parameters.set(name, value); else parameters.delete(name);
    store();
    page.update();
  };
  search.addEventListener("input", () => change("search")(search.value));
  const view = choice("View of the nodes", VIEWS, parameters.get("view") ?? "map", change("view"));
  const mode = choice("Colour of the map", MODES, parameters.get("colour") ?? "job", change("colour"));
  const store = () => history.replaceState(null, "", `/nodes${parameters.size ? `?${parameters}` : ""}`);
  let course = null;
  const page = {
    elements: [h("div", { class: "head" }, h("div", {}, h("h1", {}, "Nodes"), total), h("div", { class: "tools" }, search, view, mode, list.button("nodes"))), section, detail],
    redraw: () => { map.paint(); course?.draw(); },
    async update() {
      const [{ nodes }, uses] = await Promise.all([get("/api/nodes"), get("/api/node_use")]);
      const text = search.value.trim().toLowerCase();
      const wanted = nodes.filter((node) => !text || textOf(node).includes(text));
      const groups = groupsOf(wanted);
      const isMap = view.value === "map";
      list.rows = wanted;
      total.textContent = `${count(wanted.length, "node")}${groups.length > 1 ? ` in ${count(groups.length, "part")} of the network` : ""}`;
      map.element.hidden = mode.hidden = !isMap || !wanted.length;
      cards.hidden = isMap && !!wanted.length;
      about.textContent = isMap && mode.value === "use" ? "Utilization of the ranks' GPUs, as their driver reports it; without one, the part of a step in which ranks do not wait." : "";
      if (isMap) map.update(groups, mode.value, uses.nodes);
      if (!isMap) drawCards(groups);
      if (!wanted.length) cards.replaceChildren(empty(nodes.length ? "No node matches this text." : "No node is known. A cluster file declares nodes:", nodes.length ? "" : "windlass up -d --cluster cluster.yaml"));
      await showNode(nodes);
    },
  };

  function drawCards(groups) {
    let left = MOST_NODES;
    const parts = [];
    for (const group of groups) {
      if (left <= 0) break;
      if (group.title) parts.push(h("h3", {}, group.title));
      parts.push(h("div", { class: "nodes" }, group.nodes.slice(0, left).map((node) => card(node, open))));
      left -= group.nodes.length;
    }
    if (left < 0) parts.push(h("p", { class: "about" }, `The first ${MOST_NODES} are shown: search for others, or choose the map.`));
    cards.replaceChildren(...parts);
  }

  async function open(name) {
    parameters.set("node", name);
    store();
    await page.update();
    detail.scrollIntoView({ block: "nearest" });
  }

  // Kept while it is open: its charts are not drawn again for each version.
  function courseOf(name) {
    if (course?.of !== name) course = Object.assign(new NodeCourse(name, get), { of: name });
    return course;
  }

  async function showNode(nodes) {
    const name = parameters.get("node");
    if (!name) return;
    const found = await get(`/api/node/${encodeId(name)}`);
    const node = nodes.find((each) => each.name === name);
    detail.hidden = false;
    const close = h("button", { type: "button", class: "small", "data-close": true, on: { click: () => { parameters.delete("node"); store(); detail.hidden = true; } } }, "close");
    swap(described, h("div", { class: "spread" }, h("h2", {}, name), close), ...describe(node));
    const { element } = courseOf(name);
    if (element.parentNode !== detail) detail.replaceChildren(described, element, past);
    swap(past, h("h3", {}, "Its past"), ...pastOf(found));
    await course.update(found.past, found.now);
  }

  return page;
}

// Nodes by their place in the network, widest level first.
function groupsOf(nodes) {
  const found = new Map();
  for (const node of nodes) {
    const title = node.place.filter(Boolean).join(" / ");
    if (!found.has(title)) found.set(title, { title, nodes: [] });
    found.get(title).nodes.push(node);
  }
  return [...found.values()].sort((a, b) => a.title.localeCompare(b.title, "en", { numeric: true }));
}

function describe(node) {
  if (!node) return [h("p", { class: "about" }, "It is not in the cluster now.")];
  return [facts([["State", node.state], ["Reason", node.cordoned], ["Place", node.place.filter(Boolean).join(" / ")],
    ...Object.entries(node.capacity).filter(([, value]) => value).map(([name, value]) => [name, `${amount(name, node.used[name] || 0)} of ${amount(name, value)} in use`]),
    ["Labels", Object.entries(node.labels).map(([name, value]) => `${name}=${value}`).join(", ")],
    ["Reserved", node.reservations.map((each) => `${each.name} ${clock(each.start)} to ${clock(each.end)}`).join(", ")]])];
}

function pastOf(found) {
  if (!found.past.length) return [empty("No job has run on it yet.")];
  const times = found.past.map((row) => row.started_at).filter(Boolean);
  const from = Math.min(found.now - 60_000, ...times);
  const place = (at) => ((at - from) / (found.now - from)) * 100;
  const ran = (row) => (row.ended_at ?? found.now) - row.started_at;
  const table = new Table([
    ["Job", (row) => jobLink(row.job_id)], ["Attempt", (row) => String(row.generation), { num: true }], ["State", (row) => row.phase],
    ["Started", (row) => clock(row.started_at), { short: true, csv: (row) => iso(row.started_at) }],
    ["Ran", (row) => (row.started_at ? duration(ran(row)) : "–"), { num: true, csv: (row) => (row.started_at ? seconds(ran(row)) : ""), csvTitle: "Ran (s)" }],
    ["Ranks", (row) => String(row.ranks), { num: true }],
    ["Ended by error", (row) => (row.failed ? h("b", { class: "bad" }, String(row.failed)) : "0"), { num: true }],
    ["When", (row) => (row.started_at ? h("div", { class: "track", "aria-hidden": "true" }, h("i", { class: row.failed ? "bar-failed" : "bar-running",
      vars: { left: `${place(row.started_at)}%`, width: `${Math.max(0.6, place(row.ended_at ?? found.now) - place(row.started_at))}%` } })) : ""), { wide: true, csv: null }],
  ], (row) => `${row.job_id} ${row.generation}`, "Jobs that ran on this node");
  table.update(found.past);
  return [table.withButton("past of a node")];
}

function textOf(node) {
  const labels = Object.entries(node.labels).map(([name, value]) => `${name}=${value}`);
  return [node.name, node.state, ...labels, ...node.jobs.map((job) => job.id)].join(" ").toLowerCase();
}

function card(node, open) {
  const whole = Math.min(MOST_SLOTS, node.capacity.gpu || 1);
  const owners = ownersOf(node, whole);
  const colours = new Map(node.jobs.map((job, index) => [job.id, `var(--p${index % 8})`]));
  const used = owners.filter(Boolean).length;
  const slots = owners.map((owner) => h("i", owner ? { class: "used", vars: { "--of": colours.get(owner) } } : {}));
  const state = node.state.replace(" ", "-");
  return h("article", { class: "node", "aria-label": node.name },
    h("header", {}, h("button", { type: "button", class: "name", on: { click: () => open(node.name) } }, node.name), h("span", { class: `state ${state}`, title: node.cordoned }, node.state)),
    h("div", { class: "slots", role: "img", "aria-label": node.capacity.gpu ? `${used} of ${whole} gpu in use` : used ? "in use" : "free" }, slots),
    h("p", { class: "about" }, Object.entries(node.capacity).filter(([, value]) => value).map(([name, value]) =>
      `${amount(name, node.used[name] || 0)} of ${amount(name, value)}`).join(" · ") + " in use"),
    node.cordoned ? h("p", { class: "about" }, node.cordoned) : null,
    node.jobs.length ? h("p", {}, node.jobs.flatMap((job, index) => [index ? ", " : "", jobLink(job.id)])) : null);
}
