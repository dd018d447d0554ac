// The question "what if it had asked for something else", answered by the scheduler on its present state.
import { encodeId, h } from "./dom.js";
import { starts } from "./format.js";

const FIELDS = [["nodes", "Replicas", "number"], ["gpus", "GPUs each", "number"], ["gpu_type", "GPU type", "text"], ["time", "Time limit", "text"], ["queue", "Queue", "text"]];
const PAUSE_MS = 300;

export class WhatIf {
  constructor(id, get) {
    this.path = `/api/why/${encodeId(id)}`;
    this.get = get;
    this.inputs = new Map(FIELDS.map(([name, label, type]) => [name, h("input", { type, name, "aria-label": label, min: type === "number" ? "0" : null, on: { input: () => this.ask() } })]));
    this.suggestions = h("p", { class: "suggestions" });
    this.answer = h("p", { role: "status" }, "Change a field to see when it would start.");
    this.element = h("section", { hidden: true }, h("h2", {}, "What if it asked for something else?"),
      h("div", { class: "fields" }, FIELDS.map(([name, label]) => h("label", {}, label, this.inputs.get(name)))), this.suggestions, this.answer);
  }

  suggest(job) {
    const requested = { nodes: job.replicas, gpus: job.request.gpu ? Math.round(job.request.gpu / job.replicas) : "", queue: job.queue,
      gpu_type: job.gpu_types.join(","), time: job.walltime ? `${Math.round(job.walltime / 60000)}m` : "none" };
    for (const [name, input] of this.inputs) input.placeholder = String(requested[name]);
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
    const changes = [...this.inputs].filter(([, input]) => input.value.trim())
      .map(([name, input]) => `${name}='${input.value.trim().replaceAll("'", "")}'`).join(" ");
    if (!changes) { this.answer.textContent = "Change a field to see when it would start."; return; }
    const asked = `${this.path}?${new URLSearchParams({ what_if: changes })}`;
    try {
      const found = await this.get(asked);
      const { verdict, expected } = found.explanation;
      const when = starts({ eta: verdict?.eta ?? expected, certainty: verdict?.certainty === "UNKNOWN" ? "" : verdict?.certainty ?? "" }, found.now);
      this.answer.textContent = verdict ? `It would wait: ${verdict.message}.${when ? ` It would start ${when}.` : ""}` : "It would start now.";
    } catch (error) {
      this.answer.textContent = error.message;
    }
  }
}

function suggestionsFor(job) {
  const half = Math.floor(job.replicas / 2);
  return [
    ...(half ? [[`${half} instead of ${job.replicas} replicas`, { nodes: half }]] : []),
    ...(job.walltime ? [["half the time", { time: `${Math.max(1, Math.round(job.walltime / 120_000))}m` }]] : [["a time limit of 1 h", { time: "1h" }]]),
  ];
}
