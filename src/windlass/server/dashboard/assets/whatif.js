// The question "what if it had asked for something else", answered by the scheduler on its present state.
import { encodeId, h } from "./dom.js";
import { starts } from "./format.js";

const FIELDS = [["nodes", "Replicas", "number"], ["gpus", "GPUs each", "number"], ["gpu_type", "GPU type", "list"], ["time", "Time limit", "text"], ["queue", "Queue", "list"]];
const PAUSE_MS = 300;
const LISTS_MS = 10_000; // between two readings of the cluster's types and queues

export class WhatIf {
  constructor(id, get) {
    this.path = `/api/why/${encodeId(id)}`;
    this.get = get;
    this.listedAt = 0;
    this.inputs = new Map(FIELDS.map(([name, label, type]) => [name, this.field(name, label, type)]));
    this.labels = new Map(FIELDS.map(([name, label]) => [name, h("label", {}, label, this.inputs.get(name))]));
    this.suggestions = h("p", { class: "suggestions" });
    this.answer = h("p", { role: "status" }, "Change a field to see when it would start.");
    this.element = h("section", { hidden: true }, h("h2", {}, "What if it asked for something else?"),
      h("div", { class: "fields" }, [...this.labels.values()]), this.suggestions, this.answer);
  }

  field(name, label, type) {
    const how = { name, "aria-label": label, on: { input: () => this.ask() } };
    return type === "list" ? h("select", how, h("option", { value: "" }, "as it is")) : h("input", { type, min: type === "number" ? "0" : null, ...how });
  }

  // Types of GPUs with their counts, and queues. A cluster without types has no such field.
  async list(job) {
    if (Date.now() - this.listedAt < LISTS_MS) return;
    this.listedAt = Date.now();
    const found = await this.get("/api/choices");
    const types = found.gpu_types.map((each) => [each.name, `${each.name}: ${each.free.toLocaleString("en")} of ${each.total.toLocaleString("en")} free`]);
    options(this.inputs.get("gpu_type"), job.gpu_types.join(" or ") || "any", types);
    this.labels.get("gpu_type").hidden = !types.length;
    options(this.inputs.get("queue"), job.queue, found.queues.filter((name) => name !== job.queue).map((name) => [name, name]));
    this.labels.get("queue").hidden = found.queues.length < 2;
  }

  suggest(job) {
    const requested = { nodes: job.replicas, gpus: job.request.gpu ? Math.round(job.request.gpu / job.replicas) : "", time: job.walltime ? `${Math.round(job.walltime / 60000)}m` : "none" };
    for (const [name, text] of Object.entries(requested)) this.inputs.get(name).placeholder = String(text);
    this.list(job).catch(() => {}); // without the lists it may still ask for another size
    if (this.id === job.id) return;
    this.id = job.id;
    this.suggestions.replaceChildren(...suggestionsFor(job).map(([text, changes]) => h("button", { type: "button", on: { click: () => this.fill(changes) } }, text)));
  }

  fill(changes) {
    for (const [name, input] of this.inputs) input.value = changes[name] ?? "";
    this.show();
  }

  ask() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.show(), PAUSE_MS);
  }

  async show() {
    for (const input of this.inputs.values()) input.removeAttribute("aria-invalid");
    const changes = [...this.inputs].filter(([, input]) => input.value.trim())
      .map(([name, input]) => `${name}='${input.value.trim().replaceAll("'", "")}'`).join(" ");
    if (!changes) { this.answer.textContent = "Change a field to see when it would start."; return; }
    const asked = `${this.path}?${new URLSearchParams({ what_if: changes })}`;
    try {
      const found = await this.get(asked);
      const { verdict, expected } = found.explanation;
      const when = starts({ eta: verdict?.eta ?? expected, certainty: verdict?.eta ? verdict.certainty : "expected" }, found.now);
      this.answer.textContent = verdict ? `It would wait: ${verdict.message}.${when ? ` It would start ${when}.` : ""}` : "It would start now.";
    } catch (error) {
      const wrong = this.wrongFields(error.message);
      for (const [name] of wrong) this.inputs.get(name).setAttribute("aria-invalid", "true");
      this.answer.textContent = error.message.replace("--what-if", wrong.map(([, label]) => label).join(" or "));
    }
  }

  // The filled fields whose value an error repeats; all filled ones where it repeats none.
  wrongFields(message) {
    const filled = FIELDS.filter(([name]) => this.inputs.get(name).value.trim());
    const named = filled.filter(([name]) => message.endsWith(`not '${this.inputs.get(name).value.trim()}'`) || message.endsWith(`not ${this.inputs.get(name).value.trim()}`));
    return named.length ? named : filled;
  }
}

// Fills a list, and keeps what is chosen. `asIs`: what the job asks for now.
function options(select, asIs, values) {
  const text = JSON.stringify([asIs, values]);
  if (select.text === text) return;
  const chosen = select.value;
  select.text = text;
  select.replaceChildren(h("option", { value: "" }, `as it is (${asIs})`), ...values.map(([value, name]) => h("option", { value, selected: value === chosen }, name)));
}

function suggestionsFor(job) {
  const half = Math.floor(job.replicas / 2);
  return [
    ...(half ? [[`${half} instead of ${job.replicas} replicas`, { nodes: half }]] : []),
    ...(job.walltime ? [["half the time", { time: `${Math.max(1, Math.round(job.walltime / 120_000))}m` }]] : [["a time limit of 1 h", { time: "1h" }]]),
  ];
}
