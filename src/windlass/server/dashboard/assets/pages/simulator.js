import { LineChart } from "../chart.js";
import { post } from "../client.js";
import { choice, empty, h, section } from "../dom.js";
import { count, duration, trimmed } from "../format.js";
import { Table } from "../table.js";

const SOURCES = [["live", "The jobs that run and wait now"], ["random", "Random jobs"], ["trace", "A trace of this machine"]];
const FIELDS = [
  ["policies", "Policies", "text", "cluster,fifo,easy", "live random trace"], ["extra_nodes", "Nodes more or fewer", "number", "0", "live random trace"],
  ["unlimited_hours", "Hours of jobs without a limit", "number", "1", "live"], ["synthetic", "Random jobs", "text", "jobs=500 load=0.9", "random"],
  ["path", "Path of the trace", "text", "", "trace"],
];
const NUMBERS = ["extra_nodes", "unlimited_hours"];
const CHARTS = ["utilisation", "waiting"];
const POLL_MS = 400;

export function create({ get, about }) {
  if (!about.views.includes("simulation")) return ofCluster();
  const parameters = new URLSearchParams(location.search);
  const store = () => history.replaceState(null, "", `/simulator${parameters.size ? `?${parameters}` : ""}`);
  const source = choice("Jobs of the simulation", SOURCES, parameters.get("source") ?? "live", (value) => { parameters.set("source", value); store(); showFields(); });
  const inputs = new Map(FIELDS.map(([name, label, type, instead]) => [name, h("input", { type, name, "aria-label": label, placeholder: instead, value: parameters.get(name) ?? "",
    on: { input: (event) => { if (event.target.value) parameters.set(name, event.target.value); else parameters.delete(name); store(); } } })]));
  const labels = new Map(FIELDS.map(([name, label]) => [name, h("label", {}, label, inputs.get(name))]));
  const start = h("button", { type: "button", disabled: !about.may_act, on: { click: () => change("start", asked()) } }, "Start");
  const stop = h("button", { type: "button", hidden: true, on: { click: () => change("stop", {}) } }, "Stop");
  const bar = h("progress", { max: "1", value: "0", "aria-label": "Progress of the simulation", hidden: true });
  const status = h("p", { role: "status", class: "about" });
  const hint = h("p", { class: "empty" }, "The result is a table of the policies side by side: waits by size of gang, utilization, fairness, and charts over time.");
  const result = section("result", "Result");
  const charts = new Map();
  let timer = 0;
  let shown = "";
  const page = {
    elements: [h("div", { class: "head" }, h("div", {}, h("h1", {}, "Simulator"), h("p", { class: "about" },
      "The scheduler of this cluster runs ahead of time on a copy of its nodes and queues. Nothing here changes the cluster."))),
      h("section", {}, h("h2", {}, "What if"), h("div", { class: "fields" }, h("label", {}, "Jobs", source), [...labels.values()]),
        h("p", { class: "suggestions" }, start, stop), about.may_act ? null : h("p", { class: "about" }, "Only a session of windlass ui --allow-actions starts simulations: they use a core of this machine."),
        bar, status, hint), result],
    close: () => clearTimeout(timer),
    redraw: () => { for (const chart of charts.values()) chart.draw(); },
    async update() { show(await get("/api/simulation")); },
  };
  showFields();
  return page;

  function showFields() {
    for (const [name, , , , sources] of FIELDS) labels.get(name).hidden = !sources.split(" ").includes(source.value);
  }

  function asked() {
    const body = {};
    for (const [name, , , instead, sources] of FIELDS) {
      const text = inputs.get(name).value.trim() || instead;
      if (text && sources.split(" ").includes(source.value)) body[name] = NUMBERS.includes(name) ? Number(text) : text;
    }
    return body;
  }

  async function change(verb, body) {
    try { show(await post(`/api/simulation/${verb}`, body)); } catch (error) { status.textContent = error.message; }
  }

  function show(state) {
    clearTimeout(timer);
    if (state.is_running) timer = setTimeout(async () => show(await get("/api/simulation")), POLL_MS);
    start.hidden = bar.hidden = state.is_running;
    stop.hidden = bar.hidden = !state.is_running;
    bar.value = state.progress;
    status.textContent = state.is_running ? `${Math.round(state.progress * 100)} %` : state.error ? `It ended without a result: ${state.error}` : "";
    const text = JSON.stringify([state.asked, state.result?.heading, state.result?.figures]);
    result.hidden = !state.result;
    hint.hidden = state.is_running || Boolean(state.result);
    if (!state.result || text === shown) return;
    shown = text;
    showResult(state.result);
  }

  function showResult(found) {
    const names = found.policies.map((policy) => policy.name);
    const left = Object.entries(found.left_out).map(([cause, number]) => `${number} left out: ${cause}`).join(", ");
    const table = new Table([["Figure", (row) => h("span", { title: row.about }, row.title)],
      ...names.map((name, index) => [name, (row) => best(row, index), { num: true }])], (row) => row.key, "Figures by policy");
    table.update(found.figures);
    charts.clear();
    const base = Date.now();
    for (const each of found.charts.filter((chart) => CHARTS.includes(chart.id))) {
      const chart = new LineChart(each.title, each.views[0].unit === "share" ? "1" : "", "if it began now");
      chart.update(names.map((label, index) => ({ label, times: each.x.map((seconds) => base + seconds * 1000), values: each.views[0].series[index] })));
      charts.set(each.id, chart);
    }
    result.replaceChildren(result.firstChild, h("p", { class: "about" }, `${count(found.jobs, "job")} on ${found.cluster}${left ? `; ${left}` : ""}`),
      table.withButton("simulation"), h("div", { class: "charts" }, [...charts.values()].map((chart) => chart.element)),
      h("p", { class: "more" }, h("a", { href: "/api/simulation/report", download: "simulation.html", target: "_self" }, "Save the whole report")));
  }
}

function best(row, index) {
  const value = row.mean[index];
  const text = shownIn(value, row.unit);
  const target = row.better === "lower" ? Math.min(...row.mean) : row.better === "higher" ? Math.max(...row.mean) : null;
  return value === target && row.mean.length > 1 && row.mean.some((each) => each !== value) ? h("b", { class: "good", title: "the best" }, text) : text;
}

function shownIn(value, unit) {
  if (unit === "s") return duration(value * 1000);
  if (unit === "share") return `${(value * 100).toFixed(1)} %`;
  return trimmed(value, 4);
}

// A simulation uses all jobs of the cluster, and a core of the operator.
function ofCluster() {
  const text = "The dashboard of a cluster simulates nothing. Save a snapshot, and simulate it on your own machine:";
  return { elements: [h("h1", {}, "Simulator"), empty(text, "windlass snapshot --help")], async update() {} };
}
