import { paced, soon } from "../client.js";
import { LineChart } from "../chart.js";
import { Attempts } from "../attempts.js";
import { Checkpoints, totalLoss } from "../checkpoints.js";
import { Definition } from "../definition.js";
import { empty, encodeId, facts, h, jobLink, section, stateOf, swap } from "../dom.js";
import { explanationOf } from "../explanation.js";
import { Findings } from "../findings.js";
import { amount, clock, count, duration, gang, iso, measured, seconds, words } from "../format.js";
import { actionButtons } from "../jobactions.js";
import { HeatMap } from "../heatmap.js";
import { LogView } from "../logview.js";
import { Slowness } from "../slowness.js";
import { WhatIf } from "../whatif.js";
import { Table } from "../table.js";

const CHARTS = [["windlass_job_loss", "Loss"], ["windlass_job_step_seconds", "Step time"], ["windlass_job_samples_per_second", "Samples per second"],
  ["windlass_job_mfu_ratio", "Model FLOPs utilization"], ["windlass_job_memory_bytes", "Peak memory of a rank"]];
const FEW_RANKS = 32; // of more, those that others wait for and those furthest behind are shown first
const ENDED = ["Succeeded", "Failed"];

export function create({ get, about, argument: id, confirm, refresh, go }) {
  const head = h("div", { class: "head" }, h("h1", {}, id));
  let shown = null;
  const summary = h("section", { hidden: true });
  const findings = new Findings(id, get);
  const explained = h("div", { class: "explained" });
  const why = section("why", "Why it waits", explained);
  const askWhy = paced((name) => get(`/api/why/${encodeId(name)}`));
  const askMetrics = paced((name) => get(`/api/metrics/${encodeId(name)}`));
  const supposed = new WhatIf(id, get);
  const lines = h("div");
  const life = section("life", "Life", lines);
  const attempts = new Attempts();
  const checkpoints = new Checkpoints(id, get);
  const charts = new Map();
  const measuredSection = section("course", "Course of the run", h("div", { class: "charts" }));
  const heat = new HeatMap("Busy time of each rank over time", "s");
  const heatSection = section("heat", "Busy time by rank",
    h("p", { class: "about" }, "A row is a rank, a column a time; red is slow. Drag to pan, Ctrl and wheel to zoom."), heat.element);
  const ranks = ranksTable();
  let everyRank = [];
  let most = FEW_RANKS;
  const moreRanks = h("button", { type: "button", on: { click: () => { most = Infinity; showRanks(shown); } } });
  const ranksSection = section("ranks", "Ranks", ranks.withButton("ranks", () => everyRank), h("p", { class: "more", hidden: true }, moreRanks));
  const log = new LogView(id, get);
  const logSection = section("output", "Output", log.element);
  const definition = new Definition(id, get);
  const slowness = new Slowness(id, get);
  const parts = [findings.element, why, supposed.element, slowness.element, measuredSection, heatSection, ranksSection, logSection, life, attempts.element,
    checkpoints.element, definition.element];
  return {
    elements: [head, summary, ...parts],
    keys: {
      a: { text: "First action on the job", act: () => head.querySelector(".tools button")?.focus() },
      l: { text: "Output of the ranks", act: () => { logSection.scrollIntoView(); log.box.focus(); } },
    },
    close: () => log.close(),
    redraw: () => { for (const chart of charts.values()) chart.draw(); heat.redraw(); },
    async update() {
      const job = await get(`/api/job/${encodeId(id)}`);
      if (job.members) { showArray(job); return; }
      shown = job;
      const refusals = about.may_act && about.user ? await get(`/api/refusals/${encodeId(id)}`).catch(() => ({})) : {}; // without them the action itself is refused
      const actions = about.may_act ? actionButtons(() => shown, { confirm, refresh, go }, refusals) : [];
      swap(head, h("div", {}, h("h1", {}, job.id), stateOf(job)), h("div", { class: "tools" }, actions));
      summary.hidden = false;
      swap(summary, ...summarize(job, checkpoints.losses));
      life.hidden = false;
      logSection.hidden = !job.attempts;
      swap(lines, ...lifeOf(job));
      attempts.update(job);
      showRanks(job);
      const lost = checkpoints.update(job).then(() => swap(summary, ...summarize(shown, checkpoints.losses)));
      await Promise.all([showWhy(job), showMetrics(), findings.update(job), lost, slowness.update(job), definition.update(job)].map(soon));
    },
  };

  function showArray(job) {
    summary.hidden = false;
    summary.replaceChildren(h("h2", {}, `An array of ${count(job.members.length, "job")}`),
      h("ul", {}, job.members.map((member) => h("li", {}, jobLink(member.id), " ", stateOf(member)))));
    for (const each of parts) each.hidden = true;
    log.close();
  }

  async function showWhy(job) {
    why.hidden = job.phase !== "Queued";
    supposed.element.hidden = why.hidden;
    if (why.hidden) return;
    supposed.suggest(job);
    if (!explained.firstChild) swap(explained, ...explanationOf(job, {}).slice(0, job.eta ? 2 : 1));
    const found = await askWhy(id);
    if (!found) return;
    swap(explained, ...explanationOf({ ...job, now: found.now }, found));
  }

  async function showMetrics() {
    let found;
    try { found = await askMetrics(id); } catch { return; }
    if (!found) return;
    const series = new Map(found.series.map((each) => [each.series, each]));
    const line = (each, label) => ({ label, times: each.times, values: each.values.map((row) => row[0]) });
    for (const [name, title] of CHARTS) if (series.has(name)) chart(name, title, series.get(name).unit, [line(series.get(name), title)]);
    const phases = found.series.filter((each) => each.series.startsWith("windlass_job_phase_seconds{"));
    if (phases.length) chart("phases", "Phases of a step on the first rank", "s", phases.map((each) => line(each, /phase="(.*)"/.exec(each.series)[1])), true);
    measuredSection.hidden = !charts.size;
    const busy = series.get("windlass_rank_busy_seconds");
    heatSection.hidden = !busy;
    if (busy) heat.update(busy.times, busy.values);
  }

  function chart(name, title, unit, lines, stacked = false) {
    if (!charts.has(name)) {
      charts.set(name, new LineChart(title, unit, "", stacked));
      measuredSection.querySelector(".charts").append(charts.get(name).element);
    }
    charts.get(name).update(lines);
  }

  function showRanks(job) {
    const rows = job.progress?.ranks ?? [];
    const slow = job.progress?.slow ?? [];
    ranksSection.hidden = !rows.length;
    everyRank = rows.map((row) => ({ ...row, slow: slow.includes(row.rank), now: job.now, ended: ENDED.includes(job.phase) }));
    if (everyRank.length > most) everyRank.sort((a, b) => Number(b.slow) - Number(a.slow) || (a.step ?? 0) - (b.step ?? 0) || a.rank - b.rank);
    ranks.update(everyRank.slice(0, most));
    moreRanks.parentElement.hidden = everyRank.length <= most;
    moreRanks.textContent = `Show all ${count(everyRank.length, "rank")}: these are the slowest`;
  }
}

