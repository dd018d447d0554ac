// The definition of a job, and what differs from another one: from the job that it repeats, or from one that is named.
import { empty, encodeId, h, jobLink, section } from "./dom.js";
import { Table } from "./table.js";

const ORIGIN = "windlass.dev/rerun-of";
const OF_REQUEST = /^labels\.windlass\.dev\//; // labels that tell where a job comes from
const MOST_TEXT = 400;

export class Definition {
  constructor(id, get) {
    Object.assign(this, { id, get });
    this.other = new URLSearchParams(location.search).get("compare") ?? "";
    this.text = h("pre", { class: "scroll", tabindex: "0" });
    this.all = h("details", {}, h("summary", {}, "All fields"), this.text);
    this.input = h("input", { type: "search", list: "earlier-jobs", placeholder: "Job to compare with", "aria-label": "Job to compare with", value: this.other,
      on: { change: () => this.compare(this.input.value.trim()) } });
    this.known = h("datalist", { id: "earlier-jobs" });
    this.origin = h("p", { class: "about" });
    this.result = h("div");
    this.table = new Table([["Field", (row) => row.field], ["There", (row) => row.before], ["Here", (row) => row.after]], (row) => row.field, "Differences of the definitions");
    this.element = section("definition", "Definition", h("div", { class: "spread" }, this.origin, h("div", { class: "tools" }, this.input, this.known)), this.result, this.all);
  }

  async update(job) {
    this.element.hidden = false;
    this.job = job;
    this.text.textContent = JSON.stringify(job.spec, null, 2);
    const origin = job.spec.labels[ORIGIN] ?? "";
    const about = origin ? ["Runs the job ", jobLink(origin), " again."] : ["Compare it with an earlier job of the same name, or with any other."];
    if (this.origin.textContent !== about.map((part) => part.textContent ?? part).join("")) this.origin.replaceChildren(...about);
    if (!this.other && origin) this.other = this.input.value = origin;
    if (!this.listed) { this.listed = true; this.list(job); }
    if (this.other && this.compared !== this.other) await this.show();
  }

  // Ended jobs of the same name as suggestions.
  async list(job) {
    const { jobs } = await this.get(`/api/history?${new URLSearchParams({ name: job.name })}`).catch(() => ({ jobs: [] }));
    this.known.replaceChildren(...jobs.filter((row) => row.id !== job.id).slice(0, 20).map((row) => h("option", { value: row.id }, row.phase)));
  }

  compare(other) {
    this.other = other;
    this.compared = null;
    const parameters = new URLSearchParams(location.search);
    if (other) parameters.set("compare", other); else parameters.delete("compare");
    history.replaceState(null, "", `${location.pathname}${parameters.size ? `?${parameters}` : ""}#definition`);
    if (other) this.show(); else this.result.replaceChildren();
  }

  async show() {
    const asked = this.other;
    let found;
    try { found = await this.get(`/api/job/${encodeId(asked)}`); } catch (error) { found = { error }; }
    if (asked !== this.other) return;
    this.compared = asked;
    if (found.error) { this.result.replaceChildren(h("p", { class: "about bad" }, found.error.message)); return; }
    if (!found.spec) { this.result.replaceChildren(h("p", { class: "about" }, `${asked} is an array: name one of its jobs.`)); return; }
    const rows = differences(found.spec, this.job.spec);
    this.table.update(rows);
    this.result.replaceChildren(h("h3", {}, "Compared with ", jobLink(found.id)),
      rows.length ? this.table.withButton("differences") : empty("The definitions are the same."));
  }
}

// Rows with the path of each field that differs, and its values as text.
export function differences(before, after) {
  const [old, now] = [new Map(leaves(before)), new Map(leaves(after))];
  return [...new Set([...old.keys(), ...now.keys()])].filter((field) => !OF_REQUEST.test(field) && old.get(field) !== now.get(field))
    .map((field) => ({ field, before: shorten(old.get(field)), after: shorten(now.get(field)) }));
}

function leaves(value, path = "") {
  const isTree = value !== null && typeof value === "object" && Object.keys(value).length;
  if (!isTree || (Array.isArray(value) && value.every((each) => typeof each !== "object"))) {
    const text = Array.isArray(value) ? value.join(" ") : value === null || value === "" || typeof value === "object" ? "none" : String(value);
    return [[path, text || "none"]];
  }
  return Object.entries(value).flatMap(([name, each]) => leaves(each, path ? `${path}.${name}` : name));
}

function shorten(text = "none") {
  return text.length > MOST_TEXT ? `${text.slice(0, MOST_TEXT)}…` : text;
}