function summarize(job, losses) {
  const seen = job.progress;
  const failure = job.status.last_failure;
  const reason = job.phase === "Queued" ? "" : job.message;
  return [
    job.phase === "Failed" && job.diagnosis?.rule ? h("p", { class: "finding" }, job.diagnosis.text) : null,
    reason ? h("p", {}, reason) : null,
    job.phase === "Failed" && failure && failure.message !== reason ? h("p", { class: "finding" }, failure.message) : null,
    facts([
      ["Gang", `${gang(job)} ranks`], ["Requests", Object.entries(job.request).map(([name, value]) => amount(name, value)).join(", ")],
      ["Nodes", job.nodes.join(", ")], ["Queue", job.queue], ["Priority", String(job.priority)], ["User", job.user],
      ["Submitted", clock(job.created_at)], ["Started", job.started_at ? clock(job.started_at) : ""], ["Ended", job.finished_at ? clock(job.finished_at) : ""],
      ["Ran", job.attempts ? duration(job.run_time || (job.running_since ? job.now - job.running_since : null)) : ""], ["Attempts", String(job.attempts)],
      ["Time limit", job.walltime ? duration(job.walltime) : ""],
      ["Step", seen && seen.step !== null ? `${seen.step}${seen.steps ? ` of ${seen.steps}` : ""}` : ""],
      ["Loss", seen && seen.loss !== null ? measured(seen.loss, "") : ""], ["Step time", seen && seen.step_ms ? duration(seen.step_ms) : ""],
      ["Lost work", losses.length ? h("a", { href: "#checkpoints" }, totalLoss(losses)) : ""],
      ["Left", seen && seen.eta && job.phase === "Running" ? duration(seen.eta) : ""],
    ]),
    seen?.slow.length ? h("p", { class: "finding" }, `Others wait for rank ${seen.slow.join(", ")}.`) : null,
  ].filter(Boolean);
}

function lifeOf(job) {
  if (!job.transitions.length) return [empty("Nothing has happened yet.")];
  return job.transitions.map((each, index) => {
    const before = job.transitions[index - 1];
    const later = before && each.at > before.at ? `, ${duration(each.at - before.at)} later` : "";
    const text = each.message.replace(`${each.after}: `, "");
    return h("div", { class: "line" }, h("time", {}, clock(each.at)),
      h("span", {}, h("b", {}, nameOf(each)), later, text && text !== each.after ? `: ${text}` : ""));
  });
}

// A transition has the name of its phase, and news within a phase the name of its event.
function nameOf(transition) {
  if (transition.before !== transition.after) return transition.after;
  const name = words(transition.event);
  return name[0].toUpperCase() + name.slice(1);
}

function ranksTable() {
  const value = (name, unit) => (row) => (row.values[name] === undefined ? "" : measured(row.values[name] * (unit === "s" ? 0.001 : 1), unit));
  const time = (name, title) => [title, value(name, "s"), { num: true, optional: true, csv: (row) => seconds(row.values[name]), csvTitle: `${title} (s)` }];
  const table = new Table([
    ["Rank", (row) => (row.slow ? h("b", { title: "Others wait for it" }, `${row.rank} slow`) : String(row.rank)), { num: true, csv: (row) => row.rank }],
    ["Slow", () => "", { optional: true, csv: (row) => (row.slow ? "yes" : "no") }],
    ["Node", (row) => row.node ?? ""], ["Step", (row) => (row.step ?? "") + "", { num: true, optional: true }], ["Phase", (row) => row.phase ?? "", { optional: true }],
    ["Last seen", (row) => (row.at && !row.ended ? `${duration(row.now - row.at)} ago` : row.at ? clock(row.at) : ""), { num: true, optional: true, csv: (row) => iso(row.at) }],
    time("step_ms", "Step time"), time("busy_ms", "Busy"), time("wait_ms", "Waits"),
    ["Memory", value("memory", "By"), { num: true, optional: true, csv: (row) => row.values.memory, csvTitle: "Memory (bytes)" }],
  ], (row) => row.rank, "Ranks");
  return table;
}
